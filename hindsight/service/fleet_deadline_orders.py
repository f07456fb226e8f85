"""Schedules in seconds of several replicas in which many requests are on time.

Each replica has the search of `deadline_orders` for all requests, with infinite weights of those
that it does not serve. Of the assignments of `hindsight.seconds.fleet_orders` the one with most on
time by the first rules counts. Then single weights move, or a request goes to another replica.
"""

from __future__ import annotations

import math
from copy import copy

import numpy as np

from hindsight.seconds.fleet_orders import FleetOrders
from instances import FleetSchedule, Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.fleet_schedule import by_replica
from instances.service_level import Limits

from .deadline_orders import REACH, REJECTED, SHAPES, DeadlineOrders, Rule, Weighted

STAYS = 0.5
"""Share of moves in which a request stays where it is."""


class FleetDeadlineOrders:
    """Search for replicas and weights of requests; used like `DeadlineOrders`."""

    def __init__(self, workload: Workload, limits: Limits, seed: int) -> None:
        self._fleet = workload
        self._rng = np.random.default_rng(seed)
        first = DeadlineOrders(workload.alone(), limits, seed)
        # More replicas than requests are of no use.
        used = min(workload.replicas, len(workload))
        self._machines = [first, *(copy(first) for _ in range(used - 1))]
        best = -1
        for assignment in FleetOrders(workload, seed).assignments():
            own = [np.isin(np.arange(len(workload)), one) for one in by_replica(assignment, used)]
            most = np.array(
                [
                    [first.run(np.where(one, weight, math.inf), rule)[0] for one in own]
                    for weight, rule in self.rules()[: len(SHAPES)]
                ]
            )
            if most.max(axis=0).sum() > best:
                best, self._own = int(most.max(axis=0).sum()), own
        self._counts = np.zeros(used, dtype=np.int64)

    @property
    def count(self) -> int:
        """Requests on time in the best runs so far."""
        return sum(max(0, one.count) for one in self._machines)

    def rules(self) -> list[Weighted]:
        """Return weights and rules to open with; the first ones differ most."""
        return self._machines[0].rules()

    def offer(self, weight: FloatArray, rule: Rule) -> None:
        """Run on every replica, and remember the best rule of each."""
        for machine, own in zip(self._machines, self._own, strict=True):
            machine.offer(np.where(own, weight, math.inf), rule)

    def reject(self) -> None:
        """Serve nobody who is late."""
        for machine in self._machines:
            machine.reject()

    def begin(self) -> FloatArray:
        """Return the best weights so far by replica, to move, shape (replicas, n)."""
        self._counts = np.array([one.count for one in self._machines])
        return np.array([one.begin() for one in self._machines])

    def move(self, weight: FloatArray, present: int) -> int:
        """Move one request, in place; return how many are on time, if it is undone ``present``."""
        rng, machines = self._rng, self._machines
        late = np.flatnonzero(~np.any([one.on_time > 0 for one in machines], axis=0))
        pool = late if len(late) and rng.random() < 0.5 else np.arange(weight.shape[1])
        i = int(rng.choice(pool))
        column = weight[:, i]
        served = np.flatnonzero(np.isfinite(column))
        there = int(rng.integers(len(column)))
        if len(served) and rng.random() < STAYS:
            there = int(served[0])
        after = np.full(len(column), math.inf)
        if not len(served) or rng.random() >= REJECTED:
            old = float(column[served[0]]) if len(served) else machines[there].typical
            after[there] = old * math.exp(rng.normal(0.0, REACH))
        counts, old_column = self._counts.copy(), column.copy()
        weight[:, i] = after
        for k in {there, *served.tolist()}:
            counts[k] = machines[k].run(weight[k], machines[k].rule)[0]
        if counts.sum() < present:
            weight[:, i] = old_column
            return present
        self._counts = counts
        if counts.sum() > self.count:
            for machine, own in zip(machines, weight, strict=True):
                machine.count = -1
                machine.offer(own, machine.rule)
        return int(counts.sum())

    def schedule(self) -> tuple[FleetSchedule, IntArray] | None:
        """Return a schedule of the requests on time alone, and their positions; None for none."""
        found = [machine.schedule() for machine in self._machines]
        assignment = np.full(len(self._fleet), -1)
        for k, one in enumerate(found):
            if one is not None:
                assignment[one[1]] = k
        served = np.flatnonzero(assignment >= 0)
        if not len(served):
            return None
        parts = [None if one is None else one[0] for one in found]
        parts += [None] * (self._fleet.replicas - len(parts))
        return FleetSchedule(self._fleet.of(served), assignment[served], parts), served

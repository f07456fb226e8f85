"""Schedules in seconds of several replicas: who serves which request, and in which order.

*Assignments*: requests go, in order of arrival, to the replica where they cost least. There a
machine of speed 1 serves the shortest charges first (`machine_bounds`), and a request costs what is
left of shorter ones and its own charge for each longer one (Megow, Uetz and Vredeveld, 2006). A
long prompt delays all that run beside it, and fewer run where prompts are long. So replicas have
ranges of prompts of their own, with equal work, and a request costs more the farther it is from
its range. Or only these count, or requests are dealt out in turn.

*Orders* are those of `order_search` and `preemptive_orders`, with one rule for all replicas.
Annealing then changes the key of a request, sends it elsewhere, or swaps it for one that arrives at
about the same time. Only the replicas touched are scheduled again.

Deterministic: the schedule after k moves depends on the arguments and the seed alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from instances import FleetSchedule, SecondsSchedule, Workload
from instances.arrays import FloatArray, IntArray, read_only
from instances.batch_time import BatchTime
from instances.batch_time.seconds_schedule import COLUMNS
from instances.problem.fleet_schedule import by_replica
from instances.problem.memory_translation import restricted

from .minorants import own_seconds
from .order_search import FRUITLESS, SecondsOrders, run_order
from .preemptive_orders import (
    COOLING,
    EXPONENTS,
    FIRST_CYCLE,
    HOT,
    REACH,
    Charges,
    Rounds,
    Rule,
    machine_seconds,
    run_preemptive,
)

CLASSES = 24
"""Classes of charges in an assignment by cost."""

AFFINITIES = (0.2, 0.0)
"""Costs of a range of prompts farther off, in charges of the request for each one that is there."""

RANGE_POWER = 0.7
"""Power of charges that all ranges of prompts have alike."""

NEIGHBOURS = 3
"""Requests of each replica that arrive next to one that may be swapped for it, on either side."""

KEY_SHARE, SEND_SHARE = 0.4, 0.7
"""Share of moves that change a key; and of those that change one or send a request elsewhere."""

TOLD = 1e-3
"""Share of the total that a schedule has to gain to be built before a cycle is over."""


_NOTHING: IntArray = np.empty((0, len(COLUMNS)), np.int64)
"""Stretches that are not to be written."""


class _Way(NamedTuple):
    """Logarithms of keys, or of weights where requests are preempted, and the rule."""

    preempts: bool
    key: FloatArray
    rule: Rule


class FleetOrders:
    """Search for assignments and orders of one workload; used like `SecondsOrders`.

    Parameters
    ----------
    workload : Workload
        The requests.
    batch_time : BatchTime
        Seconds of each round.
    seed : int
        Seed of the annealing.
    recomputes : bool, default False
        Whether a request that leaves the cache processes prompt and tokens again.

    Attributes
    ----------
    cycle : int
        Number of annealings completed.
    """

    def __init__(
        self, workload: Workload, batch_time: BatchTime, seed: int, recomputes: bool = False
    ) -> None:
        self._fleet, self._batch_time, self._recomputes = workload, batch_time, recomputes
        self._rng = np.random.default_rng(seed)
        self._orders = SecondsOrders(workload.alone(), batch_time, seed, recomputes)
        self._rounds = self._orders.rounds
        self._rates = machine_seconds(self._rounds)
        self._charges = own_seconds(self._rounds.prompt, self._rounds.output, 0.0, *self._rates)
        self._assignment = np.zeros(len(workload), dtype=np.int64)
        self._totals = np.full(workload.replicas, math.inf)
        self._way = _Way(False, self._charges, Rule(0, math.inf))
        self.cycle = 0

    def openings(self, should_stop: Callable[[], bool]) -> FleetSchedule:
        """Return the best of all assignments, orders and caps tried in time.

        All orders are tried with the first assignment, and the best one with the others.
        """
        assignment = self._by_cost(AFFINITIES[0])
        for way in self._ways():
            self._offer(assignment, way)
            if should_stop():
                return self._schedule()
        for other in (self._in_turn, self._by_prompt, partial(self._by_cost, AFFINITIES[1])):
            if should_stop():
                break
            self._offer(other(), self._way)
        return self._schedule()

    def anneal(self, should_stop: Callable[[], bool]) -> Iterator[FleetSchedule]:
        """Yield better and better schedules; end after `FRUITLESS` cycles without any."""
        fruitless = 0
        while fruitless < FRUITLESS and not should_stop():
            fruitless += 1
            told = begun = self._total
            for total in self._moves(should_stop):
                if total < told * (1 - TOLD):
                    told = total
                    yield self._schedule()
            if self._total < told:
                yield self._schedule()
            if self._total < begun:
                fruitless = 0
            self.cycle += 1

    @property
    def _total(self) -> float:
        return float(self._totals.sum())

    def _by_cost(self, affinity: float) -> IntArray:
        """Return the assignment to where a request costs least."""
        a, charges, logs = self._rounds.arrival, self._charges, np.log(self._charges)
        place = ((logs - logs.min()) / (np.ptp(logs) + 1e-9) * CLASSES).astype(np.int64)
        counts = np.bincount(place, minlength=CLASSES)
        typical = np.bincount(place, charges, CLASSES) / np.maximum(1, counts)
        typical[typical == 0] = 1.0
        # No more replicas than requests are of use.
        used = min(self._fleet.replicas, len(a))
        ranges = self._ranges
        work, dealt, now = np.zeros((used, CLASSES)), np.zeros(used, dtype=np.int64), 0.0
        assignment = np.zeros(len(a), dtype=np.int64)
        for i in self._in_order.tolist():
            left = np.maximum(np.cumsum(work, axis=1) - (a[i] - now), 0.0)
            work, now, c = np.diff(left, axis=1, prepend=0.0), a[i], place[i]
            there = work / typical
            cost = left[:, c] + charges[i] * there[:, c + 1 :].sum(axis=1)
            far = np.abs(ranges[i] * used - (np.arange(used) + 0.5))
            cost += affinity * far * charges[i] * (1 + there.sum() / used)
            best = np.lexsort((dealt, cost))[0]
            assignment[i] = best
            work[best, c] += charges[i]
            dealt[best] += 1
        return assignment

    @property
    def _ranges(self) -> FloatArray:
        """Place of each request between 0 and 1, by its prompt, with work evenly spread."""
        order = np.argsort(self._rounds.prompt, kind="stable")
        work = self._charges[order] ** RANGE_POWER
        place = np.empty(len(order))
        place[order] = (np.cumsum(work) - 0.5 * work) / work.sum()
        return place

    def _by_prompt(self) -> IntArray:
        """Return the assignment to ranges of prompts."""
        replicas = self._fleet.replicas
        return np.minimum((self._ranges * replicas).astype(np.int64), replicas - 1)

    def _in_turn(self) -> IntArray:
        """Return the assignment that deals requests out to one replica after the other."""
        assignment = np.empty(len(self._fleet), dtype=np.int64)
        assignment[self._in_order] = np.arange(len(assignment)) % self._fleet.replicas
        return assignment

    @property
    def _in_order(self) -> IntArray:
        """Requests by arrival, then by charge."""
        return np.lexsort((self._charges, self._rounds.arrival))

    def _ways(self) -> Iterator[_Way]:
        """Yield the orders to try; as in `SecondsOrders` none preempts under other memory rules."""
        rules = self._orders.rules()
        for key in self._orders.list_keys():
            yield from (_Way(False, key, rule) for rule in rules)
        if restricted(self._fleet) is self._fleet:
            logs = np.log(self._charges)
            for exponent in EXPONENTS:
                yield from (_Way(True, exponent * logs, rule) for rule in rules)

    def _offer(self, assignment: IntArray, way: _Way) -> None:
        """Take an assignment and an order if they are better."""
        totals, left = np.zeros(self._fleet.replicas), self._total
        for replica, own in enumerate(by_replica(assignment, len(totals))):
            totals[replica] = self._run(own, way, left)
            left -= totals[replica]
            if left <= 0:
                return
        self._assignment, self._way, self._totals = assignment, way, totals

    def _moves(self, should_stop: Callable[[], bool]) -> Iterator[float]:
        """Run one annealing; yield better and better totals."""
        n, rng = len(self._fleet), self._rng
        moves = FIRST_CYCLE << self.cycle
        way, present, totals = self._way, self._assignment, self._totals
        hot = HOT * self._total / n / (1 + self.cycle)
        for move in range(moves):
            if should_stop():
                return
            allowed = float(totals.sum()) + hot * COOLING ** (move / moves) * rng.exponential()
            assignment, changed, touched = self._proposal(present, way)
            after = totals.copy()
            after[touched] = 0.0
            for replica in touched:
                own = np.flatnonzero(assignment == replica)
                after[replica] = self._run(own, changed, allowed - float(after.sum()))
            if not touched or after.sum() > allowed:
                continue
            way, present, totals = changed, assignment, after
            if totals.sum() < self._total:
                self._way, self._assignment, self._totals = way, present, totals
                yield self._total

    def _proposal(self, assignment: IntArray, way: _Way) -> tuple[IntArray, _Way, list[int]]:
        """Return a change of an assignment or of a key, and the replicas that it touches."""
        n, replicas, rng = len(assignment), self._fleet.replicas, self._rng
        i, kind = int(rng.integers(n)), rng.random()
        here = int(assignment[i])
        if kind < KEY_SHARE:
            key = way.key.copy()
            key[i] += rng.normal(0.0, REACH)
            return assignment, way._replace(key=key), [here]
        after = assignment.copy()
        if kind < SEND_SHARE:
            there = (here + int(rng.integers(1, replicas))) % replicas
        else:
            far = NEIGHBOURS * replicas
            j = min(max(i + int(rng.integers(-far, far + 1)), 0), n - 1)
            there = int(assignment[j])
            after[j] = here
        after[i] = there
        return after, way, [] if here == there else [here, there]

    def _run(self, own: IntArray, way: _Way, bound: float) -> float:
        """Return the total latency of requests on one replica, infinite once above ``bound``."""
        if not len(own):
            return 0.0
        rounds = self._own_rounds(own)
        if way.preempts:
            return run_preemptive(rounds, self._own_charges(own, way), way.rule, bound, _NOTHING)[0]
        return run_order(rounds, way.key[own], way.rule, bound, np.empty_like(own))

    def _own_rounds(self, own: IntArray) -> Rounds:
        # Read-only, as those that the loops are compiled for.
        a, s, o = (read_only(one[own]) for one in self._rounds[:3])
        return self._rounds._replace(arrival=a, prompt=s, output=o)

    def _own_charges(self, own: IntArray, way: _Way) -> Charges:
        return Charges(np.exp(way.key[own]), *self._rates, self._recomputes)

    def _schedule(self) -> FleetSchedule:
        parts = [
            self._part(own) if len(own) else None
            for own in by_replica(self._assignment, self._fleet.replicas)
        ]
        return FleetSchedule(self._fleet, self._assignment, parts)

    def _part(self, own: IntArray) -> SecondsSchedule:
        """Return the schedule of the requests of one replica."""
        workload, way, rounds = self._fleet.alone(own), self._way, self._own_rounds(own)
        if not way.preempts:
            starts = np.empty_like(own)
            run_order(rounds, way.key[own], way.rule, math.inf, starts)
            return SecondsSchedule.from_start_rounds(workload, self._batch_time, starts)
        charges, table = self._own_charges(own, way), _NOTHING
        _, rows = run_preemptive(rounds, charges, way.rule, math.inf, table)
        table = np.empty((rows, len(COLUMNS)), np.int64)
        run_preemptive(rounds, charges, way.rule, math.inf, table)
        return SecondsSchedule(workload, self._batch_time, table)

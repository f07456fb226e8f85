"""Schedules in seconds of several replicas: who serves which request, and in which order.

*Assignments*: requests go, in order of arrival, to the replica where they cost least. There a
machine of speed 1 serves the shortest charges first (`machine_bounds`), and a request costs what is
left of shorter ones and its own charge for each longer one (Megow, Uetz and Vredeveld, 2006). A
long prompt delays all that run beside it, and fewer run where prompts are long. So replicas have
ranges of prompts of their own, with equal work, and a request costs more the farther it is from
its range. Or only these count, or requests are dealt out in turn.

*Orders* are those of `order_search` and `preemptive_orders`, the best one of each replica.
Annealing then changes the key of a request, sends it elsewhere, or swaps it for one that arrives at
about the same time. Only the replicas touched are scheduled again.

Deterministic: the schedule after k moves depends on the arguments and the seed alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from hindsight.prices.minorants import own_seconds
from instances import FleetSchedule, SecondsSchedule, Workload
from instances.arrays import FloatArray, IntArray, read_only
from instances.batch_time.seconds_schedule import COLUMNS
from instances.problem.fleet_schedule import by_replica
from instances.problem.memory_translation import restricted

from .order_search import FRUITLESS, SecondsOrders, run_order
from .preemptive_orders import (
    COOLING,
    EXPONENTS,
    FIRST_CYCLE,
    HOT,
    REACH,
    Charges,
    Rule,
    machine_seconds,
    run_preemptive,
)

CLASSES = 24
"""Classes of charges in an assignment by cost."""

AFFINITIES = (0.2, 0.0)
"""Costs of a range of prompts farther off, in charges of the request for each one that is there."""

SHORTLIST = 12
"""Orders that are tried with all assignments but the first."""

RANGE_POWER = 0.7
"""Power of charges that all ranges of prompts have alike."""

NEIGHBOURS = 3
"""Requests of each replica that arrive next to one that may be swapped for it, on either side."""

KEY_SHARE, SEND_SHARE = 0.4, 0.7
"""Share of moves that change a key; and of those that change one or send a request elsewhere."""


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
        The requests, with their batch time.
    seed : int
        Seed of the annealing.
    recomputes : bool, default False
        Whether a request that leaves the cache processes prompt and tokens again.

    Attributes
    ----------
    cycle : int
        Number of annealings completed.
    """

    def __init__(self, workload: Workload, seed: int, recomputes: bool = False) -> None:
        self._fleet, self._recomputes = workload, recomputes
        self._rng = np.random.default_rng(seed)
        self._orders = SecondsOrders(workload.alone(), seed, recomputes)
        self._rounds = self._orders.rounds
        self._rates = machine_seconds(self._rounds)
        self._charges = own_seconds(self._rounds.prompt, self._rounds.output, 0.0, *self._rates)
        self._assignment = np.zeros(len(workload), dtype=np.int64)
        # More replicas than requests are of no use.
        self._totals = np.full(min(workload.replicas, len(workload)), math.inf)
        self._ways: list[_Way] = []
        self.cycle = 0

    def openings(self, should_stop: Callable[[], bool]) -> FleetSchedule:
        """Return the best of all assignments, orders and caps tried in time.

        All orders are tried with the first assignment, those that were best with the others.
        """
        ways = list(self._all_ways())
        for number, assignment in enumerate(self.assignments()):
            sums = []
            parts = by_replica(assignment, len(self._totals))
            totals, chosen = np.full(len(parts), math.inf), [ways[0]] * len(parts)
            for way in ways:
                found = np.array([self._run(own, way, math.inf) for own in parts])
                sums.append(found.sum())
                for replica in np.flatnonzero(found < totals).tolist():
                    totals[replica], chosen[replica] = found[replica], way
                if should_stop():
                    break
            if totals.sum() < self._total:
                self._assignment, self._totals, self._ways = assignment, totals, chosen
            if should_stop():
                break
            if number == 0:
                ways = [ways[place] for place in np.argsort(sums, kind="stable")[:SHORTLIST]]
        return self._schedule()

    def anneal(self, should_stop: Callable[[], bool]) -> Iterator[FleetSchedule]:
        """Yield a better schedule after a cycle; end after `FRUITLESS` cycles without any."""
        fruitless = 0
        while fruitless < FRUITLESS and not should_stop():
            fruitless += 1
            before = self._total
            self._move(should_stop)
            if self._total < before:
                fruitless = 0
                yield self._schedule()
            self.cycle += 1

    @property
    def _total(self) -> float:
        return float(self._totals.sum())

    def assignments(self) -> Iterator[IntArray]:
        """Yield assignments by rules that differ most."""
        yield self._by_cost(AFFINITIES[0])
        yield self._by_cost(AFFINITIES[1])
        # Dealt out in turn, those that arrive together by their charges; and by prompts alone.
        in_turn, replicas = np.empty_like(self._assignment), len(self._totals)
        in_turn[self._in_order] = np.arange(len(in_turn)) % replicas
        yield in_turn
        yield np.minimum((self._ranges * replicas).astype(np.int64), replicas - 1)

    def _by_cost(self, affinity: float) -> IntArray:
        """Return the assignment to where a request costs least."""
        a, charges, logs = self._rounds.arrival, self._charges, np.log(self._charges)
        place = ((logs - logs.min()) / (np.ptp(logs) + 1e-9) * CLASSES).astype(np.int64)
        counts = np.bincount(place, minlength=CLASSES)
        typical = np.bincount(place, charges, CLASSES) / np.maximum(1, counts)
        typical[typical == 0] = 1.0
        ranges, replicas = self._ranges, len(self._totals)
        work, dealt, now = np.zeros((replicas, CLASSES)), np.zeros(replicas, dtype=np.int64), 0.0
        assignment = np.zeros(len(a), dtype=np.int64)
        for i in self._in_order.tolist():
            left = np.maximum(np.cumsum(work, axis=1) - (a[i] - now), 0.0)
            work, now, c = np.diff(left, axis=1, prepend=0.0), a[i], place[i]
            there = work / typical
            cost = left[:, c] + charges[i] * there[:, c + 1 :].sum(axis=1)
            far = np.abs(ranges[i] * replicas - (np.arange(replicas) + 0.5))
            cost += affinity * far * charges[i] * (1 + there.sum() / replicas)
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

    @property
    def _in_order(self) -> IntArray:
        """Requests by arrival, then by charge."""
        return np.lexsort((self._charges, self._rounds.arrival))

    def _all_ways(self) -> Iterator[_Way]:
        """Yield the orders to try; as in `SecondsOrders` none preempts under other memory rules."""
        rules = self._orders.rules()
        for key in self._orders.list_keys():
            yield from (_Way(False, key, rule) for rule in rules)
        if restricted(self._fleet) is self._fleet:
            logs = np.log(self._charges)
            for exponent in EXPONENTS:
                yield from (_Way(True, exponent * logs, rule) for rule in rules)

    def _move(self, should_stop: Callable[[], bool]) -> None:
        """Run one annealing, and keep the best that it meets."""
        moves = FIRST_CYCLE << self.cycle
        ways, present, totals = self._ways, self._assignment, self._totals
        hot = HOT * self._total / len(present) / (1 + self.cycle)
        for move in range(moves):
            if should_stop():
                return
            heat = hot * COOLING ** (move / moves) * self._rng.exponential()
            allowed = float(totals.sum()) + heat
            assignment, changed, touched = self._proposal(present, ways)
            after = totals.copy()
            after[touched] = 0.0
            for k in touched:
                own = np.flatnonzero(assignment == k)
                after[k] = self._run(own, changed[k], allowed - float(after.sum()))
            if not touched or after.sum() > allowed:
                continue
            ways, present, totals = changed, assignment, after
            if totals.sum() < self._total:
                self._ways, self._assignment, self._totals = ways, present, totals

    def _proposal(
        self, assignment: IntArray, ways: list[_Way]
    ) -> tuple[IntArray, list[_Way], list[int]]:
        """Return a change of an assignment or of a key, and the replicas that it touches."""
        n, replicas, rng = len(assignment), len(ways), self._rng
        i, kind = int(rng.integers(n)), rng.random()
        here = int(assignment[i])
        if kind < KEY_SHARE:
            key = ways[here].key.copy()
            key[i] += rng.normal(0.0, REACH)
            return (
                assignment,
                [*ways[:here], ways[here]._replace(key=key), *ways[here + 1 :]],
                [here],
            )
        after = assignment.copy()
        if kind < SEND_SHARE:
            there = int(rng.integers(replicas))
        else:
            far = NEIGHBOURS * replicas
            j = min(max(i + int(rng.integers(-far, far + 1)), 0), n - 1)
            there = int(assignment[j])
            after[j] = here
        after[i] = there
        return after, ways, [] if here == there else [here, there]

    def _run(self, own: IntArray, way: _Way, bound: float) -> float:
        """Return the total latency of requests on one replica, infinite once above ``bound``."""
        if not len(own):
            return 0.0
        return self._serve(own, way, bound, _NOTHING if way.preempts else np.empty_like(own))[0]

    def _serve(
        self, own: IntArray, way: _Way, bound: float, written: IntArray
    ) -> tuple[float, int]:
        """Write starts or stretches; return the total latency and the number of stretches."""
        # Read-only, as those that the loops are compiled for.
        a, s, o = (read_only(one[own]) for one in self._rounds[:3])
        rounds = self._rounds._replace(arrival=a, prompt=s, output=o)
        key = way.key[own]
        if not way.preempts:
            return run_order(rounds, key, way.rule, bound, written), 0
        charges = Charges(np.exp(key), *self._rates, self._recomputes)
        return run_preemptive(rounds, charges, way.rule, bound, written)

    def _schedule(self) -> FleetSchedule:
        parts = [
            self._part(own, way) if len(own) else None
            for own, way in zip(
                by_replica(self._assignment, len(self._ways)), self._ways, strict=True
            )
        ]
        parts += [None] * (self._fleet.replicas - len(parts))
        return FleetSchedule(self._fleet, self._assignment, parts)

    def _part(self, own: IntArray, way: _Way) -> SecondsSchedule:
        """Return the schedule of the requests of one replica."""
        workload = self._fleet.alone(own)
        if not way.preempts:
            starts = np.empty_like(own)
            self._serve(own, way, math.inf, starts)
            return SecondsSchedule.from_start_rounds(workload, starts)
        _, rows = self._serve(own, way, math.inf, _NOTHING)
        table = np.empty((rows, len(COLUMNS)), np.int64)
        self._serve(own, way, math.inf, table)
        return SecondsSchedule(workload, table)


def orders_of(
    workload: Workload, seed: int, recomputes: bool = False
) -> SecondsOrders | FleetOrders:
    """Return the search for schedules of a workload, on one machine or several."""
    kind = SecondsOrders if workload.replicas == 1 else FleetOrders
    return kind(workload, seed, recomputes)

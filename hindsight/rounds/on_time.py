"""Maximise the requests on time in rounds: prices, schedules, and an integer program.

In rounds every service level amounts to a latest start for each request. A scheduler may drop late
requests, or serve them after all others. Either way the same requests can be on time, so the
optimum is the same.

**Bound.** For prices lambda_r >= 0 of a token in round r, let p_i be the least that request i pays
for a start t in time, sum_r lambda_r (s_i + r - t). Requests on time pay M sum_r lambda_r together
at most, so

    requests late >= sum_i min(1, p_i) - M sum_r lambda_r:

the bound of `hindsight.prices.tokens`, with the latency of each start replaced by 0 and a cost of 1
for a request that does not start. *Proof.* The terms of requests on time are at most what they pay,
and those of late ones at most 1. [] It is evaluated in integers and rounded up.

**Gaps.** If requests arrive far apart, the search removes most of the rounds between them. The
blocks below are those of `hindsight.prices.idle_gaps`. *Proof that as many are on time.* Take the
requests of one block that are on time in a schedule, and remove each round after the block's latest
arrival in which none of them runs. Nothing starts later than before, so all are on time still, and
they are complete by E. So blocks do not meet. [] With two rounds kept for each round of work, late
requests also find a place in their block: from E on, one after another if need be.

**Replicas.** The bound is that of one machine with the memory of all replicas: in rounds every
schedule of the fleet is also feasible there (`instances.problem.memory_translation.pooled`). The
integer program models each replica (`hindsight.exact.starts`). Gaps are removed as for one machine,
because the proof above holds on each replica.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from hindsight.exact.program import Program
from hindsight.exact.starts import latest_starts, start_sets
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.proofs import NO_PRICES, MemoryPrices
from hindsight.outcomes.result import MEMORY_PRICES, STATE_PRICES
from hindsight.prices.ascent import Evaluation, Stage, ascend
from hindsight.prices.idle_gaps import compress, next_block_begins
from hindsight.prices.starts import without_latency
from hindsight.prices.state_ascent import StateAscent, fits
from hindsight.prices.states import SCALE, start_values
from hindsight.prices.tokens import PricedCosts, TokenDual, round_prices
from hindsight.prices.volume import LONGEST_PRICES
from hindsight.runtime.search import Search
from hindsight.schedules.cycles import RuinAndRecreate, improved
from hindsight.schedules.timetables import (
    LONGEST_PROFILE,
    place,
    requests_of,
    schedule_on,
    timetable,
)
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray
from instances.problem.fleet_schedule import by_replica
from instances.problem.memory_translation import pooled, restricted

from .program import search_program

HEATS = (0.3, 0.1, 0.03, 0.01, 0.003)
"""Smoothing temperatures of the dual ascent, in late requests."""

STEPS = 150
"""Ascent steps at each temperature."""

LARGEST_PROGRAM = 3_000_000
"""Most non-zeros in the memory rows of a program with all starts in time. From larger ones, reduced
costs are not expected to leave a program small enough."""

ALONE, VOLUMES = "requests alone", "smallest volumes"
"""Names of two bounds on late requests: requests late even alone, and the volume of memory."""

ROOM = 2
"""Rounds kept after the latest arrival of a block, per output token of its requests."""

FIRST_SHARE, STATES_SHARE, SEARCH_SHARE = 0.1, 0.5, 0.3
"""Shares of the time left: for schedules before the price ascents, for the ascent of state prices,
and for schedules after it if an integer program follows."""

LATE_ROUNDS = 100
"""Cost of a late request in state prices, whose temperatures and steps are in rounds."""

FADES, STATE_STEPS = (1.0, 0.5, 0.25, 0.12, 0.06), 60
"""Factors on the temperatures and step sizes of the ascent, by stage, and iterations per stage."""


def close_on_time(interval: Interval, search: Search) -> None:
    """Improve the bounds until their gap is as small as requested or no method improves them."""
    _OnTime(interval, search).run()


def with_late(interval: Interval) -> Schedule | FleetSchedule:
    """Return the best schedule, with each late request at its first start that fits.

    Late requests are placed in the order of their volume, without idle gaps. If there are too many
    rounds to search, or a request finds no place in its own block, they are assigned to the
    replicas in turn and run one after another once the requests on time are complete.
    """
    problem: Instance = interval.source
    moved = compress(problem, ROOM)
    beside = restricted(moved.instance)
    starts = np.full(len(problem), -1, dtype=np.int64)
    assignment = np.zeros(len(problem), dtype=np.int64)
    if interval.schedule is not None:
        best, served = interval.schedule, interval.served
        starts[served] = best.start_times
        if isinstance(best, FleetSchedule):
            assignment[served] = best.assignment
    order = np.argsort(np.where(starts < 0, problem.volumes, -1), kind="stable")
    late = order[len(interval.served) :]
    assignment[late] = np.arange(len(late)) % problem.replicas
    within = np.where(starts < 0, -1, starts - moved.shifts)
    rounds = int(beside.arrival_times.max() + beside.output_lengths.sum()) + 2
    rounds += int(within.max())
    if rounds * problem.replicas <= LONGEST_PROFILE:
        requests = requests_of(beside)
        table = timetable(requests, within, assignment, (problem.replicas, rounds))
        place(requests, table, late)
        found = schedule_on(problem, table.machines, table.starts + moved.shifts)
        if found.is_feasible:
            return found
    a, o = problem.arrival_times.tolist(), problem.output_lengths
    for replica, own in enumerate(by_replica(assignment, problem.replicas)):
        served = own[starts[own] >= 0]
        end = int((starts[served] + o[served]).max(initial=0))
        for i in late[assignment[late] == replica].tolist():
            starts[i] = max(end, a[i])
            end = int(starts[i] + o[i])
    return schedule_on(problem, assignment, starts)


class _OnTime:
    """Solver for the requests that would be on time if served alone, in phases."""

    def __init__(self, interval: Interval, search: Search) -> None:
        problem: Instance = interval.source
        limits = interval.problem.limits
        assert limits is not None
        last = latest_starts(problem, limits)
        self._interval, self._search = interval, search
        self._able = np.flatnonzero(last >= problem.arrival_times)
        self._hopeless = len(problem) - len(self._able)
        interval.prove(self._hopeless, ALONE)
        if not len(self._able):
            return
        moved = compress(problem, ROOM)
        self._shifts = moved.shifts[self._able]
        self._instance = moved.instance.of(self._able)
        ends = next_block_begins(moved)[self._able]
        a, o = self._instance.arrival_times, self._instance.output_lengths
        ends = np.minimum(ends, a.max() + o.sum())
        self._last = np.minimum(last[self._able] - self._shifts, ends - o)
        self._rounds = int((self._last + self._instance.output_lengths).max())
        self._below = pooled(self._instance)
        self._classes = without_latency(self._below)
        self._placing = RuinAndRecreate(restricted(self._instance), search.seed, last=self._last)

    def run(self) -> None:
        """Run the phases: first schedules, prices, more schedules, and the integer program."""
        interval = self._interval
        if not len(self._able):
            return
        interval.prove(len(interval.source) - self._most_by_volume(), VOLUMES)
        self._place_first()
        # For small instances these schedules are mostly optimal: only the bound is missing.
        self._place(FIRST_SHARE, patient=False)
        if interval.is_done():
            return
        interval.phase = "prices"
        prices = self._ascend()
        if interval.is_done():
            return
        if prices is not None:
            self._placing.use_prices(prices.as_floats())
        late = self._ascend_on_states()
        if late is None and self._entries() <= LARGEST_PROGRAM:
            late = _Late.by_memory(self._below, prices or NO_PRICES, self._last)
        interval.phase = "schedules"
        self._place(1.0 if late is None else SEARCH_SHARE)
        if late is not None and not interval.is_done():
            interval.phase = "program"
            self._solve_program(late)
            interval.phase = "schedules"
            self._place(1.0)

    def _place(self, share: float, *, patient: bool = True) -> None:
        """Search for schedules for a share of the time left, or until they no longer improve.

        With ``patient`` False the search stops without improvements even if time is left.
        """
        interval = self._interval
        left = interval.clock.limit_left()
        limited = patient and left is not None
        with interval.clock.within(math.inf if left is None else share * left):
            for found in improved(self._placing, interval.is_done, patient=limited):
                self._offer(found.starts, found.machines)

    def _place_first(self) -> None:
        """Offer list schedules in the order of five sort keys to the interval."""
        volumes, a = self._instance.volumes, self._instance.arrival_times
        last, output = self._last, self._instance.output_lengths
        for key in (volumes, last, a, volumes / (last + output - a), last - output):
            if self._placing.place(np.argsort(key, kind="stable")):
                self._offer(self._placing.starts, self._placing.machines)

    def _offer(self, starts: IntArray, replicas: IntArray) -> None:
        """Offer a schedule to the interval, without the requests whose start is -1."""
        placed = np.flatnonzero(starts >= 0)
        if len(placed):
            served = self._able[placed]
            problem: Instance = self._interval.source
            within = starts[placed] + self._shifts[placed]
            part = schedule_on(problem.of(served), replicas[placed], within)
            self._interval.offer(part, served)

    def _most_by_volume(self) -> int:
        """Return how many of the smallest volumes fit between the first arrival and the last round.

        On large instances the time may end before prices prove as good a bound.
        """
        instance = self._below
        rounds = self._rounds - int(instance.arrival_times.min())
        held = accumulate(sorted(instance.volumes.tolist()))
        return bisect_right(list(held), instance.memory_limit * rounds)

    def _entries(self) -> int:
        """Return the number of non-zeros in the memory rows of a program of all starts in time."""
        counts = self._last - self._instance.arrival_times + 1
        return int((counts * self._instance.output_lengths).sum())

    def _ascend(self) -> MemoryPrices | None:
        """Improve memory prices by dual ascent; return the best, or None for too many rounds."""
        interval, instance = self._interval, self._below
        rounds = self._rounds
        if rounds > LONGEST_PRICES:
            return None
        volumes = instance.prompt_lengths + instance.output_lengths / 2
        flat = 0.5 / float((volumes * instance.output_lengths).mean())
        dual = TokenDual(
            self._classes,
            instance.memory_limit,
            rounds,
            final=self._last,
            penalty=1.0,
            must_stop=lambda: interval.is_done(),
        )
        best: MemoryPrices | None = None

        def stepped(x: FloatArray, found: Evaluation) -> bool:
            nonlocal best
            # Bounds are integers, so most steps do not change them.
            if (
                best is None
                or self._hopeless + math.ceil(found.value - 1e-9) > interval.lower_bound
            ):
                late, prices = self._late(dual.prices(x))
                if best is None or self._hopeless + late > interval.lower_bound:
                    best = prices
                interval.prove(self._hopeless + late, MEMORY_PRICES)
            return bool(interval.is_proved or interval.is_close)

        first = dual.variables(np.full(rounds, flat))
        stages = tuple(Stage(STEPS, (heat, heat), tolerance=1e-7) for heat in HEATS)
        ascend(dual.evaluate, first, stages, stepped=stepped, must_stop=interval.is_done)
        return best

    def _late(self, prices: FloatArray) -> tuple[int, MemoryPrices]:
        """Return a lower bound on late requests from memory prices, and these prices in integers.

        Requests that are late even alone do not count.
        """
        exact = round_prices(prices, self._below)
        costs = PricedCosts(self._below, exact, self._classes)
        least = np.minimum(costs.cheapest(self._last), exact.denominator)
        paid = self._below.memory_limit * sum(exact.numerators.tolist())
        late: int = -(-(sum(least.tolist()) - paid) // exact.denominator)
        return late, exact

    def _ascend_on_states(self) -> _Late | None:
        """Improve state prices by dual ascent; return the best bound, or None if M is too large."""
        interval, instance = self._interval, self._below
        if not fits(instance, self._rounds):
            return None
        left = interval.clock.limit_left()
        best: _Late | None = None
        with interval.clock.within(math.inf if left is None else STATES_SHARE * left):
            ascent = StateAscent(
                instance,
                self._rounds,
                threads=self._search.cores,
                last=self._last,
                penalty=float(LATE_ROUNDS),
                must_stop=interval.is_done,
            )
            for fade in (0.0, *FADES):
                if fade and not interval.is_done():
                    ascent.improve(STATE_STEPS, fade, interval.is_done)
                found = _Late.by_states(instance, ascent, self._last)
                if best is None or found.value > best.value:
                    best = found
                interval.prove(self._hopeless + best.bound, STATE_PRICES)
                if interval.is_done():
                    break
        return best

    def _solve_program(self, late: _Late) -> None:
        """Solve the integer program over the starts that reduced-cost fixing leaves."""
        interval = self._interval
        fewer = interval.upper_bound - self._hopeless - 1
        allowed = late.useful(self._instance.arrival_times, fewer)
        if not any(map(len, allowed)):
            interval.prove(interval.upper_bound, STATE_PRICES)
            return
        starts = start_sets(self._instance, allowed, optional=True)

        def take(program: Program, values: FloatArray) -> None:
            # Round t of replica k has index k * rounds + t; -1 marks a request that does not start.
            found = program.starts(values)
            replicas, within = np.divmod(found, starts.rounds)
            self._offer(np.where(found < 0, -1, within), replicas)

        search_program(interval, self._search, starts, take=take, base=self._hopeless)


@dataclass(frozen=True, eq=False)
class _Late:
    """Lower bound on late requests, and the priced cost of each start, in integer units.

    Attributes
    ----------
    unit : int
        Cost of a late request.
    paid : int
        Upper bound on the sum of the priced costs of all requests on time.
    costs : list[int64 array]
        Priced costs of the starts in time of each request, from its arrival on.
    """

    unit: int
    paid: int
    costs: list[IntArray]

    @classmethod
    def by_memory(cls, instance: Instance, prices: MemoryPrices, last: IntArray) -> _Late:
        """Return the bound of memory prices."""
        priced = PricedCosts(instance, prices, without_latency(instance))
        costs = []
        for i, (arrival, final) in enumerate(zip(instance.arrival_times, last, strict=True)):
            _, own = priced.of(i)
            # All starts after the last price cost the same.
            places = np.minimum(np.arange(final - arrival + 1), len(own) - 1)
            costs.append(own[places])
        paid = instance.memory_limit * sum(prices.numerators.tolist())
        return cls(prices.denominator, paid, costs)

    @classmethod
    def by_states(cls, instance: Instance, ascent: StateAscent, last: IntArray) -> _Late:
        """Return the bound of state prices: by memory held and rounds left, at each epoch."""
        s, o, a, _ = instance.columns
        Q, W = ascent.integer_prices()
        P, _ = start_values(Q, s, o, a)
        costs = []
        for own, output, arrival, final in zip(P, o, a, last, strict=True):
            starts = np.arange(arrival, final + 1)
            costs.append(own[starts] - SCALE * (starts + output - arrival))
        return cls(LATE_ROUNDS * SCALE, sum(W.tolist()), costs)

    def least(self, costs: IntArray) -> int:
        """Return the term of a request in the bound, given the costs of its starts."""
        return min(self.unit, int(costs.min()))

    @cached_property
    def value(self) -> int:
        """Return the lower bound on late requests, times `unit`, not rounded."""
        return sum(map(self.least, self.costs)) - self.paid

    @property
    def bound(self) -> int:
        """Return the lower bound on late requests, rounded up."""
        return max(0, -(-self.value // self.unit))

    def useful(self, arrivals: IntArray, late: int) -> list[IntArray]:
        """Return the starts of each request that a schedule with ``late`` late requests can use.

        The late requests of a schedule are at least the bound plus the reduced costs of its starts:
        their costs less the terms of their requests in the bound. A start is left out if its
        reduced cost alone raises this sum above ``late`` (reduced-cost fixing).
        """
        slack = late * self.unit - self.value
        return [
            arrival + np.flatnonzero(costs - self.least(costs) <= slack)
            for arrival, costs in zip(arrivals.tolist(), self.costs, strict=True)
        ]

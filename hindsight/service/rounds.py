"""The most requests on time in rounds: prices, schedules, and an integer program.

A request is on time if it starts by some last round, whatever else its service level says. A
scheduler may drop late requests, or serve them after all others: either way the same requests can
be on time, so both conventions have one optimum.

**Bound.** For prices lambda_r >= 0 of a token in round r, let p_i be the least that request i pays
for a start in time, sum_r lambda_r (s_i + r - t). Requests on time pay M sum_r lambda_r together at
most, so

    requests late >= sum_i min(1, p_i) - M sum_r lambda_r:

the bound of `hindsight.prices.tokens`, with the latency of a start replaced by 0 and a cost
of 1 for no start. *Proof.* The terms of requests on time are at most what they pay, and those of
late ones at most 1. [] It is evaluated in integers and rounded up.

**Gaps.** Where requests arrive far apart, the search runs without most of the rounds between them
(`hindsight.prices.idle_gaps`, whose blocks these are). *Proof that as many are on time.* Take the
requests of one block that are on time in a schedule, and remove each round after the block's latest
arrival in which none of them runs. Nothing starts later than before, so all are on time still, and
they are complete by E. So blocks do not meet. [] With two rounds kept for each round of work, late
requests also find a place in their block: from E on, one after another if need be.

**Replicas.** The bound is that of one machine with the memory of all: in rounds every schedule of
the fleet is one of it (`instances.problem.memory_translation.pooled`). The program is exact
(`hindsight.exact.starts`). Gaps are removed as before: what is said of a block holds on
each replica.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from hindsight.exact.highs import BOUND_TOLERANCE, LinearResult, solve_linear
from hindsight.exact.program import Program
from hindsight.exact.starts import latest_starts, start_sets
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.result import MEMORY_PRICES, PROGRAM, STATE_PRICES
from hindsight.prices.ascent import Evaluation, Stage, ascend
from hindsight.prices.idle_gaps import compress, next_block_begins
from hindsight.prices.starts import without_latency
from hindsight.prices.state_ascent import StateAscent, fits
from hindsight.prices.states import SCALE, start_values
from hindsight.prices.tokens import PricedCosts, TokenDual, round_prices
from hindsight.prices.volume import LONGEST_PRICES
from hindsight.schedules.cycles import RuinAndRecreate
from hindsight.schedules.on_time import improved
from hindsight.schedules.timetables import LONGEST_PROFILE, place, requests_of, timetable
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray
from instances.problem.fleet_schedule import by_replica
from instances.problem.memory_translation import pooled, restricted

HEATS = (0.3, 0.1, 0.03, 0.01, 0.003)
"""Heats of the ascent, in late requests."""

STEPS = 150
"""Steps of the ascent at each heat."""

LARGEST_PROGRAM, ENTRIES_PER_SECOND = 3_000_000, 50_000
"""Most non-zeros of the integer program, and for each second left."""

ALONE, VOLUMES = "requests alone", "smallest volumes"
"""Names of upper bounds."""

ROOM = 2
"""Rounds that a block of requests keeps after its latest arrival, for each round of its work."""

FIRST_SHARE, STATES_SHARE, SEARCH_SHARE = 0.1, 0.5, 0.3
"""Shares of the time left: for schedules before the prices, for prices of what runs together, and
for schedules after them if a program follows."""

LATE_ROUNDS = 100
"""Cost of a late request in prices of what runs together: their heats and steps count rounds."""

FADES, STATE_STEPS = (1.0, 0.5, 0.25, 0.12, 0.06), 60
"""Factors of the ascent's heats and steps, one for each stage, and iterations of a stage."""


def attain_in_rounds(state: Interval, threads: int | None, seed: int) -> None:
    """Improve the interval until it is as narrow as asked for, or no method gains any more.

    Parameters
    ----------
    state : OnTime
        The search, of an instance.
    threads : int or None
        Threads of HiGHS.
    seed : int
        Seed of every random choice.
    """
    assert isinstance(state.problem, Instance)
    last = latest_starts(state.problem, state.limits())
    _Search(state, last, threads, seed).run()


def with_late(state: Interval) -> Schedule | FleetSchedule:
    """Return the best schedule, with each late request at its first start that fits.

    Late requests are placed by volume. Where rounds are too many to look for a start, they are
    dealt to the replicas in turn and run one after another at the end.
    """
    problem = state.problem
    assert isinstance(problem, Instance)
    moved = compress(problem, ROOM)
    beside = restricted(moved.instance)
    starts = np.full(len(problem), -1, dtype=np.int64)
    assignment = np.zeros(len(problem), dtype=np.int64)
    if state.has_schedule:
        starts[state.served] = state.schedule.start_times - moved.shifts[state.served]
        if isinstance(state.schedule, FleetSchedule):
            assignment[state.served] = state.schedule.assignment
    order = np.argsort(np.where(starts < 0, problem.volumes, -1), kind="stable")
    late = order[len(state.served) :]
    assignment[late] = np.arange(len(late)) % problem.replicas
    rounds = int(beside.arrival_times.max() + beside.output_lengths.sum()) + 2
    rounds += int(starts.max())
    requests = requests_of(beside)
    if rounds * problem.replicas <= LONGEST_PROFILE:
        table = timetable(requests, starts, assignment, (problem.replicas, rounds), 1)
        place(requests, table, late)
        return _schedule(problem, table.machines, table.starts + moved.shifts)
    for replica, own in enumerate(by_replica(assignment, problem.replicas)):
        # One after another, when everybody else is done.
        served = own[starts[own] >= 0]
        end = int((starts[served] + requests.output[served]).max(initial=0))
        for i in late[assignment[late] == replica].tolist():
            starts[i] = max(end, int(requests.arrival[i]))
            end = int(starts[i] + requests.output[i])
    return _schedule(problem, assignment, starts + moved.shifts)


def _schedule(
    problem: Instance, assignment: IntArray, starts: IntArray
) -> Schedule | FleetSchedule:
    """Return a schedule of one machine, or of a fleet where there are replicas."""
    if problem.replicas == 1:
        return Schedule(problem, starts)
    return FleetSchedule.from_starts(problem, assignment, starts)


class _Search:
    """Search among the requests that would be on time alone, in phases."""

    def __init__(
        self,
        state: Interval,
        last: IntArray,
        threads: int | None,
        seed: int,
    ) -> None:
        problem = state.problem
        assert isinstance(problem, Instance)
        self._state, self._threads, self._seed = state, threads, seed
        self._able = np.flatnonzero(last >= problem.arrival_times)
        self._hopeless = len(problem) - len(self._able)
        state.prove(self._hopeless, ALONE)
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
        self._placing = RuinAndRecreate(restricted(self._instance), seed, last=self._last)

    def run(self) -> None:
        """Run all phases."""
        state = self._state
        if not len(self._able):
            return
        state.prove(len(state.problem) - self._most_by_volume(), VOLUMES)
        self._place_first()
        # Small instances need only a bound from here on.
        self._place(FIRST_SHARE, patient=False)
        if state.is_done():
            return
        state.phase = "prices"
        prices = self._ascend()
        if state.is_done():
            return
        if prices is not None:
            self._placing.use_prices(prices.as_floats())
        late = self._ascend_on_states()
        if late is None and self._entries() <= LARGEST_PROGRAM:
            none = MemoryPrices(np.zeros(0, dtype=np.int64), 1)
            late = _Late.by_memory(self._below, prices or none, self._last)
        state.phase = "schedules"
        self._place(1.0 if late is None else SEARCH_SHARE)
        if late is not None and not state.is_done():
            state.phase = "program"
            self._solve_program(late)
            state.phase = "schedules"
            self._place(1.0)

    def _place(self, share: float, *, patient: bool = True) -> None:
        """Search for schedules with a share of the time left, or as long as they improve.

        An impatient search ends with the improvements even if time is left.
        """
        state = self._state
        left = state.clock.limit_left()
        limited = patient and left is not None
        with state.clock.within(math.inf if left is None else share * left):
            for found in improved(self._placing, state.is_done, patient=limited):
                self._offer(found.starts, found.machines)

    def _place_first(self) -> None:
        """Offer the best schedule of some orders."""
        volumes, a = self._instance.volumes, self._instance.arrival_times
        last, output = self._last, self._instance.output_lengths
        for key in (volumes, last, a, volumes / (last + output - a), last - output):
            if self._placing.place(np.argsort(key, kind="stable")):
                self._offer(self._placing.starts, self._placing.machines)

    def _offer(self, starts: IntArray, replicas: IntArray) -> None:
        """Offer the schedule of the requests whose start is not below 0."""
        placed = np.flatnonzero(starts >= 0)
        if len(placed):
            served = self._able[placed]
            problem = self._state.problem
            assert isinstance(problem, Instance)
            within = starts[placed] + self._shifts[placed]
            part = _schedule(problem.of(served), replicas[placed], within)
            self._state.offer(part, served)

    def _most_by_volume(self) -> int:
        """Return how many of the smallest volumes fit between the first arrival and the last end.

        At large sizes the time may end before prices say as much.
        """
        instance = self._below
        rounds = self._rounds - int(instance.arrival_times.min())
        held = accumulate(sorted(instance.volumes.tolist()))
        return bisect_right(list(held), instance.memory_limit * rounds)

    def _entries(self) -> int:
        """Return the non-zeros of the memory rows of all starts in time."""
        counts = self._last - self._instance.arrival_times + 1
        return int((counts * self._instance.output_lengths).sum())

    def _ascend(self) -> MemoryPrices | None:
        """Improve memory prices; return the best, or None if there are too many rounds."""
        state, instance = self._state, self._below
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
            must_stop=lambda: state.is_done(),
        )
        best: MemoryPrices | None = None

        def stepped(x: FloatArray, found: Evaluation) -> bool:
            nonlocal best
            # A bound is whole, so that most steps change nothing.
            if best is None or self._hopeless + math.ceil(found.value - 1e-9) > state.lower_bound:
                late, prices = self._late(dual.prices(x))
                if best is None or self._hopeless + late > state.lower_bound:
                    best = prices
                state.prove(self._hopeless + late, MEMORY_PRICES)
            return bool(state.is_proved or state.is_close)

        first = dual.variables(np.full(rounds, flat))
        stages = tuple(Stage(STEPS, (heat, heat), tolerance=1e-7) for heat in HEATS)
        ascend(dual, first, stages, stepped=stepped, must_stop=state.is_done)
        return best

    def _late(self, prices: FloatArray) -> tuple[int, MemoryPrices]:
        """Return the least number of late requests that memory prices prove, of the able ones."""
        exact = round_prices(prices, self._below)
        costs = PricedCosts(self._below, exact, self._classes)
        least = np.minimum(costs.cheapest(self._last), exact.denominator)
        paid = self._below.memory_limit * sum(exact.numerators.tolist())
        late: int = -(-(sum(least.tolist()) - paid) // exact.denominator)
        return late, exact

    def _ascend_on_states(self) -> _Late | None:
        """Improve prices of what runs together; return the bound, or None if M is large."""
        state, instance = self._state, self._below
        if not fits(instance, self._rounds):
            return None
        left = state.clock.limit_left()
        best: _Late | None = None
        with state.clock.within(math.inf if left is None else STATES_SHARE * left):
            ascent = StateAscent(
                instance,
                self._rounds,
                threads=self._threads or 1,
                last=self._last,
                penalty=float(LATE_ROUNDS),
                must_stop=state.is_done,
            )
            for fade in (0.0, *FADES):
                if fade and not state.is_done():
                    ascent.improve(STATE_STEPS, fade, state.is_done)
                found = _Late.by_states(instance, ascent, self._last)
                if best is None or found.value > best.value:
                    best = found
                state.prove(self._hopeless + best.bound, STATE_PRICES)
                if state.is_done():
                    break
        return best

    def _solve_program(self, late: _Late) -> None:
        """Solve the integer program over the starts that reduced costs leave."""
        state = self._state
        fewer = state.upper_bound - self._hopeless - 1
        allowed = late.useful(self._instance.arrival_times, fewer)
        if not any(map(len, allowed)):
            state.prove(state.upper_bound, STATE_PRICES)
            return
        starts = start_sets(self._instance, allowed, optional=True)
        most = min(LARGEST_PROGRAM, ENTRIES_PER_SECOND * state.clock.seconds_left())
        if max(starts.memory_entries, starts.horizon) > most:
            return
        program = Program(starts)

        def hear(result: LinearResult) -> None:
            if result.bound is not None:
                least = math.ceil(result.bound - BOUND_TOLERANCE)
                # Schedules that are no better need not be in the program.
                late = min(self._hopeless + least, state.upper_bound)
                state.prove(late, PROGRAM, certified=False)
            if result.values is not None:
                # Starts count through the replicas, and are -1 where there is none.
                found = program.starts(result.values)
                replicas, within = np.divmod(found, starts.rounds)
                self._offer(np.where(found < 0, -1, within), replicas)

        result = solve_linear(
            program.linear,
            time_limit=state.clock.limit_left(),
            threads=self._threads,
            seed=self._seed,
            callback=hear,
            should_stop=lambda: state.is_done(),
        )
        hear(result)
        if result.termination in ("optimal", "infeasible"):
            state.prove(state.upper_bound, PROGRAM, certified=False)


@dataclass(frozen=True, eq=False)
class _Late:
    """Lower bound on late requests, and the payment of each start, in whole units.

    Attributes
    ----------
    unit : int
        Cost of a late request.
    paid : int
        What requests on time pay together at most.
    costs : list[int64 array]
        Payments of each request's starts in time, from its arrival on.
    """

    unit: int
    paid: int
    costs: list[IntArray]

    @classmethod
    def by_memory(cls, instance: Instance, prices: MemoryPrices, last: IntArray) -> _Late:
        """Charge memory in each round."""
        priced = PricedCosts(instance, prices, without_latency(instance))
        costs = []
        for i, (arrival, final) in enumerate(zip(instance.arrival_times, last, strict=True)):
            _, own = priced.of(i)
            # After the last price a start costs what the last one does.
            places = np.minimum(np.arange(final - arrival + 1), len(own) - 1)
            costs.append(own[places])
        paid = instance.memory_limit * sum(prices.numerators.tolist())
        return cls(prices.denominator, paid, costs)

    @classmethod
    def by_states(cls, instance: Instance, ascent: StateAscent, last: IntArray) -> _Late:
        """Charge what a request holds and has to go, at each epoch."""
        s, o, a, _ = instance.columns
        Q, W = ascent.integer_prices()
        P, _ = start_values(Q, s, o, a)
        costs = []
        for own, output, arrival, final in zip(P, o, a, last, strict=True):
            starts = np.arange(arrival, final + 1)
            costs.append(own[starts] - SCALE * (starts + output - arrival))
        return cls(LATE_ROUNDS * SCALE, sum(W.tolist()), costs)

    def least(self, costs: IntArray) -> int:
        """Return the term of a request in the bound."""
        return min(self.unit, int(costs.min()))

    @cached_property
    def value(self) -> int:
        """Return the bound in units."""
        return sum(map(self.least, self.costs)) - self.paid

    @property
    def bound(self) -> int:
        """Return the bound in requests."""
        return max(0, -(-self.value // self.unit))

    def useful(self, arrivals: IntArray, late: int) -> list[IntArray]:
        """Return the starts of each request that a schedule with so many late ones can use.

        A schedule has at least as many late requests as the bound, plus what its starts cost above
        their terms in it. Starts with which that exceeds ``late`` are left out (reduced-cost
        fixing).
        """
        slack = late * self.unit - self.value
        return [
            arrival + np.flatnonzero(costs - self.least(costs) <= slack)
            for arrival, costs in zip(arrivals.tolist(), self.costs, strict=True)
        ]

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
requests fit in their block too, if necessary one after another from E on.

**Replicas.** The bound is that of one machine with the memory of all replicas: in rounds every
schedule of the fleet is also feasible there (`instances.problem.memory_translation.pooled`). The
integer program models each replica (`hindsight.exact.starts`). Gaps are removed as for one machine,
because the proof above holds on each replica.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate
from typing import Any

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
from hindsight.schedules import timetables
from hindsight.schedules.cycles import RuinAndRecreate, improved
from instances import FleetSchedule, Instance, Schedule
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import pooled, restricted

from .program import search_program

HEATS = (0.3, 0.1, 0.03, 0.01, 0.003)
"""Temperatures of the stages of the ascent in memory prices. Unit: the cost of a late request."""

STEPS = 150
"""Largest number of ascent steps at each temperature of `HEATS`."""

LARGEST_PROGRAM = 3_000_000
"""If the memory limit or the horizon is too large for state prices, HiGHS solves the integer
program only if its memory constraints have at most this many non-zeros."""

ALONE, VOLUMES = "requests alone", "smallest volumes"
"""Names of two lower bounds on the number of late requests: the number late even if served alone,
and the number left if requests of the smallest volumes fill the memory of all rounds."""

ROOM = 2
"""Idle gaps are shortened: from the last arrival before a gap to the next arrival, ROOM rounds are
kept per output token of the requests that arrive between the previous gap and this one."""

FIRST_SHARE, STATES_SHARE, SEARCH_SHARE = 0.1, 0.5, 0.3
"""Shares of the remaining time: for the search for schedules before the price ascents, for the
ascent in state prices, and for the search for schedules before an integer program."""

LATE_ROUNDS = 100
"""Cost of a late request, in rounds, in the ascent in state prices, which counts in rounds."""

FADES, STATE_STEPS = (1.0, 0.5, 0.25, 0.12, 0.06), 60
"""Factor on temperatures and step sizes in each stage of the state price ascent; steps a stage."""


def close_on_time(interval: Interval, search: Search) -> None:
    """Improve both bounds on the number of late requests of an instance (times are in rounds).

    The function returns when the gap is as small as requested, the solve must stop, or no method
    improves the bounds.
    """
    problem: Instance = interval.source
    assert interval.problem.limits is not None
    last = latest_starts(problem, interval.problem.limits)
    able = np.flatnonzero(last >= problem.arrival_times)
    interval.prove(len(problem) - len(able), ALONE)
    if len(able):
        _OnTime(interval, search, able, last).run()


def with_late(interval: Interval) -> Schedule | FleetSchedule:
    """Return a schedule of all requests: the best schedule, with the late requests added.

    Late requests are placed in ascending order of volume (tokens held, summed over rounds), each at
    the first start that fits. Before, long idle gaps between arrivals are shortened. The
    placement uses an array of the tokens held in each round of each replica. If this array would
    be too long, or if the result is infeasible, late requests are assigned to the replicas in turn.
    Each replica then runs its late requests one after another, after its requests on time.
    """
    problem: Instance = interval.source
    moved, replicas = compress(problem, ROOM), problem.replicas
    starts = np.full(len(problem), -1, dtype=np.int64)
    assignment = np.zeros(len(problem), dtype=np.int64)
    if interval.schedule is not None:
        served = interval.served
        starts[served], assignment[served] = timetables.columns_of(interval.schedule)
    order = np.argsort(np.where(starts < 0, problem.volumes, -1), kind="stable")
    late = order[len(interval.served) :]
    assignment[late] = np.arange(len(late)) % replicas
    within = np.where(starts < 0, -1, starts - moved.shifts)
    last = int(moved.instance.arrival_times.max() + within.max())
    rounds = last + int(problem.output_lengths.sum()) + 2
    if rounds * replicas <= timetables.LONGEST_PROFILE:
        requests = timetables.requests_of(restricted(moved.instance))
        table = timetables.timetable(requests, within, assignment, (replicas, rounds))
        timetables.place(table, late, 0, len(late), timetables.SEARCH)
        found = timetables.schedule_on(problem, table.machines, table.starts + moved.shifts)
        if found.is_feasible:
            return found
    ends = np.zeros(replicas, dtype=np.int64)
    np.maximum.at(ends, assignment, np.where(starts < 0, 0, starts + problem.output_lengths))
    for i in late.tolist():
        starts[i] = max(ends[assignment[i]], problem.arrival_times[i])
        ends[assignment[i]] = starts[i] + problem.output_lengths[i]
    return timetables.schedule_on(problem, assignment, starts)


class _OnTime:
    """Search for a schedule with the most requests on time, and for bounds on their number.

    Only requests that would be on time if served alone take part, k of the n requests. Idle gaps,
    rounds between arrivals that no schedule needs, are shortened during the search.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve.
    search : Search
        Options of the solve.
    able : int64 array
        Indices of the requests that would be on time if served alone, shape (k,).
    last : int64 array
        Last start with which each request of the problem is on time, shape (n,).
    """

    def __init__(self, interval: Interval, search: Search, able: IntArray, last: IntArray) -> None:
        problem: Instance = interval.source
        self._interval, self._search, self._able = interval, search, able
        self._hopeless = len(problem) - len(able)
        moved = compress(problem, ROOM)
        self._shifts, self._instance = moved.shifts[able], moved.instance.of(able)
        a, o = self._instance.arrival_times, self._instance.output_lengths
        ends = np.minimum(next_block_begins(moved)[able], a.max() + o.sum())
        self._last = np.minimum(last[able] - self._shifts, ends - o)
        self._rounds = int((self._last + o).max())
        self._below = pooled(self._instance)
        self._classes = without_latency(self._below)
        self._placing = RuinAndRecreate(restricted(self._instance), search.seed, last=self._last)

    def run(self) -> None:
        """Improve both bounds on the number of late requests, by several methods in turn.

        Find first schedules, improve prices, which prove lower bounds, find more schedules, and
        solve the integer program if it is small enough.
        """
        interval, below = self._interval, self._below
        # Lower bound on late requests from volumes. The volume of a request is the sum over its
        # rounds of the tokens that it holds. The requests on time hold at most M tokens in each
        # round, so the sum of their volumes is at most M times the number of rounds. ``fitting`` is
        # the largest number of requests for which this holds: that of the smallest volumes. The
        # bound takes little time, unlike one from prices.
        rounds = self._rounds - int(below.arrival_times.min())
        held = list(accumulate(sorted(below.volumes.tolist())))
        fitting = bisect_right(held, below.memory_limit * rounds)
        interval.prove(len(interval.source) - fitting, VOLUMES)
        self._place_first()
        # A short search for schedules comes before the ascent in prices, because its schedules are
        # mostly optimal for small instances.
        self._place(FIRST_SHARE, patient=False)
        if interval.is_done():
            return
        interval.phase = "prices"
        prices = self._ascend()
        if interval.is_done():
            return
        if prices is not None:
            self._placing.prices = prices.as_floats()
        late = self._ascend_on_states()
        counts = self._last - self._instance.arrival_times + 1
        if late is None and counts @ self._instance.output_lengths <= LARGEST_PROGRAM:
            late = _late_by_memory(below, prices or NO_PRICES, self._last)
        interval.phase = "schedules"
        self._place(1.0 if late is None else SEARCH_SHARE)
        if late is not None and not interval.is_done():
            interval.phase = "program"
            self._solve_program(late)
            interval.phase = "schedules"
            self._place(1.0)

    def _place(self, share: float, *, patient: bool = True) -> None:
        """Search for schedules by ruin and recreate, for at most a ``share`` of the time left.

        Ruin and recreate removes some requests from a schedule and places them again. The search
        also ends after `hindsight.schedules.cycles.ROUNDS_WITHOUT_GAIN` passes without a better
        schedule, unless ``patient`` is True and the solve has a time limit.
        """
        interval, clock = self._interval, self._interval.clock
        limited = patient and clock.limit_left() is not None
        with clock.within(share * clock.seconds_left()):
            for found in improved(self._placing, interval.is_done, patient=limited):
                self._offer(found.starts, found.machines)

    def _place_first(self) -> None:
        """Build and offer five schedules, each by placing requests in ascending order of a key.

        The five keys of a request are its volume (sum over its rounds of the tokens held), its last
        start on time, its arrival, its volume divided by the rounds from its arrival to its last
        completion on time, and its last start on time minus its output length.
        """
        volumes, a = self._instance.volumes, self._instance.arrival_times
        last, output = self._last, self._instance.output_lengths
        for key in (volumes, last, a, volumes / (last + output - a), last - output):
            if self._placing.place(np.argsort(key, kind="stable")):
                self._offer(self._placing.starts, self._placing.machines)

    def _offer(self, starts: IntArray, replicas: IntArray) -> None:
        """Offer a schedule of the requests on time to the solve.

        ``starts`` and ``replicas``, shape (k,), belong to the k requests that would be on time if
        served alone. Starts are those in the problem with shortened idle gaps (rounds between
        arrivals that no schedule needs). The rounds taken out are added again here. Requests with
        start -1 are late and not part of the schedule.
        """
        placed = np.flatnonzero(starts >= 0)
        if len(placed):
            served = self._able[placed]
            problem: Instance = self._interval.source
            within = starts[placed] + self._shifts[placed]
            part = timetables.schedule_on(problem.of(served), replicas[placed], within)
            self._interval.offer(part, served)

    def _ascend(self) -> MemoryPrices | None:
        """Improve memory prices by dual ascent, and return those that prove the largest bound.

        Memory prices are a price per token in each round. The lower bounds on the number of late
        requests that they prove are recorded in the solve. If there are more than `LONGEST_PRICES`
        rounds, return None.
        """
        interval, instance = self._interval, self._below
        if self._rounds > LONGEST_PRICES:
            return None
        volumes = instance.prompt_lengths + instance.output_lengths / 2
        flat = 0.5 / float((volumes * instance.output_lengths).mean())
        options: Any = {"final": self._last, "penalty": 1.0, "must_stop": interval.is_done}
        dual = TokenDual(self._classes, instance.memory_limit, self._rounds, **options)
        best: MemoryPrices | None = None

        def stepped(x: FloatArray, found: Evaluation) -> None:
            nonlocal best
            least = self._hopeless + math.ceil(found.value - 1e-9)
            # ``least`` is the lower bound on late requests that the prices prove, computed in
            # floats and rounded up. Compute it in exact integers only if ``least`` exceeds the best
            # lower bound so far, or for the first prices.
            if best is None or least > interval.lower_bound:
                late, prices = self._late(dual.prices(x))
                if best is None or self._hopeless + late > interval.lower_bound:
                    best = prices
                interval.prove(self._hopeless + late, MEMORY_PRICES)

        first = dual.variables(np.full(self._rounds, flat))
        stages = tuple(Stage(STEPS, (heat, heat), tolerance=1e-7) for heat in HEATS)
        ascend(dual.evaluate, first, stages, stepped=stepped, must_stop=interval.is_done)
        return best

    def _late(self, prices: FloatArray) -> tuple[int, MemoryPrices]:
        """Round memory prices to integers; return the bound that they prove, and these prices.

        Memory prices are a price per token in each round. The bound is a lower bound on the number
        of late requests, not counting those that would be late even if served alone.
        """
        exact = round_prices(prices, self._below)
        costs = PricedCosts(self._below, exact, self._classes)
        least = np.minimum(costs.cheapest(self._last), exact.denominator)
        paid = self._below.memory_limit * sum(exact.numerators.tolist())
        late: int = -(-(sum(least.tolist()) - paid) // exact.denominator)
        return late, exact

    def _ascend_on_states(self) -> _Late | None:
        """Improve state prices by dual ascent, and return the best lower bound on late requests.

        A state price is what a request pays in a round, by the tokens that it holds and the rounds
        that it still runs. If M or the number of rounds is too large for these prices, return None.
        """
        interval, instance = self._interval, self._below
        if not fits(instance, self._rounds):
            return None
        best: _Late | None = None
        options: Any = {"last": self._last, "penalty": float(LATE_ROUNDS)}
        options |= {"threads": self._search.cores, "must_stop": interval.is_done}
        with interval.clock.within(STATES_SHARE * interval.clock.seconds_left()):
            ascent = StateAscent(instance, self._rounds, **options)
            for fade in (0.0, *FADES):
                if fade and not interval.is_done():
                    ascent.improve(STATE_STEPS, fade, interval.is_done)
                found = _late_by_states(instance, ascent, self._last)
                if best is None or found.value > best.value:
                    best = found
                interval.prove(self._hopeless + best.bound, STATE_PRICES)
                if interval.is_done():
                    break
        return best

    def _solve_program(self, late: _Late) -> None:
        """Solve the integer program over the starts that may lead to fewer late requests.

        The reduced costs of starts in ``late``, the lower bound from prices, exclude the starts
        that no schedule with fewer late requests than the best one can use. Bounds and schedules
        found are offered to the solve.
        """
        interval = self._interval
        fewer = interval.upper_bound - self._hopeless - 1
        allowed = late.useful(self._instance.arrival_times, fewer)
        if not any(map(len, allowed)):
            interval.prove(interval.upper_bound, STATE_PRICES)
            return
        starts = start_sets(self._instance, allowed, optional=True)

        def take(program: Program, values: FloatArray) -> None:
            # In ``found``, k * starts.rounds + t is the start of a request at t on replica k, and
            # -1 stands for a late request, which is left out.
            found = program.starts(values)
            replicas, within = np.divmod(found, starts.rounds)
            self._offer(np.where(found < 0, -1, within), replicas)

        search_program(interval, self._search, starts, take=take, base=self._hopeless)


class _Late:
    """Lower bound on the number of late requests, proved by prices, and reduced costs of starts.

    The priced cost of a start is what the request pays for memory, at the given prices. Let p_i be
    the least priced cost of request i. The bound, times ``unit``, is sum_i min(unit, p_i) - paid.
    The reduced cost of a start of request i is its priced cost minus min(unit, p_i).

    Parameters
    ----------
    unit : int
        Cost of one late request, in the integer unit of the priced costs.
    paid : int
        Upper bound on the sum of the priced costs of all requests on time, in any schedule.
    costs : list[int64 array]
        For each request, the priced costs of its starts on time, from its arrival on.

    Attributes
    ----------
    value : int
        The lower bound before rounding, in the unit of priced costs: there are at least this value
        / ``unit`` late requests.
    bound : int
        The lower bound on the number of late requests, rounded up.
    """

    def __init__(self, unit: int, paid: int, costs: list[IntArray]) -> None:
        self._unit, self._costs = unit, costs
        # Terms of the requests in the lower bound: min(unit, p_i) for request i, where ``unit`` is
        # the cost of being late and p_i the least priced cost of a start on time of request i.
        self._least = [min(unit, int(own.min())) for own in costs]
        self.value = sum(self._least) - paid
        self.bound = max(0, -(-self.value // unit))

    def useful(self, arrivals: IntArray, late: int) -> list[IntArray]:
        """Return the starts of each request that a schedule with ``late`` late requests can use.

        The reduced cost of a start is its priced cost minus the term of its request in the lower
        bound (`_Late`). Let one late request cost ``unit``. The cost of a schedule is at least
        `value`, the lower bound before rounding, plus the reduced costs of all its starts, none of
        which is negative. So a start is excluded if `value` plus its reduced cost alone exceeds the
        cost of ``late`` late requests (reduced-cost fixing).

        Parameters
        ----------
        arrivals : int64 array
            Arrival times of the requests, shape (k,).
        late : int
            Largest permitted number of late requests.
        """
        slack = late * self._unit - self.value
        rows = zip(arrivals.tolist(), self._costs, self._least, strict=True)
        return [arrival + np.flatnonzero(own - least <= slack) for arrival, own, least in rows]


def _late_by_memory(instance: Instance, prices: MemoryPrices, last: IntArray) -> _Late:
    """Return the lower bound from memory prices on the number of late requests (`_Late`).

    Memory prices are a price per token in each round. The priced cost of a start is what the
    request then pays for memory. A request is late if it starts after its entry in ``last``, shape
    (k,), its last start on time.
    """
    priced, costs = PricedCosts(instance, prices, without_latency(instance)), []
    for i, (arrival, final) in enumerate(zip(instance.arrival_times, last, strict=True)):
        _, own = priced.of(i)
        # ``own`` has the priced costs of starts up to the last round with a price. At the last of
        # these starts and at all later ones, the request runs only in rounds without a price, so
        # they have the same priced cost.
        costs.append(own[np.minimum(np.arange(final - arrival + 1), len(own) - 1)])
    paid = instance.memory_limit * sum(prices.numerators.tolist())
    return _Late(prices.denominator, paid, costs)


def _late_by_states(instance: Instance, ascent: StateAscent, last: IntArray) -> _Late:
    """Return the lower bound from state prices on the number of late requests (`_Late`).

    The prices are the best ones of the ascent. A state price is what a request pays in a round, by
    the tokens that it holds and the rounds that it still runs. The result also has the priced cost
    of each start on time, the sum of these prices over the request's rounds. ``last``, shape (k,),
    has the last start at which each of the k requests is on time.
    """
    s, o, a, _ = instance.columns
    (Q, W), costs = ascent.integer_prices(), []
    P, _ = start_values(Q, s, o, a)
    for own, output, arrival, final in zip(P, o, a, last, strict=True):
        starts = np.arange(arrival, final + 1)
        costs.append(own[starts] - SCALE * (starts + output - arrival))
    return _Late(LATE_ROUNDS * SCALE, sum(W.tolist()), costs)

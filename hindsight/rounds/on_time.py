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

**Gaps.** If requests arrive far apart, the search removes most of the rounds between them. A block
is a set of requests between two gaps, and E is its latest arrival plus the sum of its output
lengths (`hindsight.prices.idle_gaps`). *Proof that as many are on time.* Take the requests of one
block that are on time in a schedule, and remove each round after the block's latest arrival in
which none of them runs. Nothing starts later than before, so all are on time still, and they are
complete by E. So blocks do not meet. [] With two rounds kept for each round of work, late requests
fit in their block too, if necessary one after another from E on.

**Replicas.** The bound is that of one machine with the memory of all replicas: in rounds every
schedule of the fleet is also feasible there (`instances.problem.memory_translation.pooled`). The
integer program models each replica (`hindsight.exact.starts`). Gaps are removed as for one machine,
because the proof above holds on each replica.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from hindsight.exact.program import Program
from hindsight.exact.starts import latest_starts, start_sets
from hindsight.outcomes.flow import Part, run_turns
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
from hindsight.schedules.lists import one_after_another
from hindsight.schedules.timetables import columns_of, schedule_on
from instances import Instance
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
"""Names of two lower bounds on late requests. `ALONE`: requests that are late even if served alone.
`VOLUMES`: all but the most requests whose volumes (tokens held x rounds) fit into memory."""

ROOM = 2
"""Idle gaps are shortened. At most ROOM * (output tokens of the requests since the previous gap)
rounds remain between the last arrival before a gap and the first arrival after it."""

FIRST_SHARE, STATES_SHARE, SEARCH_SHARE = 0.1, 0.5, 0.3
"""Shares of the remaining time. `FIRST_SHARE`: search for schedules before price ascents.
`STATES_SHARE`: ascent in state prices. `SEARCH_SHARE`: search before the integer program."""

LATE_ROUNDS = 100
"""Cost of a late request in the ascent in state prices, in the unit of these prices (rounds)."""

FADES, STATE_STEPS = (1.0, 0.5, 0.25, 0.12, 0.06), 60
"""State price ascent: factor on temperatures and step sizes by stage, and steps per stage."""


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


def with_late(schedule: Any, served: IntArray, problem: Instance) -> Any:
    """Return a schedule of all requests: ``schedule`` with the late requests added.

    Late requests are placed in ascending order of volume (tokens held, summed over rounds), each at
    the first start that fits. If there are too many rounds for that, they run one after another on
    each replica, once all requests on time are complete.

    Parameters
    ----------
    schedule : Schedule or FleetSchedule or None
        Schedule of ``problem.of(served)``, or None if no request is served.
    served : int64 array
        Indices of the requests in ``schedule``.
    problem : Instance
        All requests.
    """
    count, replicas = len(problem), problem.replicas
    starts, machines = np.full(count, -1), np.zeros(count, dtype=np.int64)
    if schedule is not None:
        starts[served], machines[served] = columns_of(schedule)
    late = np.flatnonzero(starts < 0)
    late = late[np.argsort(problem.volumes[late], kind="stable")]
    latest = int(problem.arrival_times.max()) + max(0, int(starts.max()))
    rounds = latest + problem.total_output_length + 2
    if rounds * replicas <= timetables.LONGEST_PROFILE:
        own = restricted(problem)
        profiles = timetables.empty_profiles(own, (replicas, rounds))
        table = timetables.timetable(timetables.requests_of(own), starts, machines, profiles)
        timetables.place(table, late, 0, len(late), timetables.SEARCH)
        return schedule_on(problem, table.machines, table.starts)
    begin = 0 if schedule is None else schedule.makespan
    starts[late], machines[late] = columns_of(one_after_another(problem.of(late)))
    starts[late] += begin
    return schedule_on(problem, machines, starts)


class _OnTime:
    """Search for a schedule with the most requests on time, and for bounds on their number.

    Of the n requests, the search schedules only the k that would be on time if served alone. It
    shortens idle gaps, which are rounds between arrivals that no schedule needs.

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
        # ``_prices`` has the best memory prices so far: a price per token in each round. A state
        # price is what a request pays in a round, by the tokens it holds and the rounds it has to
        # go. ``_late`` is the best lower bound that state prices prove, or None if there is none.
        # This bound excludes starts from the integer program. If ``_late`` is None, the bound that
        # ``_prices`` prove does.
        self._prices = NO_PRICES
        self._late: _Late | None = None

    def run(self) -> None:
        """Improve both bounds on the number of late requests, by several methods in turn.

        First build schedules. Then improve prices, which prove lower bounds. Then search for more
        schedules, and solve the integer program if it is small enough.
        """
        counts = self._last - self._instance.arrival_times + 1
        has_states = fits(self._below, self._rounds)
        small = has_states or counts @ self._instance.output_lengths <= LARGEST_PROGRAM
        # A short search for schedules comes before the ascent in prices, because its schedules are
        # mostly optimal for small instances.
        first = partial(self._place, patient=False)
        parts = [
            Part(self._begin, "heuristics"),
            Part(first, "heuristics", FIRST_SHARE),
            Part(self._ascend, "prices", fits=self._rounds <= LONGEST_PRICES),
            Part(self._ascend_on_states, "prices", STATES_SHARE, fits=has_states),
            Part(self._place, "schedules", SEARCH_SHARE, fits=small),
            Part(self._solve_program, "program", fits=small),
            Part(self._place, "schedules"),
        ]
        run_turns(self._interval, parts)

    def _place(self, *, patient: bool = True) -> None:
        """Search for schedules by ruin and recreate.

        Ruin and recreate removes some requests from a schedule and places them again. The search
        also ends after `hindsight.schedules.cycles.ROUNDS_WITHOUT_GAIN` passes without a better
        schedule, unless ``patient`` is True and the solve has a time limit.
        """
        interval = self._interval
        limited = patient and interval.clock.limit_left() is not None
        for found in improved(self._placing, interval.is_done, patient=limited):
            self._offer(found.starts, found.machines)

    def _begin(self) -> None:
        """Bound the number of late requests by volumes, and build five schedules.

        The volume of a request is the sum over its rounds of the tokens that it holds. The requests
        on time hold at most M tokens (the memory limit) in each round, so the sum of their volumes
        is at most M times the number of rounds. At most as many requests are on time as those of
        the smallest volumes for which this holds. This bound takes little time, unlike one from
        prices.

        Each schedule places the requests in ascending order of a key. The five keys of a request
        are its volume, its last start on time, its arrival, its volume divided by the rounds from
        its arrival to its last completion on time, and its last start on time minus its output
        length.
        """
        interval, below = self._interval, self._below
        rounds = self._rounds - int(below.arrival_times.min())
        held = list(accumulate(sorted(below.volumes.tolist())))
        fitting = bisect_right(held, below.memory_limit * rounds)
        interval.prove(len(interval.source) - fitting, VOLUMES)
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
            part = schedule_on(problem.of(served), replicas[placed], within)
            self._interval.offer(part, served)

    def _ascend(self) -> None:
        """Improve memory prices by dual ascent, and keep those that prove the largest bound.

        Memory prices are a price per token in each round. The lower bounds on the number of late
        requests that they prove are recorded in the solve. The prices guide later searches.
        """
        interval, instance = self._interval, self._below
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
                late, prices = self._bound(dual.prices(x))
                if best is None or self._hopeless + late > interval.lower_bound:
                    best = prices
                interval.prove(self._hopeless + late, MEMORY_PRICES)

        first = dual.variables(np.full(self._rounds, flat))
        stages = tuple(Stage(STEPS, (heat, heat), tolerance=1e-7) for heat in HEATS)
        ascend(dual.evaluate, first, stages, stepped=stepped, must_stop=interval.is_done)
        if best is not None:
            self._prices, self._placing.prices = best, best.as_floats()

    def _bound(self, prices: FloatArray) -> tuple[int, MemoryPrices]:
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

    def _ascend_on_states(self) -> None:
        """Improve state prices by dual ascent, and keep the best lower bound on late requests.

        A state price is what a request pays in a round. It depends on the tokens that the request
        holds and the rounds that it still runs.
        """
        interval, instance = self._interval, self._below
        options: Any = {"last": self._last, "penalty": float(LATE_ROUNDS)}
        options |= {"threads": self._search.cores, "must_stop": interval.is_done}
        ascent = StateAscent(instance, self._rounds, **options)
        for fade in (0.0, *FADES):
            if fade and not interval.is_done():
                ascent.improve(STATE_STEPS, fade, interval.is_done)
            found = _Late.by_states(instance, ascent, self._last)
            if self._late is None or found.value > self._late.value:
                self._late = found
            interval.prove(self._hopeless + self._late.bound, STATE_PRICES)
            if interval.is_done():
                break

    def _solve_program(self) -> None:
        """Solve the integer program over the starts that may lead to fewer late requests.

        The reduced costs of starts, in the lower bound from prices, exclude the starts that no
        schedule with fewer late requests than the best one can use. Bounds and schedules found are
        offered to the solve.
        """
        interval = self._interval
        late = self._late or _Late.by_memory(self._below, self._prices, self._last)
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
        self._least = [min(unit, int(own.min())) for own in costs]
        self.value = sum(self._least) - paid
        self.bound = max(0, -(-self.value // unit))

    @classmethod
    def by_memory(cls, instance: Instance, prices: MemoryPrices, last: IntArray) -> _Late:
        """Return the lower bound from memory prices, a price per token in each round.

        ``last``, shape (k,), has the last start at which each request is on time.
        """
        priced, costs = PricedCosts(instance, prices, without_latency(instance)), []
        for i, (arrival, final) in enumerate(zip(instance.arrival_times, last, strict=True)):
            _, own = priced.of(i)
            # ``own`` has the priced costs of starts (prices of the memory held) up to the last
            # round with a price. At the last of these starts and at all later ones, the request
            # runs only in rounds without a price, so they have the same priced cost.
            costs.append(own[np.minimum(np.arange(final - arrival + 1), len(own) - 1)])
        paid = instance.memory_limit * sum(prices.numerators.tolist())
        return cls(prices.denominator, paid, costs)

    @classmethod
    def by_states(cls, instance: Instance, ascent: StateAscent, last: IntArray) -> _Late:
        """Return the lower bound from the best prices of an ascent in state prices.

        A state price is what a request pays in a round. It depends on the tokens that the request
        holds and the rounds that it still runs. The priced cost of a start is the sum of these
        prices over the request's rounds. ``last``, shape (k,), has the last start at which each
        request is on time.
        """
        s, o, a, _ = instance.columns
        Q, W = ascent.integer_prices()
        # The costs of `start_values` include the latency of each start. Subtract it.
        P, _ = start_values(Q, s, o, a)
        P -= SCALE * (np.arange(P.shape[1]) + (o - a)[:, np.newaxis])
        rows = zip(P, a.tolist(), last.tolist(), strict=True)
        costs = [own[arrival : final + 1] for own, arrival, final in rows]
        return cls(LATE_ROUNDS * SCALE, sum(W.tolist()), costs)

    def useful(self, arrivals: IntArray, late: int) -> list[IntArray]:
        """Return the starts of each request that a schedule with ``late`` late requests can use.

        The priced cost of a start is what the request pays for memory. The reduced cost of a start
        is its priced cost minus the term of its request in the lower bound, min(``unit``, least
        priced cost of its starts). One late request costs ``unit``. The cost of a schedule is at
        least `value`, the lower bound before rounding, plus the reduced costs of all its starts,
        none of which is negative. So a start is excluded if `value` plus its reduced cost alone
        exceeds the cost of ``late`` late requests (reduced-cost fixing).

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

"""Minimise total latency without preemption, for every memory rule, memory limit and size.

`TotalLatency.run` has the table of the parts of the solve (`hindsight.outcomes.flow`).

**Schedules** come from annealed orders (`hindsight.schedules.orders`), and from beam searches and
local search (`hindsight.schedules.improving`), which the linear relaxation guides. State prices
guide beam searches near the best schedule (`hindsight.exact.corridors`).

**The relaxation** (`hindsight.rounds.token_relaxation`) gives an exact lower bound and memory
prices for one machine in tokens. If its time share ends before it converges, it continues after the
search for schedules has stopped gaining. If reduced costs at its prices leave few starts, HiGHS
solves the integer program over these starts (`hindsight.rounds.program`). Meanwhile schedules
improve in a second thread or, if there is one thread, in the callbacks of HiGHS.

**State prices**, for small memory limits, are improved by dual ascent
(`hindsight.prices.state_ascent`, started from a few state tables). They prove a lower bound in
exact integers (`hindsight.prices.states`). They also prune up to three exact searches:

* partial schedules within growing budgets of total latency (`hindsight.exact.states`), for one
  machine in tokens: if a budget is exhausted, no schedule has a total latency within it;
* path graphs (`hindsight.rounds.graphs`), for one machine in tokens or blocks;
* the integer program, in blocks or on replicas, if reduced costs leave few starts.

State prices are computed for the problem with its memory counted in tokens. The requests that run
together on a replica form a configuration that fits into its memory. So the requests on K replicas
pay at most K times the price of the most expensive configuration.

Annealing, price ascents and exact searches count moves, steps and states, not seconds. So a solve
that uses nothing else repeats the same steps on every computer. The steps depend on the speed of
the computer if ruin and recreate runs, which has a share of the time, or if schedules improve in a
second thread. All bounds are proved.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from hindsight.exact.corridors import CorridorSearch
from hindsight.exact.starts import start_sets
from hindsight.exact.states import StateSearch
from hindsight.outcomes.flow import Background, Part, run_turns
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import MEMORY_PRICES, STATE_PRICES, Progress, Relaxation
from hindsight.prices.state_ascent import LARGEST_MEMORY_LIMIT, StateAscent, fits
from hindsight.prices.states import StatePrices, exact_bound
from hindsight.runtime.clock import Clock
from hindsight.runtime.search import Search
from hindsight.schedules.improving import Improvement
from hindsight.schedules.lists import best_list_schedule
from hindsight.schedules.orders import OrderSearch
from instances import Schedule
from instances.problem.memory_translation import relaxed

from .graphs import GraphSearch
from .program import search_program, starts_left, starts_left_by_states
from .token_relaxation import TokenRelaxation

MOVES, MOVE_SLICE = 100_000, 10_000
"""Moves of the annealing of request orders: in its first run, and between two clock polls."""

SHARES = {True: 0.02, False: 0.4}
"""Share of the time for ruin and recreate (requests are removed and put back), if there is one
thread and state prices are used. Key True: one machine with memory in tokens, where annealing also
finds schedules. Key False: memory in blocks, or replicas."""

SEARCHED_STATES, MOST_STATES = 300_000, 1_500_000
"""`SEARCHED_STATES`: most partial schedules that a run of the exact search visits. More visits
gain less than path graphs. `MOST_STATES`: most partial schedules at an epoch (time between rounds)
for 64 requests, about a gigabyte. For n requests, the limit is 64 / n times this number."""

FEW_REQUESTS = 28
"""Largest number of requests for which the exact search is likely to make the bounds equal."""

FEWEST_RUINED = 32
"""Least number of requests for which ruin and recreate runs if there is one machine with memory in
tokens. For fewer requests, the annealing of orders alone finds equally good schedules."""

FIRST_STEP = 0.002
"""The exact search first covers total latencies <= lower bound + FIRST_STEP x upper bound."""

ASCENT, FIRST_WIDTH = 60, 8
"""`ASCENT`: steps of the first ascent in state prices, at each width. The width is the number of
consecutive epochs (times between two rounds) with equal prices. It is first `FIRST_WIDTH`, or
(epochs) / `LEAST_SHARES` if that is less, or 1 for few requests. The ascents halve it down to 1.
With width 1 alone, they would take three times as long for almost the same bound."""

LEAST_SHARES = 32
"""Least number of groups of consecutive epochs with equal state prices. With fewer groups, the
lower bound that the prices prove would be much smaller for instances with few rounds."""

SETTLED, FEW_NODES = 0.003, 5_000_000
"""State prices are settled once an ascent raised their lower bound by at most `SETTLED` times the
upper bound. From then on path graphs raise the bound more than a further ascent, so path graphs are
built. With earlier prices they would be several times larger. Still, after the second ascent a
graph that is expected to have at most `FEW_NODES` nodes is built before prices are settled."""

PATIENCE = 3
"""A solve with state prices, no time limit, and replicas or memory in blocks ends after this many
consecutive turns that improve no bound. A turn runs each part of the solve once."""

RELAXATION_SHARE, GUIDE_SHARE = 0.25, 0.5
"""Shares of the remaining time for the linear relaxation. `RELAXATION_SHARE`: in each turn, without
state prices. `GUIDE_SHARE`: with state prices, where the relaxation only guides a search."""

LARGEST_BESIDE, MOST_PAIRS = 500_000, 20_000
"""Limits on integer programs for HiGHS. `LARGEST_BESIDE`: non-zeros in memory constraints, while
heuristics run too. `MOST_PAIRS`: triples (request, start, replica), with several replicas."""

SEARCH_SHARE, CYCLES = 0.7, 7
"""If HiGHS and heuristics take turns in one thread: `SEARCH_SHARE` is the share of time for HiGHS,
and `CYCLES` is the number of local-search runs in each turn of the heuristics."""

PROGRAM_SHARE = 0.4
"""Share of the remaining time for HiGHS, if memory is in blocks or there are several replicas."""

BELOW_SHARE = 0.15
"""Share of the remaining time for beam search on the single-machine relaxation, if memory is in
blocks or there are several replicas. Requests are then placed in the order of the starts found."""

FIRST_CYCLES, FIRST_SHARE = 16, 0.1
"""Local search before the linear relaxation, if memory is in blocks or there are several replicas.
`FIRST_CYCLES`: its number of runs. `FIRST_SHARE`: its largest share of the remaining time."""

FINE, COARSE, LARGE = 1e-5, 1e-3, 500
"""The linear relaxation counts as solved at this relative accuracy of its bound: `COARSE` for more
than `LARGE` requests or if only heuristics use the result, else `FINE`."""


def refusal(interval: Interval) -> str | None:
    """Return the reason why state prices cannot be used for the problem, or None if they can.

    A state price is what a request pays in a round. It depends on the tokens that the request holds
    and the rounds that it still runs. The reason completes an error message about the method
    ``"paths"``.
    """
    if interval.source.is_weighted:
        return "counts every request alike: it takes no weights"
    if fits(relaxed(interval.source), interval.schedule.makespan):
        return None
    return f"needs a memory_limit of at most {LARGEST_MEMORY_LIMIT} and few rounds"


class TotalLatency:
    """Solver for total latency without preemption.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    search : Search
        Options of the solve.
    method : {"auto", "paths", "mip", "beams"}, default "auto"
        ``"mip"``: only HiGHS searches for schedules. ``"beams"``: only heuristics do. With the
        other methods, every search and every lower bound that fits the problem is used.
    has_states : bool, default True
        Whether there are state prices. A state price is what a request pays in a round. It depends
        on the tokens that the request holds and the rounds that it still runs.
    """

    def __init__(
        self, interval: Interval, search: Search, method: str = "auto", *, has_states: bool = True
    ) -> None:
        self._interval, self._source, self._search = interval, interval.source, search
        self._method, self._has_states = method, has_states
        self._is_plain, n = interval.problem.is_plain, len(self._source)
        self._has_few_requests, self._in_tokens = n <= FEW_REQUESTS, relaxed(self._source)
        self._is_ruined = not (has_states and self._is_plain) or n >= FEWEST_RUINED
        improve = partial(self._improve, runs=1 if has_states else CYCLES)
        steps: list[Callable[[Interval], Any]] = [improve] * self._is_ruined
        share = SHARES[self._is_plain] if has_states else 1 - SEARCH_SHARE
        if has_states and self._is_plain:
            # A state of the exact search is a partial schedule, and stores the starts of all
            # requests. So with more requests, fewer states fit into memory.
            most_states = max(1, min(SEARCHED_STATES, MOST_STATES * 64 // n))
            self._states = StateSearch(self._source.columns, most_states)
            self._orders = OrderSearch(self._source, interval.schedule.start_times, search.seed)
            self._moves, self._step = MOVES, max(1, round(FIRST_STEP * interval.upper_bound))
            self._corridors = CorridorSearch(self._source.columns, most_states, search.seed)
            steps[:0] = self._anneal, self._search_corridors
        share *= self._is_ruined
        self._schedules = Background(interval, search.cores, *steps, share=share)
        # ``_relaxation`` is the linear relaxation, and ``_relaxed`` its latest result. The flag
        # ``_is_relaxed`` is True if no more time is spent on the relaxation: its result is accurate
        # enough, or it cannot be improved.
        self._relaxation: TokenRelaxation | None = None
        self._relaxed: Relaxation | None = None
        self._is_relaxed = False
        # Schedules are offered to two `Interval` objects: that of the solve, and that of the second
        # thread. For each of them, ``_searches`` has the search that offers schedules to it, and
        # ``_followed`` the result of the linear relaxation that guides this search.
        self._searches: dict[Interval, Improvement] = {}
        self._followed: dict[Interval, Relaxation] = {}
        self._graphs = GraphSearch(interval)
        # ``_root`` has the state prices that prove the largest bound so far, and their capacities
        # (defined in `starts_left_by_states`). ``_root_bound`` is this bound. ``_gain`` is the
        # number of rounds by which the last price ascent raised it. ``_ascents`` counts the price
        # ascents.
        self._root: Any = None
        self._root_bound = self._gain = self._ascents = 0

    def run(self) -> None:
        """Run the methods that fit the problem in turn, until none of them improves the bounds.

        If there are state prices (for small memory limits), two threads and more than
        `FEW_REQUESTS` requests, the second thread improves schedules all the time.
        """
        interval, states = self._interval, self._has_states
        plain, one = states and self._is_plain, states and self._source.replicas == 1
        search = Part(partial(self._improve, interval), "search")
        search = search._replace(fits=not states and self._method != "mip")
        relax = Part(self._relax, "relaxation", fits=self._is_ruined)
        is_whole = self._is_plain or self._method == "mip"
        programs = Part(self._solve_programs, "search", 1.0 if is_whole else PROGRAM_SHARE)
        parts = [
            Part(self._schedules.advance, "heuristics", fits=plain),
            Part(self._start_prices, "relaxation", fits=states, once=True),
            search._replace(once=True),
            relax._replace(share=GUIDE_SHARE if states else RELAXATION_SHARE, once=states),
            search,
            Part(self._improve_prices, "relaxation", fits=states),
            Part(self._search_states, "search", fits=plain),
            Part(partial(self._schedules.advance, 1), "search", fits=plain),
            Part(self._search_graphs, "search", fits=one),
            programs._replace(fits=self._method != "beams" and not plain, once=states),
            search._replace(run=partial(self._improve, interval, None)),
        ]
        patience = PATIENCE if states and not self._is_plain else None
        wanted = not self._has_few_requests
        with self._schedules.running(wanted=wanted) if states else nullcontext():
            run_turns(interval, parts, lambda: states or not self._is_relaxed, patience)

    def _solve_programs(self) -> None:
        """Solve the integer program in HiGHS over the starts that better schedules may use.

        All other starts are excluded by reduced-cost fixing. Memory prices (per token and round)
        and state prices (by tokens held and rounds to go), if there are any, prove that every
        schedule with such a start is worse than the best one found so far. Without state prices,
        heuristics improve schedules at the same time. With state prices or the method ``"mip"``,
        HiGHS has all threads.
        """
        interval, source = self._interval, self._source
        if self._relaxed is None or not self._is_relaxed:
            return
        useful = starts_left(interval, self._relaxed.prices)
        if useful is None:
            interval.stop_reason = "size"
            return
        if self._has_states:
            useful = starts_left_by_states(interval, self._root, useful)
        starts, is_alone = start_sets(source, useful), self._has_states or self._method == "mip"
        entries = np.array(list(map(len, useful))) @ source.output_lengths
        pairs = sum(map(len, starts.starts)) if source.replicas > 1 else 0
        if pairs > MOST_PAIRS or (entries > LARGEST_BESIDE and not is_alone):
            return
        stop = None if is_alone else self._schedules.must_stop
        with self._schedules.running(wanted=not is_alone):
            search_program(interval, self._search, starts, stop)

    def _anneal(self, interval: Interval) -> None:
        """Improve the schedule by simulated annealing of the order and the delays of the requests.

        Each request, in this order, takes the first start at which it fits. With a delay of d
        rounds, it takes the first one at least d rounds later. In the main thread, each call makes
        twice as many moves as the one before. The schedule is offered to ``interval``.
        """
        orders, done, interval.phase = self._orders, 0, "heuristics"
        orders.best.offer(interval.schedule.start_times)
        while done < self._moves and not interval.clock.must_stop():
            orders.run(min(MOVE_SLICE, self._moves - done))
            done += MOVE_SLICE
            if orders.best_cost < interval.upper_bound:
                interval.offer(Schedule(self._source, orders.best.starts))
        if interval is self._interval:
            # In the main thread, each annealing has twice as many moves as the one before. In a
            # second thread, annealings of equal length take turns with ruin and recreate.
            self._moves *= 2

    def _search_corridors(self, interval: Interval) -> None:
        """Run beam searches near the best schedule, and offer the best one to ``interval``.

        State prices guide them. Before the second ascent in these prices, do nothing.
        """
        if self._ascents > 1:
            starts, stop = interval.schedule.start_times, interval.clock.must_stop
            found = self._corridors.improve(starts, self._states.prices, stop)
            interval.offer(Schedule(self._source, found))

    def _start_prices(self) -> None:
        """Start the ascent in state prices from the prices of a few state tables.

        A state price is what a request pays in a round. It depends on the tokens that the request
        holds and the rounds that it still runs, its state. A state table assigns to each state a
        number, the same in all rounds. The first state prices are weighted sums of a few tables,
        with weights that depend on the round. The lower bound that they prove is recorded.
        """
        self._ascent = StateAscent(
            self._in_tokens,
            self._interval.schedule.makespan,
            threads=self._search.cores,
            must_stop=self._schedules.must_stop,
        )
        width = 1
        # ``width`` is the number of consecutive epochs (times between two rounds) with equal
        # prices. With few requests the exact search is decisive, and it needs separate prices for
        # each epoch.
        if not self._has_few_requests:
            width = max(1, min(FIRST_WIDTH, len(self._ascent.prices) // LEAST_SHARES))
        self._prove_root()
        self._ascent.share(width)

    def _improve_prices(self) -> None:
        """Run an ascent in state prices, and record the bound that they prove and the gain.

        A state price is what a request pays in a round, by the tokens that it holds and the rounds
        that it still runs. The width of an ascent is the number of consecutive epochs (times
        between two rounds) with equal prices. It is halved during the ascent. At each width, an
        ascent has twice as many steps as the ascent before. The gain is the increase of the lower
        bound by the ascent, or the whole bound for the first ascent. Once an ascent gained at most
        `SETTLED` times the upper bound, no further one runs.
        """
        interval, ascent = self._interval, self._ascent
        if self._ascents and self._gain <= SETTLED * interval.upper_bound:
            self._gain = 0
            return
        before = self._root_bound if self._ascents else 0
        steps, fade = ASCENT << self._ascents, max(0.25, min(1.0, 2.0 / 2**self._ascents))
        is_finest = False
        while not is_finest:
            ascent.improve(steps, fade, self._schedules.must_stop)
            self._prove_root()
            ascent.share(max(1, ascent.width // 2))
            is_finest = ascent.width == 1 or interval.is_done()
        self._ascents, self._gain = self._ascents + 1, self._root_bound - before

    def _prove_root(self) -> None:
        Q, W = self._ascent.integer_prices()
        bound, interval = exact_bound(Q, self._in_tokens), self._interval
        if self._is_plain:
            self._states.set_prices(Q, W)
        if self._root is None or bound > self._root_bound:
            self._root, self._root_bound = (Q, W), bound
        interval.prove(min(bound, interval.upper_bound), STATE_PRICES, proof=StatePrices(Q))

    def _search_states(self) -> None:
        """Search exactly over partial schedules, with growing budgets (limits on total latency).

        If a search for one budget covers all schedules and finds none, every schedule has a larger
        total latency. The searches for all budgets together visit at most `SEARCHED_STATES` partial
        schedules.
        """
        interval, step, left = self._interval, self._step, SEARCHED_STATES
        while left > 0 and not interval.is_done():
            budget = min(interval.lower_bound + step - 1, interval.upper_bound - 1)
            stop = self._schedules.must_stop
            outcome = self._states.run(budget, should_stop=stop, state_limit=left)
            left -= outcome.states
            if outcome.found is not None:
                interval.offer(Schedule(self._source, outcome.found))
            if outcome.status != "exhausted":
                self._step = max(1, step // 3)
                break
            # The search has covered all schedules whose total latency is at most ``budget``. If it
            # has found a schedule, the best one found is optimal, and its cost is the upper bound.
            # Otherwise the optimum is at least budget + 1.
            proved = budget + 1 if outcome.found is None else interval.upper_bound
            interval.prove(min(proved, interval.upper_bound), "state search")
            self._step = step
            step *= 2

    def _search_graphs(self) -> None:
        """Search path graphs, which contain all schedules up to a total latency as paths.

        Path graphs are built once state prices (prices of the tokens that requests hold and of
        their rounds to go) have nearly converged, or if a graph is expected to be small. Prices
        have converged if the last ascent in them raised the bound by little. The first ascent
        cannot show this, because its gain is the whole bound.
        """
        interval, graphs, root = self._interval, self._graphs, self._root_bound
        is_settled = not self._is_plain or self._gain <= SETTLED * interval.upper_bound
        nodes = graphs.nodes(interval.upper_bound - 1 - root)
        if is_settled or (self._ascents > 1 and nodes <= FEW_NODES):
            with self._schedules.running(wanted=self._has_few_requests):
                graphs.run(self._root, root, self._schedules.must_stop)

    def _relax(self) -> None:
        """Continue to solve the linear relaxation, and record the bound that its prices prove."""
        interval, guides = self._interval, self._has_states
        if self._relaxation is None:
            tolerance = COARSE if guides or len(interval.source) > LARGE else FINE

            def report(news: Progress) -> None:
                interval.prove(news.lower_bound, MEMORY_PRICES)

            options = interval.clock, report
            self._relaxation = TokenRelaxation(interval.problem.below, tolerance, *options)
        relaxed = self._relaxed = self._relaxation.run()
        interval.prove(relaxed.certified_bound, MEMORY_PRICES, proof=relaxed.prices)
        self._is_relaxed = guides or relaxed.stop_reason != "time-limit"

    def _improve(self, interval: Interval, runs: int | None = 1) -> None:
        """Search for a while, and offer better schedules to ``interval``.

        The first call for an ``interval`` builds first schedules: by beam search, or by local
        search for memory in blocks or replicas. If the linear relaxation has a new result, the next
        call uses it as a guide (`_follow`). Every other call makes ``runs`` runs of local search.
        If ``runs`` is None, the runs end once they gain nothing. But if there is a time limit and
        the relaxation is solved, the runs continue until the time limit.
        """
        limited = interval.clock.limit_left() is not None
        if interval not in self._searches:
            is_single = self._has_states or interval is not self._interval
            threads = 1 if is_single else self._search.cores
            search = self._searches[interval] = Improvement(interval, self._search.seed, threads)
            if interval.problem.is_plain:
                search.run_beams()
            else:
                with interval.clock.within(FIRST_SHARE * interval.clock.seconds_left()):
                    search.run(FIRST_CYCLES, patient=True)
        elif self._followed.get(interval) is not self._relaxed:
            self._follow(interval)
        else:
            patient = runs is not None or (self._is_relaxed and limited)
            self._searches[interval].run(runs, patient=patient)
            interval.note_stop()

    def _follow(self, interval: Interval) -> None:
        """Guide the search by the linear relaxation, and run beam searches.

        The search then uses the mean starts and the memory prices of the relaxation. The beam
        searches place the requests in order of their mean starts. If memory is in blocks or there
        are replicas, they build schedules of one machine with memory in tokens (the single-machine
        relaxation of the problem). The requests of the problem itself are then placed in the order
        of their starts in the best of these schedules.
        """
        relaxed, search = self._relaxed, self._searches[interval]
        assert relaxed is not None
        self._followed[interval] = relaxed
        search.follow(relaxed.expected_start_times, relaxed.prices)
        if interval.problem.is_plain:
            search.run_beams()
            return
        below, left = interval.problem.below, interval.clock.limit_left()
        limit = Clock(None if left is None else BELOW_SHARE * left, interval.clock.must_stop)
        machine = Interval(Problem(below), Search(limit))
        machine.offer(best_list_schedule(below, limit.must_stop))
        beams = Improvement(machine)
        beams.run_beams()
        beams.follow(relaxed.expected_start_times, relaxed.prices)
        beams.run_beams()
        if search.moves.place(np.argsort(machine.schedule.start_times, kind="stable")):
            interval.offer(search.moves.schedule)

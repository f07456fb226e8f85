"""Minimise total latency for small memory limits: state prices, and exact searches they prune.

The solve runs in phases, each with twice the work of the one before. A phase first improves
schedules. Then it improves state prices by dual ascent (`hindsight.prices.state_ascent`, started
from a few state tables). They prove a lower bound in exact integers (`hindsight.prices.states`).
Then it searches exactly, by up to three methods:

* partial schedules within growing budgets of total latency (`hindsight.exact.states`), for one
  machine in tokens: if a budget is exhausted, no schedule has a total latency within it;
* path graphs (`hindsight.rounds.graphs`), for one machine in tokens or blocks;
* the integer program (`hindsight.rounds.program`), in blocks or on replicas, if reduced costs
  leave few starts.

State prices are computed for the problem with its memory counted in tokens. The requests that run
together on a replica form a configuration that fits into its memory. So the requests on K replicas
pay at most K times the price of the most expensive configuration.

For one machine in tokens, schedules come from annealed orders (`hindsight.schedules.orders`). With
more than a few requests, and for all other problems, they also come from ruin and recreate
(`hindsight.schedules.improving`). Annealing, price ascents and exact searches count moves, steps
and states, not seconds. So a solve with these alone repeats the same steps on every computer.
Ruin and recreate has a share of the time, and with two threads schedules of more than a few
requests improve in the second one. Then the steps depend on the computer. All bounds are proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hindsight.exact.starts import start_sets
from hindsight.exact.states import StateSearch
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import STATE_PRICES, Relaxation
from hindsight.prices.starts import request_classes
from hindsight.prices.state_ascent import StateAscent, fits
from hindsight.prices.states import StatePrices, exact_bound
from hindsight.runtime.search import Search
from hindsight.schedules.improving import Improvement
from hindsight.schedules.orders import OrderSearch
from instances import Instance, Schedule
from instances.arrays import IntArray
from instances.problem.memory_translation import relaxed

from .background import Background
from .graphs import GraphSearch
from .large_memory import MOST_PAIRS, first_schedules, follow, relax_further, token_relaxation
from .program import search_program, starts_left, starts_left_by_states

MOVES, MOVE_SLICE = 100_000, 10_000
"""Number of moves of the first annealing of the request order; moves between two clock polls."""

SHARES = {True: (0.05, 1.0), False: (0.4, 0.0)}
"""Share of the time that ruin and recreate gets if there is one thread, and seconds before it
begins. Key True: one machine with memory in tokens, where annealing also finds schedules and the
price ascent gains more in the first second. Key False: memory in blocks, or replicas."""

FEWEST_RUINED = 36
"""Least number of requests for which ruin and recreate runs if there is one machine with memory in
tokens. For fewer requests, the annealing of orders alone finds equally good schedules."""

STATES, SEARCHED_STATES, MOST_STATES = 150_000, 150_000, 1_500_000
"""Largest numbers of partial schedules in the exact search over them: in the first phase, in any
phase (path graphs gain more than further ones), and at any one epoch (time between two rounds). The
last number is for 64 requests, about a gigabyte, and is smaller in proportion for more requests."""

FEW_REQUESTS = 28
"""Largest number of requests for which the exact search is likely to close the gap of bounds."""

WORTHWHILE_GAIN = 0.001
"""If a phase raises the lower bound from state prices by at least this share of the upper bound,
the price ascent of the next phase has twice as many steps."""

FIRST_STEP = 0.002
"""The exact search first covers total latencies <= lower bound + FIRST_STEP x upper bound."""

ASCENT, FIRST_WIDTH = 60, 8
"""Ascent in state prices: number of steps at each width in the first phase, and first width. The
width is the number of consecutive epochs (times between two rounds) with equal prices. It is 1 for
few requests, and at most (epochs) / `LEAST_SHARES`. The ascent halves it until each epoch has its
own prices. An ascent at width 1 alone would take three times as long for almost the same bound."""

FADES = (1.0, 1.0, 0.5, 0.25)
"""Factors on temperatures and step sizes of price ascents with ASCENT x (1, 2, 4, >= 8) steps."""

RESUMED = 2
"""Number of first factors in `FADES` that are skipped if the user gave state prices."""

LEAST_SHARES = 32
"""Least number of groups of consecutive epochs with equal state prices. With fewer groups, the
lower bound that the prices prove would be much smaller for instances with few rounds."""

MANY_ALIKE = 4
"""Least mean number of identical requests for which the exact search over partial schedules also
runs before the price ascent. With many identical requests, few partial schedules differ."""

SETTLED, FEW_NODES = 0.0035, 5_000_000
"""`SETTLED`: path graphs wait for better state prices, which make them several times smaller, if
the last ascent raised the lower bound by more than this share of the upper bound. `FEW_NODES`:
largest expected number of nodes of a path graph that does not wait after the first phase."""

CONVERGED = 0.002
"""The price ascent ends once a phase raises the lower bound from state prices by at most this share
of the upper bound, because path graphs then raise the bound more in the same time."""

PROGRAM_SHARE, PATIENCE = 0.5, 3
"""Share of the time left that HiGHS gets; fruitless phases that end a solve without time limit."""


def refusal(interval: Interval) -> str | None:
    """Return the reason why state prices cannot be used for the problem, or None if they can.

    A state price is what a request pays in a round, by the tokens that it holds and the rounds that
    it still runs. The reason completes an error message about the method ``"paths"``.
    """
    if interval.source.is_weighted:
        return "counts every request alike: it takes no weights"
    if fits(relaxed(interval.source), interval.schedule.makespan):
        return None
    return "needs a small memory_limit and few rounds"


class SmallMemory:
    """Solver for total latency if the memory limit is small: state prices and exact searches.

    A state price is what a request pays in a round, by the tokens that it holds and the rounds that
    it still runs. The prices prove lower bounds. The solver runs in phases. Each phase improves
    schedules, then state prices, and then searches exactly.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    search : Search
        Options of the solve.
    prices : StatePrices or None, default None
        State prices given by the user, from which the price ascent starts. None: it starts from
        the prices of a few state tables (`hindsight.prices.state_ascent`).
    """

    def __init__(
        self, interval: Interval, search: Search, prices: StatePrices | None = None
    ) -> None:
        self.interval, self.source, self._options = interval, interval.source, search
        self._in_tokens: Instance = relaxed(self.source)
        self._is_plain, n = interval.problem.is_plain, len(self.source)
        self._root: tuple[IntArray, IntArray] | None = None
        self._relaxed: Relaxation | None = None
        self._has_few_requests = n <= FEW_REQUESTS
        self._improvements: dict[Interval, Improvement] = {}
        self._orders: OrderSearch | None = None
        self._states: StateSearch | None = None
        if self._is_plain:
            # A state of the exact search is a partial schedule, and stores the starts of all
            # requests. So with more requests, fewer states fit into memory.
            most_states = max(1, min(SEARCHED_STATES, MOST_STATES * 64 // n))
            self._states = StateSearch(self.source.columns, most_states)
        share, after = SHARES[self._is_plain]
        steps: list[Callable[[Interval], None]] = [self._improve]
        if self._is_plain:
            self._orders = OrderSearch(self.source, interval.schedule.start_times, search.seed)
            steps = [self._anneal, self._improve] if n >= FEWEST_RUINED else [self._anneal]
        self._is_ruined = self._improve in steps
        share *= self._is_ruined
        self._schedules = Background(interval, search.cores, *steps, share=share, after=after)
        self._graphs = GraphSearch(interval, search.cores) if self.source.replicas == 1 else None
        self._ascent: StateAscent | None = None
        self._known_prices, self._priced_bound = prices, 0
        self._step = max(1, round(FIRST_STEP * interval.upper_bound))
        self._moves, self._is_programmed = MOVES, False
        # Gain of the lower bound from state prices in the last price ascent, in rounds. It is
        # infinite before the first ascent.
        self._gain: float = math.inf

    def run(self) -> None:
        """Run phases until the bounds meet, the solve must stop, or phases no longer gain anything.

        With two threads and more than `FEW_REQUESTS` requests, the second thread improves schedules
        during all phases.
        """
        try:
            with self._schedules.running(wanted=not self._has_few_requests):
                self._run_phases()
        finally:
            proved = self._graphs.root_bound if self._graphs else 0
            self.interval.root_bound = max(proved, self.interval.root_bound or 0)

    def _run_phases(self) -> None:
        interval, price_work, states, fruitless = self.interval, 1, STATES, 0
        while not interval.is_done():
            before = interval.upper_bound - interval.lower_bound
            if self._is_plain:
                self._schedules.advance()
            interval.phase = "relaxation"
            if self._ascent is None and not interval.is_done():
                self._start_prices()
                if MANY_ALIKE * len(request_classes(self._in_tokens).counts) <= len(self.source):
                    self._exhaust(states)
                if self._is_ruined and not interval.is_done():
                    relaxation = token_relaxation(interval, guides=True)
                    self._relaxed = relax_further(relaxation, interval, 0.5)
            if not interval.is_done():
                self._improve_prices(price_work)
            interval.phase = "search"
            if not interval.is_done():
                self._exhaust(states)
            states *= 3 if self._has_few_requests else 2
            # A phase improves schedules, then prices, and then searches exactly. The exact search
            # of the next phase gets more work. The price ascent gets more work only if it raised
            # the lower bound enough in this phase.
            if self._gain >= WORTHWHILE_GAIN * interval.upper_bound:
                price_work *= 2
            gained = interval.upper_bound - interval.lower_bound < before
            fruitless = 0 if gained or self._is_plain else fruitless + 1
            if fruitless == PATIENCE and interval.clock.limit_left() is None:
                interval.note_stop()
                return

    def _anneal(self, interval: Interval) -> None:
        """Improve the schedule by simulated annealing of the order and the delays of the requests.

        Each request, in this order, takes the first start at which it fits. With a delay of d
        rounds, it takes the first one at least d rounds later. In the main thread, each call makes
        twice as many moves as the one before. The schedule is offered to ``interval``.
        """
        orders, done, interval.phase = self._orders, 0, "heuristics"
        assert orders is not None
        orders.best.offer(interval.schedule.start_times)
        while done < self._moves and not interval.clock.must_stop():
            orders.run(min(MOVE_SLICE, self._moves - done))
            done += MOVE_SLICE
            if orders.best_cost < interval.upper_bound:
                interval.offer(Schedule(self.source, orders.best.starts))
        if interval is self.interval:
            # In the main thread, each annealing has twice as many moves as the one before. In a
            # second thread, annealings of equal length take turns with ruin and recreate.
            self._moves *= 2

    def _improve(self, interval: Interval) -> None:
        """Improve the schedule by beam searches or by local search.

        The first call for an ``interval`` builds first schedules. The first call after the linear
        relaxation is solved runs beam searches in order of the expected starts in the relaxation.
        Every other call makes one run of local search. Schedules are offered to ``interval``.
        """
        improvement = self._improvements.get(interval)
        if improvement is None:
            improvement = Improvement(interval, self._options.seed)
            self._improvements[interval] = improvement
            first_schedules(improvement, interval)
        elif self._relaxed is not None and not improvement.is_guided:
            follow(improvement, interval, self._relaxed)
        else:
            improvement.run(1, patient=True)

    def _start_prices(self) -> None:
        """Start the ascent in state prices from the user's prices, or from a few state tables.

        A state price is what a request pays in a round, by the tokens that it holds and the rounds
        that it still runs. A state table has such prices that are the same in all rounds. The lower
        bound that the first prices prove is computed and recorded.
        """
        self._ascent = StateAscent(
            self._in_tokens,
            self.interval.schedule.makespan,
            threads=self._options.cores,
            known=self._known_prices,
            must_stop=self._schedules.must_stop,
        )
        width = 1
        # ``width`` is the number of consecutive epochs (times between two rounds) with equal
        # prices. With few requests the exact search is decisive, and it needs separate prices for
        # each epoch.
        if self._known_prices is None and not self._has_few_requests:
            width = max(1, min(FIRST_WIDTH, len(self._ascent.prices) // LEAST_SHARES))
        self._prove_root(self._ascent)
        self._ascent.share(width)

    def _improve_prices(self, work: int) -> None:
        """Run an ascent in state prices, and record the lower bound that they prove and its gain.

        The number of steps is `ASCENT` times ``work`` at each width, the number of consecutive
        epochs with equal prices. The gain is the increase of the lower bound by the ascent. For the
        first ascent it is the whole bound. Once an ascent gained at most `CONVERGED` times the
        upper bound, no further ascent runs.
        """
        ascent, before = self._ascent, self._priced_bound
        if ascent is None or self._gain <= CONVERGED * self.interval.upper_bound:
            self._gain = 0
            return
        phase = work.bit_length() - 1 + (0 if self._known_prices is None else RESUMED)
        fade = FADES[min(phase, len(FADES) - 1)]
        is_finest = False
        while not is_finest:
            ascent.improve(ASCENT * work, fade, self._schedules.must_stop)
            self._prove_root(ascent)
            ascent.share(max(1, ascent.width // 2))
            is_finest = ascent.width == 1 or self.interval.is_done()
        self._priced_bound = self.interval.root_bound or 0
        self._gain = self._priced_bound - before

    def _prove_root(self, ascent: StateAscent) -> None:
        Q, W = ascent.integer_prices()
        bound, interval = exact_bound(Q, self._in_tokens), self.interval
        if self._states is not None:
            self._states.set_prices(Q, W)
        is_better = interval.root_bound is None or bound > interval.root_bound
        if is_better:
            interval.root_bound = bound
            # Make the state prices Q the proof of the solve, unless path graphs have proved a bound
            # that is at least as large.
            if not self._graphs or self._graphs.proved < bound:
                interval.proof = StatePrices(Q)
        # ``_root`` has the state prices that path graphs and reduced-cost fixing use: those with
        # the largest bound so far. The first prices are kept even if another method has already
        # proved a larger bound.
        if is_better or self._root is None:
            self._root = Q, W
        interval.prove(min(bound, interval.upper_bound), STATE_PRICES)

    def _exhaust(self, states: int) -> None:
        """Search exactly, by up to three methods one after another.

        First search at most ``states`` partial schedules. Then search path graphs, which contain
        all schedules up to a total latency as paths, if the state prices have nearly converged.
        Finally solve the integer program.
        """
        interval = self.interval
        self._exhaust_states(min(states, SEARCHED_STATES))
        if self._root is None or self._gain == math.inf or interval.is_done():
            return
        if self._graphs is not None:
            root = interval.root_bound or 0
            # Path graphs wait until state prices have nearly converged, or a graph is expected to
            # be small. ``_gain`` is the amount by which the last price ascent raised the lower
            # bound from state prices. After the first ascent it is the whole bound, and does not
            # show whether the prices have converged.
            is_settled = not self._is_plain or self._gain <= SETTLED * interval.upper_bound
            nodes = self._graphs.growth.nodes(interval.upper_bound - 1 - root)
            if not (is_settled or (self._gain < root and nodes <= FEW_NODES)):
                return
            with self._schedules.running(wanted=self._has_few_requests):
                self._graphs.run(self._root, self._schedules.must_stop)
        self._search_program()

    def _exhaust_states(self, states: int) -> None:
        """Search all partial schedules for growing budgets (upper limits) of total latency.

        If a search for one budget covers all schedules and finds none, every schedule has a larger
        total latency. The searches for all budgets together visit at most ``states`` partial
        schedules.
        """
        interval, step, stop = self.interval, self._step, self._schedules.must_stop
        while self._states is not None and states > 0 and not interval.is_done():
            budget = min(interval.lower_bound + step - 1, interval.upper_bound - 1)
            outcome = self._states.run(budget, should_stop=stop, state_limit=states)
            states -= outcome.states
            interval.nodes += outcome.states
            if outcome.found is not None:
                interval.offer(Schedule(self.source, outcome.found))
            if outcome.status != "exhausted":
                self._step = max(1, step // 3)
                return
            # The search has covered all schedules whose total latency is at most ``budget``. If it
            # has found a schedule, the best one found is optimal, and its cost is the upper bound.
            # Otherwise the optimum is at least budget + 1.
            proved = budget + 1 if outcome.found is None else interval.upper_bound
            interval.prove(min(proved, interval.upper_bound), "state search")
            self._step = step
            step *= 2

    def _search_program(self) -> None:
        """Solve the integer program over the starts that better schedules may use.

        All other starts are excluded by their reduced costs, at memory prices (per token and round)
        and at state prices (by tokens held and rounds to go): every schedule with such a start is
        worse than the best one found so far. The program is solved at most once in a solve, and
        only for memory in blocks or for replicas.
        """
        interval, relaxed = self.interval, self._relaxed
        if self._is_plain or self._is_programmed or relaxed is None or interval.is_done():
            return
        self._is_programmed = True
        useful = starts_left(interval, relaxed.prices)
        if useful is None:
            return
        assert self._root is not None
        starts = start_sets(self.source, starts_left_by_states(interval, self._root, useful))
        if self.source.replicas == 1 or sum(map(len, starts.starts)) <= MOST_PAIRS:
            with interval.clock.within(PROGRAM_SHARE * interval.clock.seconds_left()):
                search_program(interval, self._options, starts)

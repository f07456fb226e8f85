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

The prices are those of the problem in tokens, with its replicas. The requests that run on a replica
form a configuration that fits into its memory, so K replicas pay at most K times the price of the
heaviest configuration.

For one machine in tokens, schedules come from annealed orders (`hindsight.schedules.orders`), and
unless there are few requests also from ruin and recreate (`hindsight.schedules.improving`). For all
other problems they come from ruin and recreate. Work is counted in moves, steps and states, not in
seconds, so a solve that ends with a proof takes the same course on every computer. There are two
exceptions. Ruin and recreate gets a share of the time. With two threads and more than a few
requests, one thread improves schedules all the time, while the other improves prices and searches
exactly. Then the course depends on the computer, but every bound is still proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from hindsight.exact.starts import start_sets
from hindsight.exact.states import StateSearch
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import STATE_PRICES, Relaxation
from hindsight.prices.starts import request_classes
from hindsight.prices.state_ascent import StateAscent, fits
from hindsight.prices.states import StatePrices, exact_bound
from hindsight.runtime.beside import Beside
from hindsight.runtime.clock import never
from hindsight.runtime.search import Search
from hindsight.schedules.improving import Improvement
from hindsight.schedules.orders import OrderSearch
from instances import Instance, Schedule
from instances.arrays import IntArray
from instances.problem.memory_translation import relaxed

from .graphs import GraphSearch
from .large_memory import MOST_PAIRS, first_schedules, follow, relax_further, token_relaxation
from .program import search_program, starts_left, starts_left_by_states

MOVES, MOVE_SLICE = 100_000, 10_000
"""Annealing moves in the first phase, and moves between two polls of the clock."""

RUIN_SHARES, OTHER_SHARES = (0.05, 0.25), (0.4, 0.5)
"""Shares of the time for ruin and recreate: in the only thread, where prices and exact search pause
meanwhile, and in a second thread. The first pair is for one machine in tokens, where orders are
annealed too. The second pair is for all other problems."""

FEWEST_RUINED = 36
"""Fewest requests for which ruin and recreate runs on one machine in tokens: with fewer, annealing
finds equally good schedules."""

STATES, SEARCHED_STATES, MOST_STATES = 150_000, 150_000, 1_500_000
"""States of the exact search in its first phase, and most states in any phase, because graphs
handle the rest. Last, most states of one epoch for up to 64 requests, and proportionally fewer for
more requests: about a gigabyte."""

FEW_REQUESTS = 28
"""Most requests for which the exact search is likely to close the gap."""

WORTHWHILE_GAIN = 0.001
"""Gain of the root bound, relative to the upper bound, for which prices get twice the work."""

FIRST_STEP = 0.002
"""First step of the budget above the lower bound, relative to the upper bound."""

ASCENT, FIRST_WIDTH = 60, 8
"""Ascent steps at each width in the first phase, and the first width. The width is the number of
consecutive epochs that share prices. It is at most the number of epochs over `LEAST_SHARES`, and 1
for few requests. It is halved until each epoch has its own prices: this proves most of the bound in
a third of the time."""

FADES = (1.0, 1.0, 0.5, 0.25)
"""Factors on the temperatures and step sizes of the ascent, by phase; the last one holds for all
later phases."""

RESUMED = 2
"""Phases of `FADES` that an ascent from given prices skips."""

LEAST_SHARES = 32
"""Fewest groups of epochs that share prices: with fewer, most of the bound is lost on instances
with few rounds."""

MANY_ALIKE = 4
"""Mean number of identical requests from which there are few partial schedules. The exact search
under the first prices then proves more in a moment than the price ascent does in seconds."""

SETTLED, FEW_NODES = 0.0035, 5_000_000
"""Gain of the root bound in a phase, relative to the upper bound, above which no large graph is
built, because each hundredth of the gap that prices close makes graphs several times smaller. Then
the most nodes of a graph before the second phase of the price ascent."""

CONVERGED = 0.002
"""Gain of the root bound in a phase, relative to the upper bound, below which later phases keep
their prices: graphs gain more in the same time."""

PROGRAM_SHARE, PATIENCE = 0.5, 3
"""Share of the time left for the integer program, and the number of phases without gain that end a
solve without a time limit."""


def refusal(interval: Interval) -> str | None:
    """Return why state prices cannot be used, or None if they can."""
    if interval.source.is_weighted:
        return "counts every request alike: it takes no weights"
    if fits(relaxed(interval.source), interval.schedule.makespan):
        return None
    return "needs a small memory_limit and few rounds"


class SmallMemory:
    """Solver by the phases of this module, which updates an `Interval` with a schedule.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    search : Search
        Options of the solve.
    prices : StatePrices or None, default None
        State prices given by the user, from which the ascent starts; None if there are none.
    """

    def __init__(
        self, interval: Interval, search: Search, prices: StatePrices | None = None
    ) -> None:
        self.interval, self.source, self._options = interval, interval.source, search
        self._in_tokens: Instance = relaxed(self.source)
        self._is_plain, n = interval.problem.is_plain, len(self.source)
        self._root: tuple[IntArray, IntArray] | None = None
        self._relaxed: Relaxation | None = None
        self._improvement: Improvement | None = None
        self._has_few_requests = n <= FEW_REQUESTS
        self._is_ruined = n >= FEWEST_RUINED or not self._is_plain
        kinds = len(request_classes(self._in_tokens).counts)
        self._has_few_kinds = MANY_ALIKE * kinds <= n
        # With few requests the best schedule is found at once: only the proofs take long.
        self._is_alone = search.cores == 1 or self._has_few_requests
        self._orders: OrderSearch | None = None
        self._states: StateSearch | None = None
        if self._is_plain:
            starts = interval.schedule.start_times
            self._orders = OrderSearch(self.source, starts, search.seed)
            # Each state stores the starts of all requests.
            most_states = max(1, MOST_STATES * 64 // max(64, n))
            self._states = StateSearch(self.source.columns, most_states)
        self._graphs = GraphSearch(interval, search.cores) if self.source.replicas == 1 else None
        self._ascent: StateAscent | None = None
        self._known_prices, self._priced_bound = prices, 0
        self._step = max(1, round(FIRST_STEP * interval.upper_bound))
        self._moves, self._ruin_seconds, self._is_programmed = MOVES, 0.0, False
        # Before the first ascent the prices count as not converged.
        self._gain: float = math.inf
        self._must_stop = self._poll_alone

    def run(self) -> None:
        """Run phases until the bounds meet, the solve must stop, or no phase gains anything.

        With two threads and many requests, one thread improves schedules all the time.
        """
        try:
            with self._schedules_beside(few_requests=False):
                self._run_phases()
        finally:
            proved = self._graphs.root_bound if self._graphs else 0
            self.interval.root_bound = max(proved, self.interval.root_bound or 0)

    def _run_phases(self) -> None:
        interval, price_work, states, fruitless = self.interval, 1, STATES, 0
        growth = 3 if self._has_few_requests else 2
        while not interval.is_done():
            before = interval.upper_bound - interval.lower_bound
            if self._is_alone:
                interval.phase = "heuristics"
                self._anneal(self._moves, interval)
            interval.phase = "relaxation"
            if self._ascent is None and not interval.is_done():
                self._start_prices()
                if self._has_few_kinds:
                    self._exhaust(states)
                self._relax()
            if not interval.is_done():
                self._improve_prices(price_work)
            interval.phase = "search"
            if not interval.is_done():
                self._exhaust(states)
            self._moves *= 2
            states *= growth
            # Prices that hardly improve are not worth twice the work, but the search is.
            if self._gain >= WORTHWHILE_GAIN * interval.upper_bound:
                price_work *= 2
            gained = interval.upper_bound - interval.lower_bound < before
            fruitless = 0 if gained or self._is_plain else fruitless + 1
            if fruitless == PATIENCE and interval.clock.limit_left() is None:
                interval.note_stop()
                return

    @contextmanager
    def _schedules_beside(self, *, few_requests: bool) -> Iterator[None]:
        """Improve schedules in a second thread during the ``with`` block, if threads allow it.

        No thread is started unless the instance has few requests just if ``few_requests`` is True.
        """
        is_alone = self._options.cores == 1 or few_requests != self._has_few_requests
        if is_alone or self.interval.is_done():
            yield
            return
        beside: Beside[Any] = Beside(self._improve_schedules, self.interval.offer)
        self._must_stop = partial(beside.take_then, self.interval.is_done)
        try:
            with beside.running():
                yield
        finally:
            self._must_stop = self._poll_alone
        self.interval.note_stop()

    def _poll_alone(self) -> bool:
        """Improve schedules in their share of the time, then return whether to stop."""
        if self._is_alone:
            self._ruin_and_recreate(self.interval)
        return self.interval.is_done()

    def _improve_schedules(
        self, found: Callable[[Any], object], must_stop: Callable[[], bool]
    ) -> None:
        """Alternate annealing with ruin and recreate in a second thread."""
        apart = self.interval.apart(found, must_stop)
        moves = self._moves
        while not apart.clock.must_stop():
            apart.offer(self.interval.schedule)
            self._anneal(moves, apart)
            self._ruin_and_recreate(apart)
            moves *= 2

    def run_each_part_once(self) -> None:
        """Run a minimal amount of every kind of work, to compile the kernels."""
        # Run also if the first prices prove optimality.
        self._must_stop = never
        self._anneal(MOVE_SLICE, self.interval)
        self._start_prices()
        self._improve_prices(1)
        if self._states is not None:
            self._states.run(self.interval.upper_bound)

    def _anneal(self, moves: int, interval: Interval) -> None:
        orders, done = self._orders, 0
        if orders is None:
            return
        orders.offer(interval.schedule.start_times)
        while done < moves and not interval.clock.must_stop():
            orders.run(min(MOVE_SLICE, moves - done))
            done += MOVE_SLICE
            if orders.best_cost < interval.upper_bound:
                interval.offer(Schedule(self.source, orders.best_starts))

    def _relax(self) -> None:
        """Solve the linear relaxation. Its prices guide ruin and recreate and the program."""
        if self._is_ruined and not self.interval.is_done():
            relaxation = token_relaxation(self.interval, guides=True)
            self._relaxed = relax_further(relaxation, self.interval, 0.5)

    def _ruin_and_recreate(self, interval: Interval) -> None:
        """Run beams once, then ruin-and-recreate cycles for their share of the time.

        All calls must pass the same interval.
        """
        if not self._is_ruined:
            return
        while not interval.is_done() and self._is_turn_of_cycles(interval):
            phase = interval.phase
            if self._improvement is None:
                self._improvement = Improvement(interval, self._options.seed)
                first_schedules(self._improvement, interval)
            elif self._relaxed is not None and not self._improvement.is_guided:
                follow(self._improvement, interval, self._relaxed)
            else:
                begun = interval.clock.seconds()
                self._improvement.run(1, patient=True)
                self._ruin_seconds += interval.clock.seconds() - begun
            interval.phase = phase

    def _is_turn_of_cycles(self, interval: Interval) -> bool:
        """Return whether ruin and recreate has had less than its share, or has a new relaxation."""
        improvement = self._improvement
        if self._relaxed is not None and not (improvement and improvement.is_guided):
            return True
        if improvement is not None and improvement.moves.is_too_long:
            return False
        alone, beside = RUIN_SHARES if self._is_plain else OTHER_SHARES
        if interval is not self.interval:
            return self._ruin_seconds <= beside * interval.clock.seconds()
        # In the first second the price ascent gains more.
        return self._ruin_seconds <= alone * (interval.clock.seconds() - self._is_plain)

    def _start_prices(self) -> None:
        """Start the ascent from given prices, or from a few state tables; evaluate them exactly."""
        self._ascent = StateAscent(
            self._in_tokens,
            self.interval.schedule.makespan,
            threads=self._options.cores,
            known=self._known_prices,
            must_stop=self._must_stop,
        )
        width = 1
        # With few requests the exact search decides, and it needs the finest prices.
        if self._known_prices is None and not self._has_few_requests:
            width = max(1, min(FIRST_WIDTH, len(self._ascent.prices) // LEAST_SHARES))
        self._prove_root(self._ascent)
        self._ascent.share(width)

    def _improve_prices(self, work: int) -> None:
        """Run an ascent, evaluate its prices exactly, and record the gain in the root bound.

        The bound of the first prices counts as gain of the first ascent. After a small gain the
        prices stay as they are.
        """
        ascent, before = self._ascent, self._priced_bound
        if ascent is None or self._gain <= CONVERGED * self.interval.upper_bound:
            self._gain = 0
            return
        phase = work.bit_length() - 1 + (0 if self._known_prices is None else RESUMED)
        fade = FADES[min(phase, len(FADES) - 1)]
        is_finest = False
        while not is_finest:
            ascent.improve(ASCENT * work, fade, self._must_stop)
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
            # Path graphs may have proved a larger bound.
            if not self._graphs or self._graphs.proved < bound:
                interval.proof = StatePrices(Q)
        # An earlier method of this solve may have proved a larger root bound.
        if is_better or self._root is None:
            self._root = Q, W
        interval.prove(min(bound, interval.upper_bound), STATE_PRICES)

    def _exhaust(self, states: int) -> None:
        """Search partial schedules, then path graphs or the integer program if prices converged."""
        interval = self.interval
        self._exhaust_states(min(states, SEARCHED_STATES))
        if self._root is None or self._gain == math.inf or interval.is_done():
            return
        if self._graphs is not None:
            root = interval.root_bound or 0
            # In the first phase the whole root bound counts as gain.
            is_settled = not self._is_plain or self._gain <= SETTLED * interval.upper_bound
            nodes = self._graphs.growth.nodes(interval.upper_bound - 1 - root)
            if not (is_settled or (self._gain < root and nodes <= FEW_NODES)):
                return
            with self._schedules_beside(few_requests=True):
                self._graphs.run(self._root, self._must_stop)
        self._search_program()

    def _exhaust_states(self, states: int) -> None:
        """Search within growing budgets until ``states`` states are used; adapt the first step."""
        interval, step = self.interval, self._step
        while self._states is not None and states > 0 and not interval.is_done():
            budget = min(interval.lower_bound + step - 1, interval.upper_bound - 1)
            outcome = self._states.run(budget, should_stop=self._must_stop, state_limit=states)
            states -= outcome.states
            interval.nodes += outcome.states
            if outcome.found is not None:
                interval.offer(Schedule(self.source, outcome.found))
            if outcome.status != "exhausted":
                self._step = max(1, step // 3)
                return
            # No schedule within the budget is left except, perhaps, the optimum just found.
            proved = budget + 1 if outcome.found is None else interval.upper_bound
            interval.prove(min(proved, interval.upper_bound), "state search")
            self._step = step
            step *= 2

    def _search_program(self) -> None:
        """Solve the integer program once, over the starts that memory and state prices leave."""
        interval, relaxed = self.interval, self._relaxed
        if self._is_plain or self._is_programmed or relaxed is None or interval.is_done():
            return
        self._is_programmed = True
        useful = starts_left(interval, relaxed.prices)
        if useful is None:
            return
        assert self._root is not None
        starts = start_sets(self.source, starts_left_by_states(interval, self._root, useful))
        if self.source.replicas == 1 or starts.count <= MOST_PAIRS:
            with interval.clock.within(PROGRAM_SHARE * interval.clock.seconds_left()):
                search_program(interval, self._options, starts)

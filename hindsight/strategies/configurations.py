"""The strong search: annealed schedules, table prices, and an exact search that they prune.

Phase after phase, each with twice the work of the one before: anneal schedules
(`hindsight.schedules.orders`), improve prices of what runs together
(`hindsight.prices.state_ascent`, begun from a few state tables), which bound the optimum in exact
integers (`hindsight.prices.states`), and exhaust growing budgets of total latency
(`hindsight.exact.states`): an exhausted budget is a proof that no schedule stays
within it, and all of its arithmetic is on integers. Unless requests are few, schedules are ruined
and recreated in between (`hindsight.schedules.improving`).

Work is counted in moves, rounds and states, not in seconds, so that a solve that ends with a proof
takes the same course on every machine. There are two exceptions. Cycles of ruin and recreate have a
share of the time. With two threads and more than a few requests, one of them anneals throughout,
while the other one improves prices and searches exactly. Then the course depends on the machine,
but nothing that is proved does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from hindsight.exact.states import StateSearch
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import MEMORY_PRICES, STATE_PRICES
from hindsight.outcomes.results import Relaxation
from hindsight.prices.starts import request_classes
from hindsight.prices.state_ascent import StateAscent, fits
from hindsight.prices.state_proofs import StatePrices
from hindsight.prices.states import exact_bound
from hindsight.runtime.beside import Beside
from hindsight.runtime.clock import Clock, never
from hindsight.schedules.improving import Improvement
from hindsight.schedules.orders import OrderSearch
from hindsight.strategies.token_relaxation import TokenRelaxation
from instances import Schedule
from instances.arrays import IntArray

from .strategy import Problem, Strategy

RESUMED = 2
"""Phases by which an ascent from good prices is ahead of one from tables."""

LEAST_SHARES = 32
"""Least number of shares of all epochs: fewer miss most of the bound where all is done soon."""

MANY_ALIKE = 4
"""Requests for each kind, in the mean, with which there are few partial schedules: the search then
proves more under the first prices, in a moment, than prices gain in seconds."""


@dataclass(frozen=True)
class Configurations(Strategy):
    """Annealed schedules, prices of what runs together, and an exact search that they prune.

    Attributes
    ----------
    moves : int, default 100_000
        Annealing moves of the first phase.
    move_slice : int, default 10_000
        Moves between two polls of the clock.
    ruin_shares : tuple[float, float], default (0.05, 0.25)
        Shares of the time for cycles of ruin and recreate: of a single thread, whose prices and
        exact search pause for them, and of a thread beside these.
    fewest_ruined : int, default 36
        Fewest requests for which there are such cycles, above ``few_requests``: of fewer, annealing
        finds as good ones.
    relaxation_tolerance : float, default 1e-3
        Relative gap at which the linear relaxation ends whose prices these cycles follow.
    states : int, default 150_000
        States of the exact search in its first phase.
    most_states : int, default 1_500_000
        Most states of one epoch, for up to 64 requests; proportionally fewer for more. This limits
        memory to about a gigabyte.
    few_requests : int, default 28
        Most requests for which the exact search may well close the gap.
    search_growth : int, default 3
        Growth of the exact search from phase to phase for few requests; it doubles for more.
    worthwhile_gain : float, default 0.001
        Gain of the root bound, relative to the upper bound, for which prices get twice the work.
    first_step : float, default 0.002
        First step of the budget above the root bound, relative to the upper bound.
    ascent : int, default 60
        Iterations of the configuration ascent in the first phase, at each width.
    first_width : int, default 8
        Number of consecutive epochs that share prices at first, of more than ``few_requests``, but
        at most one in `LEAST_SHARES` of all epochs. It is halved until each has its own in the
        second phase: most of the bound comes in a third of the time.
    fades : tuple[float, ...], default (1.0, 1.0, 0.5, 0.25)
        Heats and steps of the ascent by phase, as shares of the first; the last holds for the rest.
    """

    moves: int = 100_000
    move_slice: int = 10_000
    ruin_shares: tuple[float, float] = (0.05, 0.25)
    fewest_ruined: int = 36
    relaxation_tolerance: float = 1e-3
    states: int = 150_000
    most_states: int = 1_500_000
    few_requests: int = 28
    search_growth: int = 3
    worthwhile_gain: float = 0.001
    first_step: float = 0.002
    ascent: int = 60
    first_width: int = 8
    fades: tuple[float, ...] = (1.0, 1.0, 0.5, 0.25)

    name: ClassVar[str] = "configurations"

    def refusal(self, problem: Problem) -> str | None:
        """Refuse weights, and tables that are too large."""
        if problem.instance.is_weighted:
            return "counts every request alike: it takes no weights"
        if fits(problem.instance, problem.first_bounds.schedule.makespan):
            return None
        return "needs a small memory_limit and few rounds"

    def run(self, problem: Problem, state: Interval) -> None:
        """Run phases until proof, time limit or interruption."""
        threads = problem.cores
        ConfigurationSearch(state, problem.seed, threads, self, problem.prices).run()


class ConfigurationSearch:
    """Solve by the phases of this module, which reports its results to a `Interval`."""

    def __init__(
        self,
        state: Interval,
        seed: int,
        threads: int = 1,
        parameters: Configurations | None = None,
        prices: StatePrices | None = None,
    ) -> None:
        instance = state.problem
        self.state = state
        self.instance = instance
        self._parameters = parameters or Configurations()
        self._threads = threads
        self._root: tuple[IntArray, IntArray] | None = None
        self._lengths = (instance.prompt_lengths, instance.output_lengths, instance.arrival_times)
        self._annealing = OrderSearch(instance, state.schedule.start_times, seed)
        self._seed = seed
        self._relaxed: Relaxation | None = None
        self._ruins: Improvement | None = None
        self._has_few_requests = len(instance) <= self._parameters.few_requests
        is_ruined = len(instance) >= self._parameters.fewest_ruined
        self._is_ruined = is_ruined and not self._has_few_requests
        kinds = len(request_classes(instance).counts)
        self._has_few_kinds = MANY_ALIKE * kinds <= len(instance)
        # Of few requests the best schedule is found at once: what takes long are the proofs.
        self._is_alone = threads == 1 or self._has_few_requests
        # Each state stores the starts of all requests.
        most_states = max(1, self._parameters.most_states * 64 // max(64, len(instance)))
        self._search = StateSearch(instance.columns, most_states)
        self._ascent: StateAscent | None = None
        self._priced_bound = state.root_bound or 0
        self._known_prices = prices
        self._step = max(1, round(self._parameters.first_step * state.upper_bound))
        self._moves = self._parameters.moves
        self._ruin_seconds = 0.0
        self._must_stop = self._poll_alone

    def run(self) -> None:
        """Run phases until proof, time limit or interruption.

        With two threads and many requests, one of them improves schedules throughout.
        """
        with self._schedules_beside(few_requests=False):
            self._run_phases()

    def _run_phases(self) -> None:
        state, parameters = self.state, self._parameters
        price_work, states = 1, parameters.states
        growth = parameters.search_growth if self._has_few_requests else 2
        while not state.is_done():
            if self._is_alone:
                state.phase = "heuristics"
                self._anneal(self._moves, state)
            state.phase = "relaxation"
            if self._ascent is None and not state.is_done():
                self._start_prices()
                if self._has_few_kinds:
                    self._exhaust(states)
                self._relax()
            gain = 0 if state.is_done() else self._improve_prices(price_work)
            state.phase = "search"
            if not state.is_done():
                self._exhaust(states)
            self._moves *= 2
            states *= growth
            # Prices that have settled are not worth twice the work, but the search is.
            if gain >= parameters.worthwhile_gain * state.upper_bound:
                price_work *= 2

    @contextmanager
    def _schedules_beside(self, *, few_requests: bool) -> Iterator[None]:
        """Improve schedules in a further thread, if there are two and so many requests."""
        is_alone = self._threads == 1 or few_requests != self._has_few_requests
        if is_alone or self.state.is_done():
            yield
            return
        beside = Beside(self._improve_schedules, self.state.offer)
        self._must_stop = partial(beside.take_then, self.state.is_done)
        try:
            with beside.running():
                yield
        finally:
            self._must_stop = self._poll_alone
        self.state.note_stop()

    def _poll_alone(self) -> bool:
        """Give schedules their share of the time, then tell whether to stop."""
        if self._is_alone:
            self._ruin_and_recreate(self.state)
        return self.state.is_done()

    def _improve_schedules(
        self, found: Callable[[Schedule], object], must_stop: Callable[[], bool]
    ) -> None:
        """Anneal, and ruin and recreate, in turn, in a second thread."""
        apart = self.state.apart(found, must_stop)
        moves = self._moves
        while not apart.clock.must_stop():
            apart.offer(self.state.schedule)
            self._anneal(moves, apart)
            self._ruin_and_recreate(apart)
            moves *= 2

    def run_each_part_once(self) -> None:
        """Run the smallest amount of every kind of work, to compile the kernels."""
        # Also where the first prices are a proof.
        self._must_stop = never
        self._anneal(self._parameters.move_slice, self.state)
        self._start_prices()
        self._improve_prices(1)
        self._search.run(self.state.upper_bound)

    def _anneal(self, moves: int, state: Interval) -> None:
        self._annealing.offer(state.schedule.start_times)
        done, move_slice = 0, self._parameters.move_slice
        while done < moves and not state.clock.must_stop():
            self._annealing.run(min(move_slice, moves - done))
            done += move_slice
            if self._annealing.best_cost < state.upper_bound:
                state.offer(Schedule(self.instance, self._annealing.best_starts))

    def _relax(self) -> None:
        """Solve the linear relaxation, whose prices guide ruin and recreate."""
        state = self.state
        if not self._is_ruined or state.is_done():
            return
        relaxation = TokenRelaxation(
            self.instance,
            tolerance=self._parameters.relaxation_tolerance,
            clock=Clock(should_stop=self._must_stop),
        )
        relaxation.go_on()
        relaxed = self._relaxed = relaxation.result()
        state.prove(relaxed.certified_bound, MEMORY_PRICES, proof=relaxed.memory_prices)

    def _ruin_and_recreate(self, state: Interval) -> None:
        """Run beams once, then cycles for their share of the time, always on the same state."""
        if not self._is_ruined:
            return
        while not state.is_done() and self._is_turn_of_cycles(state):
            phase = state.phase
            if self._ruins is None:
                self._ruins = Improvement(state, self._seed)
                self._ruins.run_first()
            elif self._relaxed is not None and not self._ruins.is_guided:
                self._ruins.follow(self._relaxed.expected_start_times, self._relaxed.memory_prices)
                self._ruins.run_whole()
            else:
                begun = state.clock.seconds()
                self._ruins.run(1, patient=True)
                self._ruin_seconds += state.clock.seconds() - begun
            state.phase = phase

    def _is_turn_of_cycles(self, state: Interval) -> bool:
        """Whether cycles have had less than their share; a new relaxation is followed at once."""
        is_guided = self._ruins is not None and self._ruins.is_guided
        if self._relaxed is not None and not is_guided:
            return True
        alone, beside = self._parameters.ruin_shares
        if state is not self.state:
            return self._ruin_seconds <= beside * state.clock.seconds()
        # Within the first second, prices gain more.
        return self._ruin_seconds <= alone * (state.clock.seconds() - 1)

    def _start_prices(self) -> None:
        """Begin from known prices, or from those of a few tables, and evaluate them exactly."""
        parameters = self._parameters
        self._ascent = StateAscent(
            self.instance,
            self.state.schedule.makespan,
            threads=self._threads,
            known=self._known_prices,
            must_stop=self._must_stop,
        )
        width = 1
        # Of few requests the exact search decides, which wants the finest prices.
        if self._known_prices is None and not self._has_few_requests:
            width = max(1, min(parameters.first_width, len(self._ascent.prices) // LEAST_SHARES))
        self._prove_root(self._ascent)
        self._ascent.share(width)

    def _improve_prices(self, work: int) -> int:
        """Run an ascent and evaluate its prices exactly; return the gain since the last one.

        What the first prices prove is a gain of the first ascent.
        """
        stop, parameters = self._must_stop, self._parameters
        assert self._ascent is not None
        before, ascent = self._priced_bound, self._ascent
        fades = parameters.fades
        phase = work.bit_length() - 1 + (0 if self._known_prices is None else RESUMED)
        fade = fades[min(phase, len(fades) - 1)]
        is_finest = False
        while not is_finest:
            ascent.improve(parameters.ascent * work, fade, stop)
            self._prove_root(ascent)
            ascent.share(max(1, ascent.width // 2))
            is_finest = ascent.width == 1 or self.state.is_done()
        self._priced_bound = self.state.root_bound or 0
        return self._priced_bound - before

    def _prove_root(self, ascent: StateAscent) -> None:
        Q, W = ascent.integer_prices()
        bound = exact_bound(Q, self.instance)
        self._search.set_prices(Q, W)
        state = self.state
        is_better = state.root_bound is None or bound > state.root_bound
        if is_better:
            state.root_bound, state.proof = bound, StatePrices(Q)
        # An earlier search of the same solve may have proved more at its root.
        if is_better or self._root is None:
            self._root = Q, W
        state.prove(min(bound, state.upper_bound), STATE_PRICES)

    @property
    def _root_prices(self) -> tuple[IntArray, IntArray]:
        """Return the prices and capacities that prove the most so far."""
        assert self._root is not None
        return self._root

    def _exhaust(self, states: int) -> None:
        """Exhaust growing budgets until ``states`` are spent; the first step adapts."""
        state = self.state
        step = self._step
        while states > 0 and not state.is_done():
            budget = min(state.lower_bound + step - 1, state.upper_bound - 1)
            outcome = self._search.run(budget, should_stop=self._must_stop, state_limit=states)
            states -= outcome.states
            state.nodes += outcome.states
            if outcome.found is not None:
                state.offer(Schedule(self.instance, outcome.found))
            if outcome.status != "exhausted":
                self._step = max(1, step // 3)
                return
            # Nothing is left within the budget except, perhaps, the optimum just found.
            proved = budget + 1 if outcome.found is None else state.upper_bound
            state.prove(min(proved, state.upper_bound), "state search")
            self._step = step
            step *= 2

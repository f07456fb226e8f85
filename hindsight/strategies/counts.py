"""Good schedules, and the integer program over the number of requests of a class per start.

It serves instances of few rounds whose memory limit is too large for
`hindsight.strategies.configurations`, for example with tokens counted in large units. Schedules are
those of `hindsight.strategies.beams`, which follow the prices of the relaxation; those of few
requests are annealed from there (`hindsight.heuristics.annealing`). Bounds come from these prices,
evaluated exactly in integers, and from HiGHS's search of the integer program over the starts that
they allow. The bounds of this search are those of floating-point arithmetic, so they are not
certified. Schedules are improved in its polls, or in a second thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from hindsight.heuristics.annealing import LocalSearch
from hindsight.integer_program.start_counts import CountProgram
from hindsight.integer_program.starts import StartSets
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.solve_state import SolveState
from hindsight.runtime.beside import Beside
from instances import Schedule
from instances.arrays import FloatArray, IntArray

from .beams import Beams, LargeSearch
from .mip import IntegerProgram
from .strategy import Problem, Strategy, relaxed, starts_left


@dataclass(frozen=True)
class Counts(Strategy):
    """Good schedules, the bound of memory prices, and HiGHS's search.

    Attributes
    ----------
    beams : Beams
        Parameters of the beams.
    ruin_cycles : int, default 7
        Their cycles of ruin and recreate in a phase.
    few_requests : int, default 128
        Most requests whose schedules are annealed after the first phase.
    moves : int, default 500_000
        Annealing moves of a phase.
    move_slice : int, default 10_000
        Moves between two polls of the clock.
    patience : int, default 100_000
        Moves per request without a better schedule after which annealing restarts.
    search_share : float, default 0.7
        Share of the time that HiGHS has where it shares a thread with the search for schedules.
    undisturbed : float, default 10.0
        Seconds that HiGHS has to itself first: what it closes, it mostly closes soon.
    longest_search : float, default 900.0
        Most seconds until HiGHS ends: its tree has no limit on memory.
    largest_program : int, default 500_000
        Most memory entries of all starts of all requests; larger instances are refused.
    """

    beams: Beams = field(default_factory=Beams)
    ruin_cycles: int = 7
    few_requests: int = 128
    moves: int = 500_000
    move_slice: int = 10_000
    patience: int = 100_000
    search_share: float = 0.7
    undisturbed: float = 10.0
    longest_search: float = 900.0
    largest_program: int = 500_000

    name: ClassVar[str] = "counts"

    def refusal(self, problem: Problem) -> str | None:
        """Refuse weights, and more memory entries than `largest_program`."""
        if problem.instance.is_weighted:
            return "counts every request alike: it takes no weights"
        starts = problem.first_bounds.starts
        if starts is not None and starts.memory_entries <= self.largest_program:
            return None
        return f"has more than {self.largest_program:,} rounds of all starts to choose from"

    def run(self, problem: Problem, state: SolveState) -> None:
        """Run until proof, time limit, interruption, or the end of HiGHS's longest search."""
        starts = problem.first_bounds.starts
        assert starts is not None
        LargeSearch(state, problem.seed, self.beams, problem.cores).run_first()
        if state.is_done():
            return
        state.phase = "relaxation"
        found = relaxed(state)
        left = starts_left(state, starts, found.memory_prices)
        if state.is_done():
            return
        guide = found.expected_start_times, found.memory_prices
        if problem.cores == 1:
            improve = self._improver(problem.seed, guide, state)
            self._close(problem, state, left, state.is_done, improve)
        else:
            beside = Beside(partial(self._improve, problem.seed, guide, state), state.offer)
            with beside.running():
                self._close(problem, state, left, partial(beside.take_then, state.is_done))
            state.is_done()

    def _close(
        self,
        problem: Problem,
        state: SolveState,
        starts: StartSets,
        is_done: Callable[[], bool],
        improve: Callable[[], object] | None = None,
    ) -> None:
        """Raise bounds, and improve schedules in turn if no second thread does."""
        state.phase = "search"
        if self.search_share and not is_done():
            self._search(problem, state, CountProgram(starts), is_done, improve)
        while not is_done():
            if improve is None:
                state.stop_reason = "size"
                return
            improve()

    def _search(
        self,
        problem: Problem,
        state: SolveState,
        program: CountProgram,
        is_done: Callable[[], bool],
        improve: Callable[[], object] | None,
    ) -> None:
        """Let HiGHS search the program with one thread, and improve schedules in its polls."""
        clock, spent = state.clock, 0.0
        begun = clock.seconds() + self.undisturbed

        def must_stop() -> bool:
            nonlocal spent
            now = clock.seconds()
            is_due = spent < (1 - self.search_share) * (now - begun)
            if improve is not None and is_due and not is_done():
                improve()
                spent += clock.seconds() - now
            return is_done()

        with clock.within(self.longest_search):
            IntegerProgram().search_linear(
                replace(problem, threads=1),
                state,
                program.integer_program(),
                program.values(state.schedule),
                program.schedule,
                must_stop,
            )

    def _improve(
        self,
        seed: int,
        guide: tuple[FloatArray, MemoryPrices],
        state: SolveState,
        found: Callable[[Schedule], object],
        must_stop: Callable[[], bool],
    ) -> None:
        """Improve schedules in a thread beside that of the solve's state."""
        apart = state.apart(found, must_stop)
        apart.offer(state.schedule)
        improve = self._improver(seed, guide, apart)
        while not must_stop():
            apart.offer(state.schedule)
            improve()

    def _improver(
        self, seed: int, guide: tuple[FloatArray, MemoryPrices], state: SolveState
    ) -> Callable[[], object]:
        """Run a first phase; return what improves the schedule of ``state`` for a further one."""
        search = LargeSearch(state, seed, self.beams)
        search.follow(*guide)
        search.run_whole()
        search.run(self.ruin_cycles)
        if len(state.instance) > self.few_requests:
            return partial(search.run, self.ruin_cycles, patient=True)
        return _Annealing(self, state, seed).run


class _Annealing:
    """Annealings one after another, since some get stuck in a poor local optimum.

    The first starts from the best schedule, the others from list schedules without delays.
    """

    def __init__(self, parameters: Counts, state: SolveState, seed: int) -> None:
        self._parameters, self._state = parameters, state
        self._patience = parameters.patience * len(state.instance)
        self._seed = seed
        self._times = self._fruitless = 0
        self._begin(state.schedule.start_times)

    def run(self) -> None:
        """Run the moves of a phase."""
        left, state = self._parameters.moves, self._state
        while left > 0 and not state.clock.must_stop():
            moves, cost = min(self._parameters.move_slice, left), self._search.best_cost
            self._search.run(moves)
            left -= moves
            self._fruitless = self._fruitless + moves if self._search.best_cost == cost else 0
            if self._search.best_cost < state.upper_bound:
                state.offer(Schedule(state.instance, self._search.best_starts))
            if self._fruitless >= self._patience:
                self._begin(None)

    def _begin(self, starts: IntArray | None) -> None:
        self._search = LocalSearch(self._state.instance, starts, self._seed + self._times)
        self._times += 1
        self._fruitless = 0

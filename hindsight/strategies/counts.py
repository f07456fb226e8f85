"""Annealed schedules, and a branch and bound over the number of requests of a class per start.

It serves instances of few rounds whose memory limit is too large for
`hindsight.strategies.configurations`, for example with tokens counted in large units. In each phase
schedules are annealed (`hindsight.heuristics.annealing`) while leaves of the tree are split
(`hindsight.integer_program.count_tree`), whose least bound is exact, in integers. The linear
program at its root has the starts that the memory prices of a first linear program allow.

Work is counted in moves and relaxations, not in seconds, and both sides exchange results only
between phases: the same seed takes the same course, with one thread or two.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

from hindsight.bounds.memory_prices import round_prices
from hindsight.heuristics.annealing import LocalSearch
from hindsight.integer_program.count_tree import CountTree
from hindsight.integer_program.start_counts import CountProgram
from hindsight.integer_program.starts import StartSets
from hindsight.outcomes.solve_state import SolveState
from instances import Schedule
from instances.arrays import IntArray
from instances.validation import ranged

from .strategy import Parameters, Problem, starts_left


@dataclass(frozen=True)
class Counts(Parameters):
    """Annealed schedules, and a tree of linear programs with exact bounds.

    Attributes
    ----------
    moves : int, default 500_000
        Annealing moves of a phase.
    move_slice : int, default 10_000
        Moves between two polls of the clock.
    patience : int, default 100_000
        Moves per request without a better schedule after which annealing restarts.
    relaxed_columns : int, default 400_000
        Columns of all linear programs of the tree in a phase.
    fewest_relaxations : int, default 20
        Least number of linear programs in a phase, however large they are.
    most_leaves : int, default 300_000
        Open leaves at which the tree is abandoned; this limits memory to about a gigabyte.
    largest_program : int, default 250_000
        Most memory entries of all starts of all requests; larger instances are refused.
    """

    moves: int = ranged(500_000, minimum=1)
    move_slice: int = ranged(10_000, minimum=1)
    patience: int = ranged(100_000, minimum=1)
    relaxed_columns: int = ranged(400_000, minimum=1)
    fewest_relaxations: int = ranged(20, minimum=1)
    most_leaves: int = ranged(300_000, minimum=1)
    largest_program: int = ranged(250_000, minimum=0)

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
        """Run phases until proof, time limit or interruption, or until the tree is too large."""
        starts = problem.first_bounds.starts
        assert starts is not None
        annealing = _Annealing(self, state, problem.seed)
        state.offer(Schedule(state.instance, annealing.run()))
        if state.is_done():
            return
        state.phase = "relaxation"
        tree = self._tree(starts, state)
        if tree is None:
            state.note_stop()
            return
        state.phase = "search"
        self._raise_lower(state, tree)
        relaxations = max(self.fewest_relaxations, self.relaxed_columns // tree.columns)
        with ThreadPoolExecutor(1) as pool:
            while not state.is_done():
                before = tree.relaxations
                annealed = pool.submit(annealing.run) if problem.cores > 1 else None
                tree.grow(state.upper_bound, relaxations)
                starts_found = annealing.run() if annealed is None else annealed.result()
                state.nodes += tree.relaxations - before
                for schedule in tree.take_found():
                    state.offer(schedule)
                self._raise_lower(state, tree)
                state.offer(Schedule(state.instance, starts_found))
                gave_up = tree.leaves > self.most_leaves or tree.is_stuck
                if gave_up and not state.is_done():
                    state.stop_reason = "size"
                    return

    def _raise_lower(self, state: SolveState, tree: CountTree) -> None:
        bound = state.upper_bound if tree.bound is None else tree.bound
        state.raise_lower(min(bound, state.upper_bound), certified=True)

    def _tree(self, starts: StartSets, state: SolveState) -> CountTree | None:
        """Build the tree over the starts that prices allow; None if there are none."""
        stop = state.clock.must_stop
        program = CountProgram(starts, stop)
        relaxed = program.relax(program.whole)
        if relaxed.row_duals is None:
            return None
        prices = round_prices(-relaxed.row_duals[: program.horizon], state.instance)
        return CountTree(CountProgram(starts_left(state, starts, prices), stop), stop)


class _Annealing:
    """Annealings one after another, since some get stuck in a poor local optimum.

    The first starts from the solve's first schedule, the others from list schedules without delays.
    """

    def __init__(self, parameters: Counts, state: SolveState, seed: int) -> None:
        self._parameters = parameters
        self._instance = state.instance
        self._must_stop = state.clock.must_stop
        self._patience = parameters.patience * len(state.instance)
        self._seed = seed
        self._first = state.schedule.start_times
        self._fruitless = self._times = 0
        self._begin()
        self._best, self._best_cost = self._search.best_starts, self._search.best_cost

    def run(self) -> IntArray:
        """Run the moves of a phase; return the best starts so far."""
        left = self._parameters.moves
        while left > 0 and not self._must_stop():
            moves, cost = min(self._parameters.move_slice, left), self._search.best_cost
            self._search.run(moves)
            left -= moves
            self._fruitless = self._fruitless + moves if self._search.best_cost == cost else 0
            if self._search.best_cost < self._best_cost:
                self._best, self._best_cost = self._search.best_starts, self._search.best_cost
            if self._fruitless >= self._patience:
                self._begin()
        return self._best

    def _begin(self) -> None:
        first = None if self._times else self._first
        self._search = LocalSearch(self._instance, first, self._seed + self._times)
        self._times += 1
        self._fruitless = 0

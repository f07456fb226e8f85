"""The integer program, searched by HiGHS over the starts that reduced costs allow."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from hindsight.integer_program.highs import (
    LinearModel,
    LinearResult,
    Termination,
    compile_model,
    solve_linear,
)
from hindsight.integer_program.models import (
    BUILDERS,
    Formulation,
    column_values,
    schedule_from_values,
)
from hindsight.integer_program.starts import StartSets
from hindsight.outcomes.errors import SolverError
from hindsight.outcomes.solve_state import SolveState
from instances import FleetSchedule, Schedule
from instances.arrays import FloatArray

from .strategy import Problem, Strategy, relaxed, starts_left

BUILD_SECONDS_PER_ENTRY = 4e-6
"""Rough seconds to build and compile a non-zero."""


@dataclass(frozen=True)
class IntegerProgram(Strategy):
    """Solve the relaxation, then [J25] Equations (1)-(4) over starts whose reduced costs are small.

    Attributes
    ----------
    most_starts : int or None, default None
        Most starts of the integer program; larger instances are refused. None refuses nothing,
        and ends with reason ``"size"`` if the starts do not fit into memory.
    build_seconds_per_entry : float, default 4e-6
        Estimated seconds to build one non-zero entry. A program that would take more than half
        the time left is not built.
    bound_tolerance : float, default 1e-4
        HiGHS's bounds are rounded up to integers after subtracting this.
    """

    most_starts: int | None = None
    build_seconds_per_entry: float = BUILD_SECONDS_PER_ENTRY
    bound_tolerance: float = 1e-4

    name: ClassVar[str] = "mip"

    def refusal(self, problem: Problem) -> str | None:
        """Refuse more starts than `most_starts`."""
        starts = problem.first_bounds.starts
        if self.most_starts is None or (starts is not None and starts.count <= self.most_starts):
            return None
        return f"has more than {self.most_starts:,} starts to choose from"

    def run(self, problem: Problem, state: SolveState) -> None:
        """Relax and search.

        Raises
        ------
        SolverError
            HiGHS failed, or contradicts the incumbent.
        """
        starts = problem.first_bounds.starts
        if starts is None:
            state.stop_reason = "size"
            return
        if not state.is_done():
            state.phase = "relaxation"
            starts = starts_left(state, starts, relaxed(state).memory_prices)
        if not state.is_done():
            self.search(problem, state, starts)

    def search(self, problem: Problem, state: SolveState, starts: StartSets) -> None:
        """Solve the program over ``starts``, warm-started, and report results to ``state``.

        ``starts`` must hold every schedule at least as good as the state's, so that the bound of
        the restricted model, capped by the upper bound, is a bound on the optimum.
        """
        state.phase = "search"
        seconds = self.build_seconds_per_entry * program_entries(starts, problem.formulation)
        if seconds > 0.5 * state.clock.seconds_left():
            state.stop_reason = "size"
            return
        compiled = compile_model(BUILDERS[problem.formulation](starts))
        self.search_linear(
            problem,
            state,
            compiled.linear,
            column_values(starts, compiled, state.schedule),
            partial(schedule_from_values, starts, compiled),
        )

    def search_linear(
        self,
        problem: Problem,
        state: SolveState,
        model: LinearModel,
        start: FloatArray,
        schedule_of: Callable[[FloatArray], Schedule | FleetSchedule],
        must_stop: Callable[[], bool] | None = None,
    ) -> None:
        """Solve a program that holds every schedule as good as the state's, and report results.

        Parameters
        ----------
        problem, state : Problem, SolveState
            The solve.
        model : LinearModel
            The program, with total latency as its objective.
        start : float64 array
            The state's schedule as a point of the program, shape (columns,).
        schedule_of : Callable[[float64 array], Schedule or FleetSchedule]
            Returns the schedule of an integer point.
        must_stop : Callable[[], bool] or None, default None
            Polled in place of the state's clock.
        """
        if state.is_done():
            return

        def hear(found: LinearResult) -> None:
            state.nodes = max(state.nodes, found.nodes)
            if found.values is not None:
                state.offer(schedule_of(found.values))
            if found.bound is not None:
                bound = math.ceil(found.bound - self.bound_tolerance)
                state.raise_lower(min(bound, state.upper_bound), certified=False)

        def kept(part: Callable[..., Any]) -> Callable[..., Any]:
            # An exception must not travel through HiGHS: it is kept, and the search stops.
            def run(*given: Any) -> Any:
                try:
                    return part(*given)
                except BaseException as error:  # noqa: BLE001 (re-raised by solve)
                    state.keep_error(error)
                    return True

            return run

        result = solve_linear(
            model,
            time_limit=state.clock.limit_left(),
            threads=problem.threads,
            seed=problem.seed,
            start=start,
            callback=kept(hear),
            should_stop=kept(must_stop or state.clock.must_stop),
        )
        if result.termination is Termination.INFEASIBLE:
            raise SolverError("HiGHS calls a model infeasible that holds the incumbent")
        hear(result)
        if (
            result.termination is Termination.OPTIMAL
            and result.objective is not None
            and round(result.objective) == state.upper_bound
        ):
            # HiGHS stops at a gap below one, which between integers is no gap.
            state.raise_lower(state.upper_bound, certified=False)
        state.note_stop()


def program_entries(starts: StartSets, formulation: Formulation) -> int:
    """Estimate the non-zeros of the program over ``starts``."""
    return starts.memory_entries if formulation == "dense" else 8 * starts.count

"""The integer program searched by HiGHS, over the starts that reduced costs leave."""

from __future__ import annotations

import math

from hindsight.integer_program.highs import (
    CompiledModel,
    LinearResult,
    SolverEvent,
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

BUILD_SECONDS_PER_ENTRY = 4e-6
"""Rough cost of building and compiling a non-zero: a model that would eat the time is skipped."""

BOUND_TOLERANCE = 1e-4
"""HiGHS's bounds are rounded up to integers after subtracting this."""


def search_with_highs(
    interval: SolveState,
    starts: StartSets,
    formulation: Formulation,
    threads: int | None,
    seed: int,
) -> None:
    """Solve [J25] Equations (1)-(4) over ``starts``, warm-started, feeding ``interval``.

    ``starts`` must hold every schedule at least as good as the interval's, so that the bound of
    the restricted model, capped by the upper bound, is a bound on the optimum.

    Raises
    ------
    SolverError
        HiGHS failed, or contradicts the incumbent.
    """
    interval.phase = "search"
    entries = starts.memory_entries if formulation == "dense" else 8 * starts.count
    if BUILD_SECONDS_PER_ENTRY * entries > 0.5 * interval.seconds_left():
        interval.stop_reason = "size"
        return
    compiled = compile_model(BUILDERS[formulation](starts))
    if interval.is_done():
        return
    left = interval.seconds_left()
    result = solve_linear(
        compiled.linear,
        time_limit=None if math.isinf(left) else max(0.0, left),
        threads=threads,
        seed=seed,
        start=column_values(starts, compiled, interval.schedule),
        callback=lambda event: _hear(interval, starts, compiled, event),
        should_stop=interval.must_stop,
    )
    _conclude(interval, starts, compiled, result)


def _conclude(
    interval: SolveState, starts: StartSets, compiled: CompiledModel, result: LinearResult
) -> None:
    interval.nodes = max(interval.nodes, result.nodes)
    if result.termination is Termination.INFEASIBLE:
        raise SolverError("HiGHS calls a model infeasible that holds the incumbent")
    if result.values is not None:
        interval.offer(schedule_from_values(starts, compiled, result.values))
    if result.bound is not None:
        _hear_bound(interval, result.bound)
    if (
        result.termination is Termination.OPTIMAL
        and result.objective is not None
        and round(result.objective) == interval.upper_bound
    ):
        # HiGHS stops at a gap below one: between integers that is none.
        interval.raise_lower(interval.upper_bound, certified=False)
    interval.note_stop()


def _hear(
    interval: SolveState, starts: StartSets, compiled: CompiledModel, event: SolverEvent
) -> None:
    # An exception must not travel through HiGHS: it is kept, and the search stops.
    try:
        interval.nodes = max(interval.nodes, event.nodes)
        if event.values is not None:
            interval.offer(schedule_from_values(starts, compiled, event.values))
        if event.bound is not None:
            _hear_bound(interval, event.bound)
    except BaseException as error:  # noqa: BLE001 (re-raised by solve)
        interval.keep_error(error)


def _hear_bound(interval: SolveState, bound: float) -> None:
    rounded = math.ceil(bound - BOUND_TOLERANCE)
    interval.raise_lower(min(rounded, interval.upper_bound), certified=False)

"""Solve linear and mixed-integer programs, given as arrays, with HiGHS.

Tolerances keep their defaults. With tighter ones, HiGHS declared feasible programs infeasible.
Callers check the schedules found and evaluate prices in exact arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import highspy
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from hindsight.outcomes.errors import SolverError
from instances.arrays import FloatArray

Termination = Literal["optimal", "infeasible", "stopped"]
"""Why HiGHS ended: it proved an optimum, it proved infeasibility, or it was stopped."""

TERMINATIONS: dict[str, Termination] = {
    "Optimal": "optimal",
    "Infeasible": "infeasible",
    "UnboundedOrInfeasible": "infeasible",
    **dict.fromkeys(("TimeLimit", "Interrupt", "HighsInterrupt", "Unbounded"), "stopped"),
    **dict.fromkeys(("IterationLimit", "SolutionLimit", "ObjectiveBound"), "stopped"),
    **dict.fromkeys(("ObjectiveTarget", "Unknown"), "stopped"),
}
"""`Termination` for each model status of HiGHS. Any other status counts as a failure of HiGHS."""

BOUND_TOLERANCE = 1e-4
"""Number subtracted from a bound of HiGHS before it is rounded up, to cover rounding errors."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Linear or mixed-integer program: minimise costs @ x + offset, with bounds on A x and on x.

    Its constraints are row_lower <= A x <= row_upper and column_lower <= x <= column_upper.

    Attributes
    ----------
    costs, column_lower, column_upper : float64 array, shape (columns,)
        Objective coefficient, lower bound and upper bound of each variable.
    offset : float
        Constant of the objective.
    matrix : sp.csc_array
        The matrix A in CSC format, shape (rows, columns).
    row_lower, row_upper : float64 array, shape (rows,)
        Lower and upper bound of each row of A x, infinite if there is none.
    integer : bool array
        Whether each variable must be an integer, shape (columns,).
    """

    costs: FloatArray
    offset: float
    matrix: sp.csc_array
    row_lower: FloatArray
    row_upper: FloatArray
    column_lower: FloatArray
    column_upper: FloatArray
    integer: npt.NDArray[np.bool_]


class LinearResult(NamedTuple):
    """Result of a solve as HiGHS reports it in floating point. It is not checked.

    Attributes
    ----------
    termination : Termination
        Why HiGHS stopped.
    objective : float or None
        Objective of ``values``, or None if there is no solution.
    bound : float or None
        Lower bound on the optimal objective, or None if there is none.
    values : float64 array or None
        Values of the variables, shape (columns,), or None if there is no solution.
    reduced_costs : float64 array or None
        Reduced costs of the variables, shape (columns,). None for integer programs, or if HiGHS has
        no dual solution.
    """

    termination: Termination
    objective: float | None
    bound: float | None
    values: FloatArray | None
    reduced_costs: FloatArray | None


def solve_linear(
    model: LinearModel,
    *,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    start: FloatArray | None = None,
    method: str = "choose",
    callback: Callable[[LinearResult], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> LinearResult:
    """Solve a linear or mixed-integer program with HiGHS.

    The objective of an integer program must be an integer at every feasible point, because HiGHS
    stops when the gap between its solution and its lower bound is below 1.

    Parameters
    ----------
    model : LinearModel
        The program.
    time_limit : float or None, default None
        Time limit of the solve in seconds, or None for no limit.
    threads : int or None, default None
        Number of threads, or None for the default of HiGHS.
    seed : int, default 0
        Random seed of HiGHS.
    start : float64 array or None, default None
        Feasible values of the variables, used as the first incumbent of an integer program.
    method : str, default "choose"
        Method for linear programs: ``"choose"``, ``"simplex"``, ``"pdlp"``, or ``"ipm"``. The
        interior solution of ``"ipm"`` is not turned into a vertex.
    callback : Callable[[LinearResult], None] or None, default None
        Called for each new incumbent or bound of an integer program, with a result whose
        termination is ``"stopped"``. Its ``values`` are None unless the incumbent is new.
    should_stop : Callable[[], bool] or None, default None
        Called repeatedly during the solve. When it returns True, the solve ends with the result so
        far.

    Raises
    ------
    SolverError
        HiGHS failed.
    """
    is_mip = bool(model.integer.any())
    options: dict[str, Any] = {
        "random_seed": seed % 2**31,
        "mip_rel_gap": 0.0,
        # "mip_abs_gap": objectives are integers, so a solution is optimal if it exceeds the lower
        # bound by less than 1.
        "mip_abs_gap": 0.99,
        "solver": method,
        "run_crossover": "off" if method == "ipm" else "on",
        "time_limit": math.inf if time_limit is None else max(0.0, float(time_limit)),
        "threads": threads or 0,
    }
    if threads is not None:
        # HiGHS has one thread pool per process. Without a reset, the pool would keep the number of
        # threads of the first solve in this process.
        highspy.Highs.resetGlobalScheduler(True)
    solver = _SilentHighs()  # type: ignore[no-untyped-call]
    for name, value in options.items():
        _require_ok(solver.setOptionValue(name, value), f"HiGHS refused option {name}={value!r}")
    _require_ok(solver.passModel(_as_highs_lp(model)), "HiGHS refused the model")
    if start is not None and is_mip:
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        _require_ok(solver.setSolution(solution), "HiGHS refused the starting point")
    _subscribe(solver, callback, should_stop)
    try:
        _require_ok(solver.run(), "HiGHS could not run")
    finally:
        solver.disableCallbacks()  # type: ignore[no-untyped-call]
    name = solver.getModelStatus().name.removeprefix("k")
    if name not in TERMINATIONS:
        raise SolverError(f"HiGHS failed with model status {name}")
    return _read(solver, TERMINATIONS[name], is_mip=is_mip)


class _SilentHighs(highspy.Highs):
    """HiGHS solver without the banner that version 1.16 prints when callbacks are enabled."""

    def enableCallbacks(self) -> None:  # noqa: N802
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def _require_ok(status: Any, message: str) -> None:
    if status == highspy.HighsStatus.kError:
        raise SolverError(message)


def _as_highs_lp(model: LinearModel) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = model.matrix.shape
    lp.col_cost_, lp.offset_ = model.costs, model.offset
    lp.col_lower_, lp.col_upper_ = model.column_lower, model.column_upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = model.matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = model.matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = model.matrix.data.astype(np.float64)
    if model.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(flag)] for flag in model.integer]
    return lp


def _subscribe(
    solver: highspy.Highs,
    callback: Callable[[LinearResult], None] | None,
    should_stop: Callable[[], bool] | None,
) -> None:
    if should_stop is not None:

        def poll(event: Any) -> None:
            if should_stop():
                event.interrupt()

        for polled in (solver.cbSimplexInterrupt, solver.cbIpmInterrupt, solver.cbMipInterrupt):
            polled.subscribe(poll)
    if callback is not None:

        def report(event: Any) -> None:
            data = event.data_out
            kinds = highspy.cb.HighsCallbackType
            improved = event.callback_type == kinds.kCallbackMipImprovingSolution
            values = np.array(data.mip_solution) if improved else None
            objective = data.objective_function_value if improved else data.mip_primal_bound
            found = _finite(objective), _finite(data.mip_dual_bound), values, None
            callback(LinearResult("stopped", *found))

        solver.cbMipImprovingSolution += report
        solver.cbMipLogging += report


def _read(solver: highspy.Highs, termination: Termination, *, is_mip: bool) -> LinearResult:
    info, solution = solver.getInfo(), solver.getSolution()
    objective = _finite(info.objective_function_value)
    has_values = solution.value_valid and objective is not None
    bound = objective if termination == "optimal" else None
    return LinearResult(
        termination=termination,
        objective=objective if has_values else None,
        bound=_finite(info.mip_dual_bound) if is_mip else bound,
        values=np.array(solution.col_value) if has_values else None,
        reduced_costs=None if is_mip or not solution.dual_valid else np.array(solution.col_dual),
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) and abs(value) < 1e29 else None

"""Solve Pyomo models of `hindsight.build_model` to which the user added constraints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from hindsight.outcomes.problem import Problem
from hindsight.runtime.search import Search
from instances import FleetSchedule, InvalidTypeError, InvalidValueError, Schedule
from instances.user_modules import described

from .highs import BOUND_TOLERANCE, LinearModel, solve_linear
from .program import Label

if TYPE_CHECKING:
    import pyomo.environ as pyo


class ModelResult(NamedTuple):
    """Optimum, or bounds on it, of an integer program to which the user added constraints.

    The optimum is over the schedules that satisfy the added constraints and tightened bounds of
    variables. The schedule found was checked: it is feasible for the instance, so its cost is an
    upper bound on the optimum of the instance. The lower bound does *not* hold for the instance:
    the added constraints exclude schedules, perhaps all optimal ones. The solver computes the lower
    bound in floating point, without a certificate.

    Attributes
    ----------
    schedule : Schedule, FleetSchedule or None
        The best schedule found, or None.
    lower_bound : int or None
        Lower bound on the cost of schedules that satisfy the added constraints, or None.
    upper_bound : int or None
        Cost of ``schedule``, computed from its start times.
    status : {"optimal", "feasible", "infeasible", "unknown"}
        ``"optimal"`` if lower and upper bound are equal, ``"feasible"`` if the schedule found is
        not proved optimal, ``"infeasible"`` if HiGHS proves that no schedule within the rounds of
        the model satisfies the added constraints (a longer schedule may satisfy them), or
        ``"unknown"`` if HiGHS stopped before it found a schedule or this proof.
    """

    schedule: Schedule | FleetSchedule | None
    lower_bound: int | None
    upper_bound: int | None
    status: Literal["optimal", "feasible", "infeasible", "unknown"]


def solve_model(
    model: pyo.ConcreteModel,
    time_limit: float | None = None,
    *,
    threads: int | None = None,
    seed: int = 0,
) -> ModelResult:
    """Use HiGHS to solve a model of `build_model` that the user extended by linear constraints.

    Parameters
    ----------
    model : pyo.ConcreteModel
        The model, with total latency or the makespan as its only objective.
    time_limit : float or None, default None
        Time limit of the solve in seconds, or None for no limit.
    threads : int or None, default None
        Number of threads of HiGHS, or None for its default.
    seed : int, default 0
        Random seed of HiGHS.

    Raises
    ------
    InvalidTypeError
        ``model`` is not a Pyomo model.
    InvalidValueError
        The model was not made by `build_model`, lacks one of its variables, has another objective
        or a nonlinear constraint, or its solution is not a feasible schedule, for instance because
        memory constraints are missing or a variable is fractional.
    SolverError
        HiGHS failed.

    Examples
    --------
    >>> import hindsight
    >>> from instances import Instance
    >>> instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)
    >>> model = hindsight.build_model(instance)
    >>> model.x[0, 0].setub(0)
    >>> result = hindsight.solve_model(model)
    >>> result.status, result.upper_bound
    ('optimal', 9)
    """
    import pyomo.environ as pyo

    search = Search.checked(time_limit, threads=threads, seed=seed)
    if not isinstance(model, pyo.ConcreteModel):
        raise InvalidTypeError(None, "model", model, "is not a pyomo ConcreteModel")

    def refused(reason: str) -> InvalidValueError:
        return InvalidValueError(None, "model", str(model.name), reason)

    built_of: Any = getattr(model, "built_of", None)
    if built_of is None:
        raise refused("must be made by build_model for total latency or the makespan")
    instance, goal, program = built_of
    with search.clock.listening():
        linear, columns = described(lambda: compile_model(model), str(model.name), "model")
        known = {label: place for place, label in enumerate(columns)}
        places = [known.get(label, -1) for label in program.labels()[0]]
        if min(places) < 0:
            name, index = program.labels()[0][places.index(-1)]
            reason = "build it for this instance, and fix variables by added constraints"
            raise refused(f"has no variable {name}{np.ravel(index).tolist()}: {reason}")
        costs = np.zeros(len(columns))
        costs[places] = program.linear.costs
        if not np.array_equal(costs, linear.costs) or program.linear.offset != linear.offset:
            raise refused("must keep the objective that build_model gave it")
        result = solve_linear(linear, **search.solver_options())
    if result.termination == "infeasible":
        return ModelResult(None, None, None, "infeasible")
    lower = None if result.bound is None else max(0, math.ceil(result.bound - BOUND_TOLERANCE))
    if result.values is None:
        return ModelResult(None, lower, None, "unknown")
    values = result.values[places]
    if np.abs(values - np.rint(values)).max() > BOUND_TOLERANCE:
        raise refused("lets a variable be fractional: use a model built with relax=False")
    schedule = program.schedule(values)
    for violation in schedule.violations():
        raise refused(f"has a solution that is not a feasible schedule: {violation}")
    upper = int(Problem(instance, goal).cost(schedule))
    if lower is not None:
        # Costs are integers, and HiGHS reports an optimum only if its solution and its lower bound
        # differ by less than 1. Then no schedule costs less than the one found, and ``upper`` is a
        # lower bound too.
        lower = upper if result.termination == "optimal" else min(lower, upper)
    return ModelResult(schedule, lower, upper, "optimal" if lower == upper else "feasible")


def compile_model(model: pyo.ConcreteModel) -> tuple[LinearModel, list[Label]]:
    """Convert a Pyomo model to arrays, and list the name and index of the variable of each column.

    Names are returned instead of Pyomo's variable objects, because these have only weak references
    to their model.
    """
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    form = LinearStandardFormCompiler().write(model, mixed_form=True)
    rhs = np.asarray(form.rhs, dtype=np.float64)
    # ``kinds`` has Pyomo's type of each constraint: 1 is body <= rhs, -1 is body >= rhs, 0 is body
    # == rhs.
    kinds = np.array([row.bound_type for row in form.rows])
    linear = LinearModel(
        costs=np.asarray(form.c.todense(), dtype=np.float64).ravel(),
        offset=float(np.asarray(form.c_offset).ravel()[0]),
        matrix=sp.csc_array(form.A),
        row_lower=np.where(kinds == 1, -np.inf, rhs),
        row_upper=np.where(kinds == -1, np.inf, rhs),
        column_lower=np.array([-np.inf if v.lb is None else float(v.lb) for v in form.columns]),
        column_upper=np.array([np.inf if v.ub is None else float(v.ub) for v in form.columns]),
        integer=np.array([v.is_integer() or v.is_binary() for v in form.columns], dtype=bool),
    )
    return linear, [(v.parent_component().name, v.index()) for v in form.columns]

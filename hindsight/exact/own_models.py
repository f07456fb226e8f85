"""Solve Pyomo models of `hindsight.build_model` to which the user added constraints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from hindsight.outcomes.goals import Goal
from hindsight.outcomes.problem import Problem
from hindsight.runtime.search import Search
from instances import FleetSchedule, Instance, InvalidTypeError, InvalidValueError, Schedule
from instances.user_modules import described

from .highs import BOUND_TOLERANCE, LinearModel, solve_linear
from .program import Label, Program

if TYPE_CHECKING:
    import pyomo.environ as pyo

ModelStatus = Literal["optimal", "feasible", "infeasible", "unknown"]


@dataclass(frozen=True, eq=False)
class ModelResult:
    """Optimum, or bounds on it, of an integer program to which the user added constraints.

    The optimum is over the schedules that satisfy the added constraints and tightened bounds of
    variables. The schedule found is checked to be a feasible schedule of the instance, so its cost
    is an upper bound on the optimum of the instance. The lower bound does *not* hold for the
    instance: the added constraints exclude schedules, perhaps all optimal ones. The solver computes
    the lower bound in floating point, without a certificate.

    Attributes
    ----------
    instance : Instance
        The instance of the program.
    goal : {"latency", "makespan"}
        Cost to which the bounds refer.
    schedule : Schedule, FleetSchedule or None
        The best schedule found, or None.
    lower_bound : int or None
        Lower bound on the cost of schedules that satisfy the added constraints, or None.
    upper_bound : int or None
        Cost of ``schedule``, computed from its start times.
    status : ModelStatus
        ``"optimal"`` if lower and upper bound are equal, ``"feasible"`` if the schedule found is
        not proved optimal, ``"infeasible"`` if HiGHS proves that no schedule within the rounds of
        the model satisfies the added constraints (one with more rounds may), or ``"unknown"`` if
        HiGHS stopped before it found a schedule or this proof.
    """

    instance: Instance
    goal: Goal
    schedule: Schedule | FleetSchedule | None
    lower_bound: int | None
    upper_bound: int | None
    status: ModelStatus


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
        The model, with total latency or the makespan as its objective.
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
        or a nonlinear constraint, or its solution is not a feasible schedule because memory
        constraints are missing.
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
    built_of: Any = getattr(model, "built_of", None)
    if built_of is None or built_of[0].optional:
        raise _refused(model, "must be made by build_model for total latency or the makespan")
    starts, goal, build = built_of
    program: Program = build()
    with search.clock.listening():
        linear, columns = described(lambda: compile_model(model), str(model.name), "model")
        places = _required_columns(model, program, linear, columns)
        result = solve_linear(
            linear,
            time_limit=search.clock.limit_left(),
            threads=threads,
            seed=seed,
            should_stop=search.clock.must_stop,
        )
    schedule, upper = None, None
    status: ModelStatus = "unknown"
    bound = None if result.termination == "infeasible" else result.bound
    lower = None if bound is None else max(0, math.ceil(bound - BOUND_TOLERANCE))
    if result.values is not None:
        schedule = program.schedule(result.values[places])
        for violation in schedule.violations():
            raise _refused(model, f"has a solution that is not a feasible schedule: {violation}")
        upper = int(Problem(starts.instance, goal).cost(schedule))
        if lower is not None:
            # Costs are integers, and HiGHS reports an optimum only if its solution and its lower
            # bound differ by less than 1. So no schedule costs less than the one found.
            lower = upper if result.termination == "optimal" else min(lower, upper)
        status = "optimal" if lower == upper else "feasible"
    elif result.termination == "infeasible":
        status = "infeasible"
    return ModelResult(starts.instance, goal, schedule, lower, upper, status)


def _refused(model: pyo.ConcreteModel, reason: str) -> InvalidValueError:
    return InvalidValueError(None, "model", str(model.name), reason)


def _required_columns(
    model: pyo.ConcreteModel, program: Program, linear: LinearModel, columns: list[Label]
) -> list[int]:
    """Return the column of each variable that `build_model` made, in a model extended by the user.

    Parameters
    ----------
    model : pyo.ConcreteModel
        The extended model.
    program : Program
        The program as `build_model` made it.
    linear : LinearModel
        Arrays of the extended model.
    columns : list[Label]
        Name and index of the variable of each column of ``linear``.

    Raises
    ------
    InvalidValueError
        The extended model lacks or changes a variable of the program, or has another objective. A
        model without some constraints of the program is accepted. This can only lower the lower
        bound, and a solution that violates a missing constraint fails the check of the schedule.
    """
    known, places = {key: place for place, key in enumerate(columns)}, []
    for (name, index), is_whole in zip(program.labels()[0], program.linear.integer, strict=True):
        place, shown = known.get((name, index), -1), f"{name}{np.ravel(index).tolist()}"
        if place < 0:
            reason = "build it for this instance, and fix variables by added constraints"
            raise _refused(model, f"has no variable {shown}: {reason}")
        if linear.column_lower[place] < 0 or is_whole > linear.integer[place]:
            reason = "be negative or fractional: use a model built with relax=False"
            raise _refused(model, f"lets {shown} {reason}")
        places.append(place)
    costs = np.zeros(len(columns))
    costs[places] = program.linear.costs
    if (costs != linear.costs).any() or program.linear.offset != linear.offset:
        raise _refused(model, "must keep the objective that build_model gave it")
    return places


def compile_model(model: pyo.ConcreteModel) -> tuple[LinearModel, list[Label]]:
    """Return a Pyomo model as arrays, and the name and index of the variable of each column.

    Pyomo's variable objects are not returned, because they only have weak references to their
    model.
    """
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    form = LinearStandardFormCompiler().write(model, mixed_form=True)
    rhs = np.asarray(form.rhs, dtype=np.float64)
    # Pyomo's bound types of a constraint: 1 is body <= rhs, -1 is body >= rhs, 0 is body == rhs.
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

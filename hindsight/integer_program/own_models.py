"""Solution of an instance's program with user-defined rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hindsight.outcomes.results import Objective, cost_of
from hindsight.runtime.search import Search
from instances import FleetSchedule, Instance, InvalidTypeError, InvalidValueError, Schedule
from instances.arrays import FloatArray
from instances.user_modules import described

from .highs import CompiledModel, Termination, compile_model, solve_linear
from .models import build_model, schedule_from_values
from .starts import all_starts, useful_replicas

if TYPE_CHECKING:
    import pyomo.environ as pyo

BOUND_TOLERANCE = 1e-4
"""HiGHS's bounds are rounded up to integers after subtracting this."""

ROWS_SHOWN = 8
"""Length limit of a one-line list; bounds can be tightened by the thousand."""

ModelStatus = Literal["optimal", "feasible", "infeasible", "unknown"]
ModelStop = Literal["proof", "time-limit", "interrupted", "stalled"]


@dataclass(frozen=True, eq=False)
class ModelResult:
    """Optimum of an instance's program with added rows, or an interval around it.

    It concerns the schedules that satisfy the rows, including tightened bounds of variables. Such a
    schedule is a schedule of the instance and is checked, so its cost is an upper bound on the
    instance's optimum. The lower bound does *not* hold for the instance: rows exclude schedules,
    perhaps all optimal ones. It is the solver's, in floating point, and has no certificate.

    Attributes
    ----------
    instance : Instance
        The instance of the program.
    schedule : Schedule, FleetSchedule or None
        The best schedule found; None if there is none or none was found.
    lower_bound : int or None
        Lower bound on the cost of schedules that satisfy the rows; None if there are none.
    status : ModelStatus
        ``"optimal"`` where the bounds meet, ``"feasible"``, ``"infeasible"`` where HiGHS finds that
        the rows leave no schedule within ``horizon``, or ``"unknown"``.
    stop_reason : ModelStop
        ``"proof"``, ``"time-limit"``, ``"interrupted"`` or ``"stalled"``.
    rows : tuple[str, ...]
        Names of the added constraints, and the tightened bounds, such as ``"x[1, 0] >= 1"``.
    horizon : int
        Last round of the model, which need not admit the best schedule that satisfies the rows.
    nodes : int
        Branch-and-bound nodes.
    runtime : float
        Seconds.
    objective : Objective
        Objective that the bounds refer to.
    """

    instance: Instance
    schedule: Schedule | FleetSchedule | None
    lower_bound: int | None
    status: ModelStatus
    stop_reason: ModelStop
    rows: tuple[str, ...]
    horizon: int
    nodes: int
    runtime: float
    objective: Objective = "total_latency"

    def __repr__(self) -> str:
        rows = [*self.rows[:ROWS_SHOWN]] or ["no rows"]
        if len(self.rows) > ROWS_SHOWN:
            rows.append(f"{len(self.rows) - ROWS_SHOWN} more")
        return (
            f"ModelResult({self.instance!r}, {self.status}, {self.objective} in "
            f"[{self.lower_bound}, {self.upper_bound}] with {', '.join(rows)})"
        )

    @property
    def upper_bound(self) -> int | None:
        """Return the cost of ``schedule``, recomputed from its start times."""
        return None if self.schedule is None else cost_of(self.schedule, self.objective)


def solve_model(instance: Instance, model: pyo.ConcreteModel, search: Search) -> ModelResult:
    """Solve the model that `build_model` made of ``instance``, with rows added, by HiGHS.

    Parameters
    ----------
    instance : Instance
        The problem.
    model : pyo.ConcreteModel
        The built model, otherwise unchanged: rows, and variables without cost, may have been added,
        and bounds of variables tightened.
    search : Search
        Stopping rule, and threads and seed of HiGHS.

    Raises
    ------
    InvalidTypeError
        ``model`` is not a Pyomo model.
    InvalidValueError
        The model is not the instance's program with added rows, or a row is not linear.
    SolverError
        HiGHS failed.
    """
    import pyomo.environ as pyo

    clock = search.clock
    if not isinstance(model, pyo.ConcreteModel):
        raise InvalidTypeError(None, "model", model, "is not a pyomo ConcreteModel")
    rounds = model.find_component("rounds")
    horizon = 0 if rounds is None else len(rounds) // useful_replicas(instance)
    if model.find_component("x") is None or not horizon:
        raise _refused(model, "was not made by build_model: it has no starts x and rounds")
    objective: Objective = "total_latency" if model.find_component("busy") is None else "makespan"
    sparse = model.find_component("running") is not None
    starts = all_starts(instance, horizon)
    base = compile_model(
        build_model(instance, "sparse" if sparse else "dense", horizon=horizon, objective=objective)
    )
    compiled = described(lambda: compile_model(model), str(model.name), "model")
    tightened = _require_base(model, base, compiled)
    result = solve_linear(
        compiled.linear,
        time_limit=clock.limit_left(),
        threads=search.threads,
        seed=search.seed,
        should_stop=clock.must_stop,
    )
    schedule = None
    if result.values is not None and result.objective is not None:
        schedule = schedule_from_values(starts, compiled, result.values)
        violations = schedule.violations()
        if violations:
            raise _refused(model, f"has a solution that is no schedule: {violations[0]}")
    upper = None if schedule is None else cost_of(schedule, objective)
    lower = None
    status: ModelStatus = "unknown" if upper is None else "feasible"
    if result.termination is Termination.INFEASIBLE:
        status = "infeasible"
    elif result.bound is not None:
        lower = max(0, math.ceil(result.bound - BOUND_TOLERANCE))
        if upper is not None:
            # HiGHS stops at a gap below one, which between integers is no gap.
            lower = upper if result.termination is Termination.OPTIMAL else min(lower, upper)
            status = "optimal" if lower == upper else "feasible"
    stop: ModelStop = "proof" if status in ("optimal", "infeasible") else clock.stop_reason(0.05)
    built = {name for name, _ in base.rows}
    added = (name for name, _ in compiled.rows if name not in built)
    return ModelResult(
        instance=instance,
        schedule=schedule,
        lower_bound=lower,
        status=status,
        stop_reason=stop,
        rows=(*dict.fromkeys(added), *tightened),
        horizon=horizon,
        nodes=result.nodes,
        runtime=clock.seconds(),
        objective=objective,
    )


def _refused(model: pyo.ConcreteModel, reason: str) -> InvalidValueError:
    return InvalidValueError(None, "model", str(model.name), reason)


def _require_base(
    model: pyo.ConcreteModel, base: CompiledModel, compiled: CompiledModel
) -> list[str]:
    """List bounds that are tighter than built; refuse a model with missing or changed parts."""
    places = {key: column for column, key in enumerate(compiled.columns)}
    if len(places) < len(compiled.columns):
        twice = next(key for place, key in enumerate(compiled.columns) if places[key] != place)
        raise _refused(model, f"has two variables {_named(twice)}: give yours another name")
    missing = next((key for key in base.columns if key not in places), None)
    if missing is not None:
        reason = "was built of another instance or with it fixed: add a row that says so instead"
        raise _refused(model, f"has no variable {_named(missing)}: it {reason}")
    columns = np.array([places[key] for key in base.columns])
    old, new = base.linear, compiled.linear
    costs = np.zeros(len(places))
    costs[columns] = old.costs
    if not np.array_equal(costs, new.costs) or old.offset != new.offset:
        raise _refused(model, "has another objective than build_model gave it for this instance")
    lower, upper = new.column_lower[columns], new.column_upper[columns]
    loose = (lower < old.column_lower) | (upper > old.column_upper)
    loose |= old.integer & ~new.integer[columns]
    if loose.any():
        key = base.columns[int(np.flatnonzero(loose)[0])]
        raise _refused(
            model, f"lets {_named(key)} take values that it was not built with, as relax=True does"
        )
    written = _rows(compiled, np.arange(len(places)))
    for key, row in _rows(base, columns).items():
        if written.get(key) != row:
            raise _refused(model, f"lacks row {_named(key)} of this instance, or has another")
    return [
        f"{_named(base.columns[place])} {sign} {limits[place]:g}"
        for sign, limits, before in (
            (">=", lower, old.column_lower),
            ("<=", upper, old.column_upper),
        )
        for place in np.flatnonzero(limits != before).tolist()
    ]


def _rows(compiled: CompiledModel, columns: Any) -> dict[Any, tuple[Any, ...]]:
    """Return limits and entries of each row, with columns by their new positions."""
    linear = compiled.linear
    matrix = linear.matrix.tocsr()
    limits: list[FloatArray] = [linear.row_lower, linear.row_upper]
    found = {}
    for number, key in enumerate(compiled.rows):
        part = slice(matrix.indptr[number], matrix.indptr[number + 1])
        entries = zip(
            columns[matrix.indices[part]].tolist(), matrix.data[part].tolist(), strict=True
        )
        found[key] = (*(float(side[number]) for side in limits), sorted(entries))
    return found


def _named(key: tuple[str, Any]) -> str:
    name, index = key
    if index is None:
        return name
    return f"{name}[{', '.join(map(str, index if isinstance(index, tuple) else (index,)))}]"

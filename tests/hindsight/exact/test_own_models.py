"""The program of an instance with rows of the user's, solved for what it is."""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo
import pytest
from brute_force import (
    all_feasible_schedules,
    is_feasible_by_definition,
    sound_horizon,
    total_latency_by_definition,
)

import hindsight
from hindsight.exact.highs import LinearResult
from instances import Instance, InvalidValueError

INSTANCE = Instance.from_arrays([1, 2, 1, 3], [4, 3, 3, 2], [0, 3, 0, 1], memory_limit=8)
HORIZON = sound_horizon(INSTANCE)
SCHEDULES = list(all_feasible_schedules(INSTANCE, HORIZON))
COSTS = {starts: total_latency_by_definition(INSTANCE, starts) for starts in SCHEDULES}


def built(formulation: Any = "dense", **settings: Any) -> Any:
    return hindsight.build_model(INSTANCE, formulation, horizon=HORIZON, **settings)


def test_with_rows_it_is_the_best_that_satisfies_them() -> None:
    model = built()
    model.later = pyo.Constraint(
        expr=sum(model.x[i, t] for i, t in model.x if i in (0, 2) and t < 2) <= 0
    )
    best = min(cost for starts, cost in COSTS.items() if starts[0] >= 2 and starts[2] >= 2)
    assert best > min(COSTS.values())
    result = hindsight.solve_model(model)
    assert (result.status, result.lower_bound, result.upper_bound) == ("optimal", best, best)
    starts = result.schedule.start_times.tolist()
    assert min(starts[0], starts[2]) >= 2
    assert is_feasible_by_definition(INSTANCE, starts)


@pytest.mark.parametrize("formulation", ["dense", "sparse"])
def test_bounds_that_were_tightened_count_as_rows(formulation: str) -> None:
    model = built(formulation)
    model.x[1, 3].setub(0)
    model.x[1, 4].setlb(1)
    result = hindsight.solve_model(model)
    assert result.upper_bound == min(cost for starts, cost in COSTS.items() if starts[1] == 4)


def test_rows_that_leave_nothing() -> None:
    model = built()
    model.none = pyo.Constraint(expr=sum(model.x[0, t] for i, t in model.x if i == 0) <= 0)
    result = hindsight.solve_model(model)
    assert (result.status, result.schedule, result.lower_bound) == ("infeasible", None, None)
    assert result.upper_bound is None


def test_a_bound_just_above_an_integer_proves_that_integer(monkeypatch: Any) -> None:
    stopped = LinearResult("stopped", None, 30.0000001, None, None)
    monkeypatch.setattr("hindsight.exact.own_models.solve_linear", lambda *_, **__: stopped)
    assert hindsight.solve_model(built()).lower_bound == 30


def test_makespan_and_a_variable_of_ones_own() -> None:
    """A variable of a block may have the name of one of the model."""
    model = built(goal="makespan")
    model.own = pyo.Block()
    model.own.x = pyo.Var([(0, 0)], domain=pyo.Binary)
    model.own.row = pyo.Constraint(expr=model.own.x[0, 0] + model.x[0, 0] >= 1)
    ends = [max(t + r.output_length for t, r in zip(s, INSTANCE, strict=True)) for s in SCHEDULES]
    assert hindsight.solve_model(model).upper_bound == min(ends)


def other_cost(model: Any) -> None:
    model.total_latency.deactivate()
    model.cost = pyo.Objective(expr=sum(model.x[key] for key in model.x))


def fractional(model: Any) -> None:
    model.x[0, 0].domain = pyo.NonNegativeReals
    model.half = pyo.Constraint(expr=model.x[0, 0] == 0.5)
    for t in range(1, 4):
        model.x[0, t].domain = pyo.NonNegativeReals


def two_costs(model: Any) -> None:
    model.cost = pyo.Objective(expr=model.x[0, 0])


def curved(model: Any) -> None:
    model.curved = pyo.Constraint(expr=model.x[0, 0] * model.x[1, 3] * model.x[3, 1] <= 0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda model: model.memory.deactivate(), "a solution that is not a feasible schedule"),
        (lambda model: model.x[0, 0].fix(1), r"no variable x\[0, 0\]"),
        (other_cost, "must keep the objective"),
        (fractional, "lets a variable be fractional"),
        (two_costs, "must keep the objective"),
        (curved, "model = .* fails"),
    ],
)
def test_another_problem_is_refused(change: Any, reason: str) -> None:
    model = built()
    change(model)
    with pytest.raises(InvalidValueError, match=reason):
        hindsight.solve_model(model)

"""The Pyomo models seen from outside: exported, and solved by other readers."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import highspy
import pyomo.environ as pyo
import pytest
from brute_force import optimal_total_latency
from pyomo.contrib.solver.common.factory import SolverFactory

import hindsight
from hindsight.integer_program.highs import compile_model
from hindsight.integer_program.models import column_values, schedule_from_values
from hindsight.integer_program.starts import all_starts
from instances import Instance, Request, Schedule

INSTANCE = Instance.from_arrays(
    [1, 2, 1, 3, 1], [4, 3, 6, 2, 4], [0, 3, 0, 1, 0], memory_limit=8, name="five of them"
)
FORMULATIONS: list[Any] = ["dense", "sparse"]


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("suffix", [".lp", ".mps"])
def test_exported_models_have_the_same_optimum(
    formulation: Any, suffix: str, tmp_path: Path
) -> None:
    optimum, _ = optimal_total_latency(INSTANCE)
    path = tmp_path / f"model{suffix}"
    hindsight.export_model(hindsight.build_model(INSTANCE, formulation), path)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) != highspy.HighsStatus.kError
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    assert solver.getInfo().objective_function_value == pytest.approx(optimum)
    assert any(kind == highspy.HighsVarType.kInteger for kind in solver.getLp().integrality_)


def test_export_refuses_other_suffixes_and_leaves_nothing(tmp_path: Path) -> None:
    model = hindsight.build_model(INSTANCE)
    with pytest.raises(ValueError, match=r"\.lp or \.mps"):
        hindsight.export_model(model, tmp_path / "model.txt")
    with pytest.raises(OSError):  # noqa: PT011
        hindsight.export_model(model, tmp_path / "nowhere" / "model.lp")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("relax", [False, True])
def test_pyomos_own_interface_gets_the_same_value(formulation: Any, relax: bool) -> None:
    model = hindsight.build_model(INSTANCE, formulation, relax=relax)
    results = SolverFactory("highs").solve(model)
    if relax:
        expected = hindsight.relax(INSTANCE).objective
    else:
        expected = optimal_total_latency(INSTANCE)[0]
    assert results.incumbent_objective == pytest.approx(expected)
    assert pyo.value(model.total_latency) == pytest.approx(expected)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_a_start_that_would_outlive_the_horizon_does_not_exist(formulation: Any) -> None:
    model = hindsight.build_model(INSTANCE, formulation, horizon=15)
    for index, start in model.x:
        assert INSTANCE[index].arrival_time <= start <= 15 - INSTANCE[index].output_length


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_a_compiled_model_survives_a_garbage_collection(formulation: Any) -> None:
    compiled = compile_model(hindsight.build_model(INSTANCE, formulation, horizon=15))
    gc.collect()
    assert {name for name, _ in compiled.columns} >= {"x"}
    assert {name for name, _ in compiled.rows} >= {"start_once", "memory"}


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_a_schedule_survives_the_way_into_the_model_and_back(formulation: Any) -> None:
    # Requests 0 and 4 are twins: the way back may swap them.
    starts = all_starts(INSTANCE, 24)
    model = hindsight.build_model(INSTANCE, formulation, horizon=24)
    compiled = compile_model(model)
    clock, serial = 0, [0] * len(INSTANCE)
    for index in (4, 2, 0, 3, 1):
        clock = max(clock, INSTANCE[index].arrival_time)
        serial[index] = clock
        clock += INSTANCE[index].output_length
    schedule = Schedule(INSTANCE, serial)
    values = column_values(starts, compiled, schedule)
    linear = compiled.linear
    activity = linear.matrix @ values
    assert (activity >= linear.row_lower - 1e-9).all()
    assert (activity <= linear.row_upper + 1e-9).all()
    assert (values >= linear.column_lower).all()
    assert (values <= linear.column_upper).all()
    assert linear.costs @ values + linear.offset == schedule.total_latency
    back = schedule_from_values(starts, compiled, values)
    assert back.total_latency == schedule.total_latency
    assert sorted(back.start_times[[0, 4]]) == sorted(schedule.start_times[[0, 4]])
    assert back.start_times[[1, 2, 3]].tolist() == schedule.start_times[[1, 2, 3]].tolist()


def test_integer_columns_of_shared_requests_are_bounded_by_their_number() -> None:
    instance = Instance([Request(0, 1, 2) for _ in range(4)], 9)
    model = hindsight.build_model(instance, "sparse", horizon=8)
    assert {model.x[key].ub for key in model.x} == {4}
    assert len(model.start_once) == 1

"""The Pyomo models seen from outside: exported, and solved by other readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import highspy
import pyomo.environ as pyo
import pytest
from brute_force import optimal_total_latency
from pyomo.contrib.solver.common.factory import SolverFactory
from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

import hindsight
from hindsight.exact.pyomo_model import model_size
from hindsight.exact.starts import all_starts, count_starts
from instances import Instance, Request

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
    hindsight.build_model(INSTANCE, formulation, path=path)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(path)) != highspy.HighsStatus.kError
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    assert solver.getInfo().objective_function_value == pytest.approx(optimum)
    assert any(kind == highspy.HighsVarType.kInteger for kind in solver.getLp().integrality_)


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    for name, error in (("model.txt", ValueError), ("nowhere/model.lp", OSError)):
        with pytest.raises(error):
            hindsight.build_model(INSTANCE, path=tmp_path / name)
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


def test_columns_of_a_class_are_bounded_by_its_requests_and_by_what_fits() -> None:
    instance = Instance([Request(0, 1, 2) for _ in range(4)], 9)
    for relax, most in ((True, 4), (False, 3)):
        model = hindsight.build_model(instance, "sparse", relax=relax, horizon=8)
        assert {model.x[key].ub for key in model.x} == {most}
        assert len(model.start_once) == 1


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_size_is_known_before_anything_is_built(formulation: Any) -> None:
    model = hindsight.build_model(INSTANCE, formulation, horizon=20)
    matrix = LinearStandardFormCompiler().write(model, mixed_form=True).A
    size = model_size(INSTANCE, formulation, 20)
    assert size.columns >= matrix.shape[1]
    assert size.non_zeros >= matrix.nnz > 0.5 * size.non_zeros
    if formulation == "dense":
        assert (size.rows, size.columns) == matrix.shape
        assert size.columns == count_starts(INSTANCE, 20)
        fleet = INSTANCE.replaced(replicas=3)
        assert count_starts(fleet, 20) == sum(map(len, all_starts(fleet, 20).starts))

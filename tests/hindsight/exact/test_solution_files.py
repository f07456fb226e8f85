"""Schedules out of solution files: of the HiGHS here, and in the form of Gurobi and SCIP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import highspy
import pyomo.environ as pyo
import pytest
from brute_force import optimal_total_latency, total_latency_by_definition

import hindsight
from instances import FileFormatError, Instance

# Requests 0 and 4 are twins, which the sparse model counts together.
INSTANCE = Instance.from_arrays([1, 2, 1, 3, 1], [4, 3, 6, 2, 4], [0, 3, 0, 1, 0], memory_limit=8)
OPTIMUM, STARTS = optimal_total_latency(INSTANCE)
RAW, SPARSE = 0, 4


def written_by_highs(
    folder: Path, formulation: Any = "dense", suffix: str = ".lp", style: int = RAW
) -> Path:
    model = folder / f"model{suffix}"
    hindsight.build_model(INSTANCE, formulation, path=model)
    return solved_by_highs(model, style)


def solved_by_highs(model: Path, style: int = RAW) -> Path:
    solution, solver = model.with_name("solution.txt"), highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(model))
    solver.run()
    solver.writeSolution(str(solution), style)
    return solution


def as_gurobi(starts: tuple[int, ...]) -> str:
    """Every variable, zeros too, after comments."""
    lines = ["# Solution for model total_latency", f"# Objective value = {OPTIMUM}"]
    lines.append("ONE_VAR_CONSTANT 1")
    for i, start in enumerate(starts):
        first = INSTANCE[i].arrival_time
        lines += [f"x({i}_{t}) {int(t == start)}" for t in range(first, start + 3)]
    return "\n".join(lines) + "\n"


def as_scip(starts: tuple[int, ...]) -> str:
    """What is not zero, after status and objective."""
    lines = ["solution status: optimal solution found", f"objective value: {OPTIMUM:>36}"]
    lines.append(f"{'ONE_VAR_CONSTANT':<32}{1:>20} \t(obj:15)")
    for i, start in enumerate(starts):
        lines.append(f"{f'x({i}_{start})':<32}{'0.9999999999':>20} \t(obj:{start})")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("formulation", "suffix", "style"),
    [
        ("dense", ".lp", RAW),
        pytest.param("dense", ".mps", SPARSE, marks=pytest.mark.slow),
        ("sparse", ".mps", RAW),
    ],
)
def test_what_highs_writes(tmp_path: Path, formulation: str, suffix: str, style: int) -> None:
    path = written_by_highs(tmp_path, formulation, suffix, style)
    schedule = hindsight.read_solution(path, INSTANCE)
    assert schedule.instance is INSTANCE
    assert schedule.is_feasible
    assert total_latency_by_definition(INSTANCE, schedule.start_times.tolist()) == OPTIMUM


def test_a_model_with_added_rows_is_written_and_read_back(tmp_path: Path) -> None:
    model: Any = hindsight.build_model(INSTANCE)
    model.first = pyo.Constraint(expr=model.x[1, STARTS[1] + 1] == 1)
    model.write(str(tmp_path / "rows.lp"), io_options={"symbolic_solver_labels": True})
    schedule = hindsight.read_solution(solved_by_highs(tmp_path / "rows.lp"), INSTANCE)
    assert schedule.start_times[1] == STARTS[1] + 1


@pytest.mark.parametrize("written", [as_gurobi, as_scip])
def test_what_gurobi_and_scip_write(tmp_path: Path, written: Any) -> None:
    path = tmp_path / "model.sol"
    path.write_text(written(STARTS))
    assert hindsight.read_solution(path, INSTANCE).start_times.tolist() == list(STARTS)


def without(text: str, line_of: str) -> str:
    return "".join(line for line in text.splitlines(True) if not line.startswith(line_of))


TOGETHER = tuple(INSTANCE.arrival_times.tolist())
GOOD = as_gurobi(STARTS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("solution status: infeasible\nno solution available\n", "has no variable"),
        (without(GOOD, f"x(1_{STARTS[1]})"), "request 1 has no start"),
        (GOOD + f"x(1_{STARTS[1] + 9}) 1\n", "request 1 has 2 starts"),
        (GOOD + "x(1_99) 0.5\n", r"x\(1_99\) = 0.5 is not a count of starts"),
        (GOOD + "x(1_99) -1\n", r"x\(1_99\) = -1 is not a count of starts"),
        (GOOD + "x(1_99) inf\n", "'inf' is not a number"),
        (GOOD + "x(5_0) 1\n", r"x\(5_0\) is not a start of this instance.*another model"),
        (as_gurobi(TOGETHER), "is not a schedule of this instance: .*memory"),
        ("x1 1\nx2 0\n", "has no variable x.*symbolic_solver_labels.* style 0 or 4"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "model.sol"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=reason) as refused:
        hindsight.read_solution(path, INSTANCE)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)

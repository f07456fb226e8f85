"""The side-by-side benchmark, on instances every method solves at once."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
from brute_force import optimal_total_latency

from instances import UnknownNameError, generate
from studies.benchmarks.exact_methods import (
    SOLVERS,
    BenchmarkRow,
    run_benchmark,
    summarise_benchmark,
)

ROOT = Path(__file__).resolve().parents[2]
HAVE_CP_SAT = importlib.util.find_spec("ortools") is not None


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_method_finds_the_optimum(solver: str) -> None:
    if solver == "cp-sat" and not HAVE_CP_SAT:
        pytest.skip("OR-tools is an extra that is not installed")
    instance = generate("arrival-model-2", seed=4, n=4, memory_limit=12)
    optimum, _ = optimal_total_latency(instance)
    row = run_benchmark(instance, solver, 30)
    assert row.is_proved
    assert (row.upper_bound, row.lower_bound, row.gap) == (optimum, optimum, 0)
    assert row.requests == 4


def test_an_unknown_method_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="paths, highs-dense, pulp-cbc, cp-sat"):
        run_benchmark(generate("arrival-model-1", n=2), "gurobi", 1)


def test_summaries_count_what_is_not_proved() -> None:
    def row(instance: str, solver: str, seconds: float, upper: int, lower: int) -> BenchmarkRow:
        return BenchmarkRow(instance, 3, solver, seconds, upper == lower, upper, lower)

    rows = [
        row("a", "x", 1.0, 10, 10),
        row("b", "x", 2.0, 20, 20),
        row("c", "x", 4.0, 40, 30),
        row("a", "y", 10.0, 10, 9),
        row("b", "y", 10.0, 20, 15),
        row("c", "y", 10.0, 40, 40),
    ]
    first, second = summarise_benchmark(rows)
    assert (first.solver, first.trials, first.proved) == ("x", 3, 2)
    assert first.median_seconds == 2.0
    assert first.median_gap == 0
    assert first.ratio == 1
    assert (second.proved, second.median_gap) == (1, 0.1)
    assert math.isinf(second.median_seconds)
    assert second.ratio == 5

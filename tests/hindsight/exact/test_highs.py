"""HiGHS behind the models: its statuses, its gaps, and what one solve leaves to the next."""

from __future__ import annotations

from typing import Any

import highspy
import pytest

from hindsight import relax, solve
from hindsight.exact.highs import TERMINATIONS, LinearResult, Termination
from hindsight.rounds import program
from instances import Instance, generate


def test_highs_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Nor past Python's own streams."""
    requests = Instance.from_arrays([3, 1, 2], [1, 3, 2], memory_limit=5)
    solve(requests, method="mip", progress=False)
    relax(requests, method="lp")
    assert capfd.readouterr() == ("", "")


def test_every_status_of_highs_is_mapped() -> None:
    failures = ("Notset", "LoadError", "ModelError", "ModelEmpty", "PresolveError", "SolveError")
    failed = {f"k{name}" for name in (*failures, "PostsolveError", "MemoryLimit", "Min", "Max")}
    for name in highspy.HighsModelStatus.__members__:
        assert (name.removeprefix("k") in TERMINATIONS) == (name not in failed), name
    assert [name for name, reason in TERMINATIONS.items() if reason == "optimal"] == ["Optimal"]


def solver_that_stops(
    short_of_the_incumbent: float, asked: list[str], status: Termination = "optimal"
) -> Any:
    """Stands in for HiGHS: returns the warm start, with a bound that far below it."""

    def stop(model: Any, *, start: Any, **options: Any) -> LinearResult:
        objective = float(model.costs @ start + model.offset)
        bound = objective - short_of_the_incumbent
        asked.append("once")
        return LinearResult(status, objective, bound, start, None)

    return stop


@pytest.mark.parametrize("scale", [1, 8])
def test_an_optimum_proved_to_the_solvers_absolute_gap_counts_as_proved(
    scale: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HiGHS may stop as soon as its bound is above incumbent - 0.999, large latencies or not."""
    asked: list[str] = []
    monkeypatch.setattr(program, "solve_linear", solver_that_stops(0.9985, asked))
    outputs = [scale * o for o in (12, 11, 13, 9, 14, 12, 10, 13)]
    instance = Instance.from_arrays([1, 2, 1, 2, 1, 3, 1, 2], outputs, memory_limit=16 * scale)
    result = solve(instance, threads=1, method="mip")
    assert result.upper_bound > 250 * scale
    assert asked == ["once"], "proved before the solver was asked: choose another instance"
    assert result.status == "optimal"


@pytest.mark.parametrize("status", ["optimal", "stopped"])
def test_a_stop_by_proof_is_a_proof(status: Termination, monkeypatch: pytest.MonkeyPatch) -> None:
    """stop_reason must not say "proof" while the interval is open."""
    asked: list[str] = []
    monkeypatch.setattr(program, "solve_linear", solver_that_stops(1.5, asked, status))
    result = solve(generate("arrival-model-1", seed=6, n=6), threads=1, method="mip")
    assert asked == ["once"]
    assert (result.stop_reason == "proof") == (result.status == "optimal")
    assert status == "optimal" or result.status == "feasible"

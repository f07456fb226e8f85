"""The check of a bound: a valid one passes, a planted fault is caught."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import pytest
from brute_force import optimal_total_latency

from hindsight import check_bound
from instances import Instance

FEW = 25


def outputs(instance: Instance) -> int:
    """Nobody is done before all of its output is there."""
    return instance.total_output_length


def bold(instance: Instance) -> Fraction:
    """Off by half a round where the requests do not fit together."""
    peaks = sum(one.peak_memory for one in instance)
    return outputs(instance) + Fraction(int(peaks > instance.memory_limit), 2)


def test_a_valid_bound_passes() -> None:
    report = check_bound(outputs, FEW)
    assert report.passed, str(report)
    assert report.notes[0].startswith("it reaches the optimum on ")
    assert "ok        valid          is exact and exceeds no optimum (25 instances)" in str(report)


def reproduced(verdict: Any, capsys: pytest.CaptureFixture[str], **named: Any) -> Instance:
    """Run the lines that show a failure; the instance they make."""
    assert verdict.failed > 0
    exec(str(verdict.reproduction), named)
    assert str(verdict.reason) in capsys.readouterr().out
    return cast(Instance, named["instance"])


def test_an_invalid_bound_is_caught_on_a_small_instance(capsys: pytest.CaptureFixture[str]) -> None:
    report = check_bound(bold, FEW)
    found = reproduced(report["valid"], capsys, bold=bold)
    least = optimal_total_latency(found)[0]
    assert len(found) <= 3
    assert bold(found) > least
    assert report["valid"].reason == (
        f"it says {bold(found)}, and the total latency is {least} at best"
    )
    assert "FAILED    valid" in str(report)


@pytest.mark.parametrize("prompt", [0, 30])
def test_a_bound_that_is_false_of_some_prompts_alone_is_caught(
    prompt: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(instance: Instance) -> int:
        lengths = instance.prompt_lengths
        there = (lengths >= prompt) if prompt else (lengths == 0)
        return outputs(instance) + 1000 * bool(there.any())

    found = reproduced(check_bound(wrong, FEW)["valid"], capsys, wrong=wrong)
    assert len(found) <= 2


@pytest.mark.parametrize("value", [1.5, None])
def test_a_bound_that_is_no_number_is_caught(value: Any) -> None:
    assert check_bound(lambda _: value, 5)["valid"].failed == 5


def test_bounds_of_other_goals() -> None:
    def ends(instance: Instance) -> int:
        return int((instance.arrival_times + instance.output_lengths).max())

    report = check_bound(outputs, 10, goal="makespan")
    assert not report.passed
    assert "goal='makespan'" in str(report)
    assert check_bound(ends, 10, goal="makespan").passed
    assert check_bound(outputs, 10, preemption="keep").passed


def test_the_reproduction_of_a_file_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text("def bold(instance):\n    return instance.total_output_length + 1\n")
    reproduction = check_bound("own.py:bold", 3)["valid"].reproduction
    assert reproduction is not None
    assert "print(hindsight.check_bound('own.py:bold'," in reproduction
    exec(reproduction, {})

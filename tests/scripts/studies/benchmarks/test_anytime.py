"""Gaps over time: the sample, the integral, what is compared, and what a version is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import instances
from studies.benchmarks.anytime import (
    compared,
    draws,
    gap_at,
    gap_steps,
    gaps_table,
    mean_over_log_time,
    picture,
    problems,
    sample,
    scores,
    solve_with,
    task_of,
)

OPEN, CLOSED = [(0.0, 1.0), (0.5, 0.4)], [(0.0, 1.0), (0.5, 0.4), (2.0, 0.0)]


def test_the_sample_has_45_instances_of_every_set() -> None:
    library = instances.library()
    chosen = sample(library)
    assert len({one.name for one in chosen}) == len(chosen) == 45
    counts = [sum(one.set == name.name for one in chosen) for name in library.sets]
    assert set(counts) <= {3, 4}
    assert {one.goal for one in chosen} >= {"total_latency", "preemptive_total_latency", "seconds"}
    assert min(one.n for one in chosen) <= 10
    assert max(one.n for one in chosen) >= 1000
    assert [one.name for one in sample(library)] == [one.name for one in chosen]


def test_draws_are_fixed_and_chats_are_as_long_as_they_are_meant_to_be() -> None:
    drawn = draws()
    assert len({one.instance.digest for one in drawn}) == len({one.name for one in drawn}) == 12
    ends = (drawn[0], drawn[-1])
    assert [one.instance.digest[:12] for one in ends] == ["4f2cc34108f1", "8fddb6c92762"]
    chats = [one.instance for one in drawn if one.set == "chats"]
    for lengths, mean in (("prompt_lengths", 2388), ("output_lengths", 455)):
        found = np.concatenate([getattr(one, lengths) for one in chats]).mean()
        assert found == pytest.approx(mean, rel=0.05)
    assert {(len(one), one.memory_limit, one.arrival_times.max()) for one in chats} == {
        (500, 40_000, 0)
    }
    sizes = {len(one.instance) for one in drawn if one.instance.arrival_times.any()}
    assert sizes == {30, 40, 50, 60}


def test_patterns_name_instances_of_the_library_and_draws() -> None:
    found = problems(instances.library(), ["j25-m1-n??-00", "arrivals-*-101"], 30)
    assert {one.set for one in found} == {"j25-m1", "arrivals"}
    assert all(len(one.instance) <= 30 for one in found)
    assert len(problems(instances.library(), [])) == 45 + 12


def test_an_interval_only_improves() -> None:
    told = [[3.0, 60, 100], [1.0, 50, 100], [0.1, 0, float("inf")], [2.0, 40, 80]]
    steps = gap_steps(told)
    assert [gap_at(steps, time) for time in (0.05, 0.1, 1, 2.5, 3)] == pytest.approx(
        [1, 1, 0.5, 1 - 50 / 80, 1 - 60 / 80]
    )


def test_the_integral_over_log_time() -> None:
    steps = [(0.0, 1.0), (1.0, 0.5), (10.0, 0.1)]
    assert mean_over_log_time(steps, 1, 100) == pytest.approx(0.3)
    assert mean_over_log_time(steps, 0.1, 10) == pytest.approx(0.75)
    assert mean_over_log_time(steps, 30, 30) == 0.1


@given(
    st.lists(st.tuples(st.floats(0.01, 50), st.floats(0, 100)), max_size=6),
    st.floats(0.05, 2),
    st.floats(1.5, 20),
)
@settings(max_examples=examples(100, 30))
def test_the_integral_is_a_mean_over_many_times(
    told: list[tuple[float, float]], first: float, factor: float
) -> None:
    steps = gap_steps([time, lower, 100.0] for time, lower in told)
    edges = np.geomspace(first, first * factor, 2001)
    middles = np.sqrt(edges[1:] * edges[:-1])
    mean = float(np.mean([gap_at(steps, time) for time in middles]))
    assert mean_over_log_time(steps, first, first * factor) == pytest.approx(mean, abs=2e-3)


def test_only_what_all_solved_is_compared() -> None:
    solved = {
        "new": {("a", "a1", 0): CLOSED, ("a", "a2", 0): OPEN, ("b", "b1", 0): CLOSED},
        "old": {("a", "a1", 0): OPEN},
    }
    assert compared(solved, "a") == (["new", "old"], [("a", "a1", 0)])
    assert compared(solved, "b") == (["new"], [("b", "b1", 0)])
    assert compared(solved)[1] == [("a", "a1", 0)]
    rows = gaps_table(solved, [1, 8]).rows
    assert rows[1] == ("a", "1", "8", "0.00", "0.00", "40.00", "40.00")
    assert rows[3] == ("b", "1", "8", "0.00", "0.00", "-", "-")
    assert rows[-1][:2] == ("all", "1")
    # A third of the way from 1 to 8 on a logarithmic axis lies 2.
    assert scores(solved, [1, 8]) == pytest.approx({"new": 0.4 / 3, "old": 0.4})
    lines = picture(solved, [1, 8]).lines
    assert [line.get_label() for line in lines] == ["new", "old"]
    assert [line.get_ydata()[-1] for line in lines] == pytest.approx([0, 40])


SOLVE = """
class Found:
    def __init__(self, lower, upper):
        self.lower_bound, self.certified_lower_bound, self.upper_bound = lower, lower, upper

def solve(instance, time_limit, *, {listener}=None, threads=None):
    told = {listener}
    if callable(told):
        told(Found(0, 20))
    return Found(8 + int(time_limit), 20)
"""
STUB = "class Instance:\n    from_arrays = staticmethod(lambda *columns, **more: columns)\n"


@pytest.mark.parametrize(
    ("listener", "how"),
    [
        ("progress", "one solve, listened to by progress="),
        ("callback", "one solve, listened to by callback="),
        ("nobody", "a solve for each time"),
    ],
)
def test_a_version_is_listened_to_or_solves_for_each_time(
    tmp_path: Path, listener: str, how: str
) -> None:
    _version(tmp_path, SOLVE.format(listener=listener))
    (problem,) = problems(instances.library(), ["j25-m1-n10-00"])
    task = {**task_of(problem, 1), "seconds": [1, 3], "cold": False}
    answer = solve_with(tmp_path, task)
    assert answer["how"] == how
    ends = [interval[1:] for interval in answer["intervals"]]
    assert ends == ([[9, 20], [11, 20]] if listener == "nobody" else [[0, 20], [11, 20]])
    assert answer["certified"] == [11, 20]
    # What it has no argument or no class for, it tells.
    for pattern, lacks in (
        ("preemptive-j25-m1-n10-00", "hindsight.solve has no preemptive"),
        ("blocks-j25-m1-n10-00", "instances has no MemoryRule"),
        ("seconds-azure-conv-n20-00", "hindsight.solve has no batch_time"),
    )[: 3 if listener == "nobody" else 0]:
        (problem,) = problems(instances.library(), [pattern])
        assert solve_with(tmp_path, {**task, **task_of(problem, 1)}) == {"lacks": lacks}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["echo 'ValueError: no way' >&2", "exit 1"], "ValueError: no way"),
        (["exit 3"], "status 3"),
    ],
)
def test_its_own_interpreter_runs_a_version_and_says_why_it_failed(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("\n".join(["#!/bin/sh", "cat > /dev/null", *lines]) + "\n")
    python.chmod(0o755)
    assert solve_with(tmp_path, {"seconds": [1]}) == {"failed": said}


def _version(folder: Path, hindsight: str) -> None:
    for name, text in (("hindsight", hindsight), ("instances", STUB)):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text)
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to(sys.executable)

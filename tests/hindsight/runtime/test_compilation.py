"""Kernels compile, whether or not their machine code can be kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from empty_cache import printed_without_cache

from hindsight import Progress, best_list_schedule
from hindsight.outcomes import interval
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.runtime import compilation
from hindsight.runtime.search import Search
from instances import Instance

INSTANCE = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6)

LOOPS_BEFORE = """
import hindsight
from hindsight.runtime.compilation import reported_compilations
from instances import generate

compiled, heard = [], []


def hear(news):
    if news.lower_bound > 0:
        heard.append("\\n".join([str(news), *compiled]))


with reported_compilations(lambda name, is_ready: is_ready and compiled.append(name)):
    hindsight.solve(generate("arrival-model-2", seed=1, n=60), 0.0, progress=hear)
print(heard[0])
"""


def test_a_first_interval_needs_one_compiled_loop(tmp_path: Path) -> None:
    interval, *loops = printed_without_cache(LOOPS_BEFORE, tmp_path).splitlines()
    assert re.fullmatch(r"heuristics: total latency \[\d+, \d+\] rounds, gap .* %", interval)
    assert loops == ["hindsight.schedules.timetables.place"]


def test_a_solve_reports_that_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiling(report: Callable[[str, bool], object]) -> AbstractContextManager[None]:
        reports.append(report)
        return nullcontext()

    reports: list[Callable[[str, bool], object]] = []
    monkeypatch.setattr(interval, "reported_compilations", compiling)
    heard: list[Progress] = []
    solved = Interval(Problem(INSTANCE), Search(progress=heard.append))
    with solved.kept_when_interrupted():
        reports[0]("loop", False)
        assert not heard  # there is no interval before the first schedule
        solved.offer(best_list_schedule(INSTANCE))
        reports[0]("loop", False)
        reports[0]("loop", True)
    first, during, after = heard
    phases = [one.phase for one in heard]
    assert phases == ["heuristics", "compiling a loop (once)", "heuristics"]
    assert during.text == after.text == first.text
    assert solved.log == [first]


@pytest.mark.parametrize("error", [ModuleNotFoundError, AttributeError])
def test_machine_code_of_another_version_counts_as_none(error: type[Exception]) -> None:
    def load() -> dict[Any, Any]:
        raise error("hindsight.renamed")

    assert compilation.known_here(load)() == {}
    assert compilation.known_here(lambda: {"here": 1})() == {"here": 1}

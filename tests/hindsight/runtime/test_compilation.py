"""Kernels compile, whether or not their machine code can be kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from empty_cache import printed_without_cache

from hindsight import best_list_schedule
from hindsight.exact.horizon import proved_horizon
from hindsight.prices import starts
from hindsight.runtime import compilation
from hindsight.schedules import timetables
from instances import generate

LOOPS_BEFORE = """
import hindsight
from hindsight.runtime.compilation import reported_compilations
from instances import generate

compiled, told = [], []


def hear(news):
    told.append((str(news), len(compiled)))


with reported_compilations(lambda *loop: compiled.append(loop)):
    for n in (10, 60):
        hindsight.solve(generate("arrival-model-2", seed=1, n=n), 0.0, progress=hear)
print(told[-1], compiled)
"""


def test_a_first_interval_needs_no_compiled_loop(tmp_path: Path) -> None:
    printed = printed_without_cache(LOOPS_BEFORE, tmp_path)
    assert re.fullmatch(
        r"\('heuristics: total latency \[\d+, \d+\] rounds, gap .* %', 0\) \[\]\n", printed
    )


def test_plain_loops_give_what_compiled_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    instances = [generate("arrival-model-2", seed=seed, n=20) for seed in range(10)]
    monkeypatch.setattr(compilation, "PLAIN_SECONDS", 0.0)
    compiled = [proved_horizon(instance) for instance in instances]
    schedules = [best_list_schedule(instance) for instance in instances]
    for module, name in ((timetables, "place"), (starts, "cheapest_starts")):
        monkeypatch.setattr(module, name, compilation.plain(getattr(module, name)))
    for instance, result, listed in zip(instances, compiled, schedules, strict=True):
        plain = proved_horizon(instance)
        assert (plain[0].bound, plain[1]) == (result[0].bound, result[1])
        assert best_list_schedule(instance) == listed


def test_a_loop_is_compiled_once_it_has_run_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def loop() -> None:
        ran.append("plain")

    monkeypatch.setattr(compilation, "njit", lambda *_, **__: lambda: ran.append("compiled"))
    monkeypatch.setattr(compilation, "is_compiled", lambda loop: False)
    monkeypatch.setattr(compilation, "plain", lambda _: loop)
    monkeypatch.setattr(compilation.Clock, "seconds", lambda _: 0.6)
    run = compilation.plain_at_first(loop)
    for _ in range(4):
        run()
    assert ran == ["plain", "plain", "compiled", "compiled"]


@pytest.mark.parametrize("error", [ModuleNotFoundError, AttributeError])
def test_machine_code_of_another_version_counts_as_none(error: type[Exception]) -> None:
    def load() -> dict[Any, Any]:
        raise error("hindsight.renamed")

    assert compilation.known_here(load)() == {}
    assert compilation.known_here(lambda: {"here": 1})() == {"here": 1}

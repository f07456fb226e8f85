"""The fewest replicas, against enumeration, whatever interval each number of replicas has."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiny_problems import most_on_time

import hindsight
from hindsight.service import capacity
from instances import Instance, InvalidValueError, ServiceLevel


def drawn(seed: int) -> tuple[Instance, ServiceLevel, list[int]]:
    """An instance, a level, and the most on time with 1 to n replicas."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    s, o = rng.integers(1, 5, n), rng.integers(1, 4, n)
    limit = int(max((s + o).max(), rng.integers(4, 8)))
    arrivals = np.sort(rng.integers(0, 4, n))
    instance = Instance.from_arrays(s, o, memory_limit=limit, arrival_times=arrivals)
    level = ServiceLevel(latency=int(rng.integers(2, 6)))
    return (
        instance,
        level,
        [most_on_time(instance.with_replicas(k), level) for k in range(1, n + 1)],
    )


def enclosing(truth: list[int], slack: Callable[[], int]) -> Any:
    """An `attainment` that knows intervals around the truth."""

    def attainment(problem: Instance, *_: Any, **__: Any) -> SimpleNamespace:
        exact, count = truth[problem.replicas - 1], len(problem)
        lower, upper = max(0, exact - slack()), min(count, exact + slack())
        return SimpleNamespace(
            problem=problem, lower_bound=lower, upper_bound=upper, best_bound="prices"
        )

    return attainment


@pytest.mark.parametrize("seed", range(12))
def test_the_interval_holds_the_fewest(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance, level, truth = drawn(seed)
    assert truth == sorted(truth)
    rng = np.random.default_rng(seed)
    for share, slack in itertools.product((0.3, 0.6, 1.0), (0, 1)):
        monkeypatch.setattr(
            capacity,
            "attainment",
            enclosing(truth, lambda most=slack: int(rng.integers(0, most + 1))),
        )
        needed = np.ceil(share * len(instance))
        fewest = next((k for k, one in enumerate(truth, 1) if one >= needed), None)
        found = hindsight.fewest_replicas(instance, level, share)
        if fewest is None:
            assert found.upper_bound is None
        else:
            assert found.lower_bound is not None
            assert found.lower_bound <= fewest <= (found.upper_bound or fewest)
        if not slack:
            assert (found.lower_bound, found.upper_bound) == (fewest, fewest)
        replicas = [one.problem.replicas for one in found.tried]
        assert replicas == sorted(set(replicas))


def test_what_is_late_alone_is_told_at_once() -> None:
    """No number of replicas helps requests that are late alone, and none is tried in vain."""
    instance = Instance.from_arrays([1] * 6, [3] * 5 + [9], memory_limit=20)
    found = hindsight.fewest_replicas(instance, ServiceLevel(latency=4), 1.0)
    assert (found.lower_bound, found.upper_bound, len(found.tried)) == (None, None, 1)
    assert "[None, None]" in repr(found)


@pytest.mark.parametrize("share", [0, 1.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    instance = Instance.from_arrays([1], [1], memory_limit=5)
    with pytest.raises(InvalidValueError, match="share"):
        hindsight.fewest_replicas(instance, ServiceLevel(latency=4), share)


def test_nothing_is_tried_once_the_caller_stops() -> None:
    instance = Instance.from_arrays([1] * 40, [1] * 40, [0] * 40, memory_limit=2)
    found = hindsight.fewest_replicas(
        instance, ServiceLevel(latency=1), 1.0, should_stop=lambda: True, threads=1
    )
    assert len(found.tried) == 1
    assert found.lower_bound is not None
    assert found.lower_bound <= 40
    assert found.upper_bound is None


def test_replicas_of_the_instance_do_not_count() -> None:
    instance = Instance.from_arrays([2] * 3, [2] * 3, memory_limit=4)
    level = ServiceLevel(latency=2)
    for replicas in (1, 2, 7):
        found = hindsight.fewest_replicas(instance.with_replicas(replicas), level, 1.0)
        assert (found.lower_bound, found.upper_bound) == (3, 3)

"""The fewest replicas: requests that are late alone, and searches that are stopped."""

from __future__ import annotations

import hindsight
from instances import Instance, ServiceLevel


def test_what_is_late_alone_is_told_at_once() -> None:
    """No number of replicas helps requests that are late alone, and none is tried in vain."""
    instance = Instance.from_arrays([1] * 6, [3] * 5 + [9], memory_limit=20)
    found = hindsight.fewest_replicas(instance, hindsight.OnTime(ServiceLevel(latency=4)), 1.0)
    assert (found.lower_bound, found.upper_bound, len(found.tried)) == (None, None, 1)
    assert "lower_bound=None, upper_bound=None" in repr(found)


def test_nothing_is_tried_once_the_caller_stops() -> None:
    instance = Instance.from_arrays([1] * 40, [1] * 40, [0] * 40, memory_limit=2)
    found = hindsight.fewest_replicas(
        instance, hindsight.OnTime(ServiceLevel(latency=1)), 1.0, progress=lambda _: True, threads=1
    )
    assert len(found.tried) == 1
    assert found.lower_bound is not None
    assert found.lower_bound <= 40
    assert found.upper_bound is None


def test_replicas_of_the_instance_do_not_count() -> None:
    instance = Instance.from_arrays([2] * 3, [2] * 3, memory_limit=4)
    level = ServiceLevel(latency=2)
    for replicas in (1, 2, 7):
        found = hindsight.fewest_replicas(
            instance.replaced(replicas=replicas), hindsight.OnTime(level), 1.0
        )
        assert (found.lower_bound, found.upper_bound) == (3, 3)

"""Limits in seconds that a schedule meets exactly, in spite of rounded sums of durations."""

from __future__ import annotations

from typing import Any

import pytest

import hindsight
from instances import MemoryRule, ServiceLevel, Workload, generate
from online import AffineTime, IterationTime, TiledTime

BLOCKS = MemoryRule(block_size=16, emitted_token="next")

TABLE = TiledTime((1, 8, 40), (0.1, 0.1, 0.42), kv_token=0.001)

TILES = TiledTime((8, 16, 64), (0.11, 0.13, 0.43), 8, kernel=0.013, kv_token=0.0007)


class Declared:
    """A batch time that the package knows nothing of."""

    def durations(self, stretch: Any) -> Any:
        """Return seconds that add up exactly."""
        return 0.25 + 0.125 * stretch.resident()


@pytest.mark.parametrize("late", ["drop", "serve"])
@pytest.mark.parametrize(
    ("time", "prompt", "output", "rule", "least"),
    [
        (AffineTime(0.25), 1, 3, None, 0.75),
        (AffineTime(0.1), 1, 3, None, 0.3),
        (AffineTime(0.7), 2, 3, None, 2.1),
        (AffineTime(0.1, 0.01, 0.001), 10, 3, BLOCKS, 0.453),
        (IterationTime(0.07, 0.003), 5, 2, BLOCKS, 0.173),
        (TABLE, 33, 2, BLOCKS, 0.517),
        (TILES, 9, 2, BLOCKS, 0.2793),
    ],
)
def test_a_limit_that_is_met_exactly_is_kept(
    time: Any, prompt: int, output: int, rule: MemoryRule | None, least: float, late: Any
) -> None:
    for arrival in (0.0, 0.1, 1000.1):
        rules = {} if rule is None else {"memory_rule": rule}
        machine = {"memory_limit": 96, "batch_time": time, **rules}
        workload = Workload([arrival], [prompt], [output], **machine)
        level = ServiceLevel(latency=least)
        found = hindsight.solve(workload, goal=hindsight.OnTime(level, late), threads=1)
        assert (found.lower_bound, found.upper_bound) == (1, 1)
        assert found.schedule is not None
        assert found.schedule.on_time(level).all()
        assert "optimal, 1 of 1 requests on time" in repr(found)


def test_a_limit_that_is_missed_by_little_is_not_kept() -> None:
    workload = Workload([0.1], [1], [3], memory_limit=9, batch_time=AffineTime(0.1))
    for least in (0.29999999999999, 0.299999):
        level = ServiceLevel(latency=least)
        found = hindsight.solve(workload, 0.2, goal=hindsight.OnTime(level, "serve"))
        assert found.schedule is not None
        assert found.schedule.on_time(level).sum() == found.lower_bound == 0
        assert ("[0, 1]" in repr(found)) == (found.upper_bound == 1)
    assert found.upper_bound == 0


def test_a_batch_time_of_unknown_form_may_meet_its_limit() -> None:
    workload = Workload([0.0, 0.0], [3, 40], [2, 2], memory_limit=90, batch_time=Declared())
    level = [ServiceLevel(latency=1.625), ServiceLevel(latency=20)]
    found = hindsight.solve(workload, goal=hindsight.OnTime(level), threads=1)
    assert (found.lower_bound, found.upper_bound) == (2, 2)


def test_an_open_interval_without_a_time_limit_stalls() -> None:
    workload = generate("conversations", 1, n=25, rate=5)
    time = AffineTime(0.05, 0.00028, 1.1e-7)
    found = hindsight.solve(
        workload.replaced(batch_time=time),
        goal=hindsight.OnTime(ServiceLevel(latency=3.0)),
        threads=1,
    )
    assert (found.lower_bound, found.upper_bound, found.stop_reason) == (13, 14, "stalled")
    assert "feasible, [13, 14] of 25 requests on time" in repr(found)

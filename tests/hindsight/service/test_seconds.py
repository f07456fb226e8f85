"""The most requests on time in seconds: prices from below, and limits that are met exactly."""

from __future__ import annotations

import pytest

import hindsight
from hindsight import OnTime
from hindsight.outcomes.goals import TailOf
from instances import MemoryRule, SecondsSchedule, ServiceLevel, Workload
from online import AffineTime


@pytest.mark.parametrize("token", [0.4, 0.6])
def test_time_per_token_alone_excludes_who_is_too_slow(token: float) -> None:
    time = AffineTime(0.5, 0.0, 0.0)
    workload = Workload([0.0], [1], [3], memory_limit=4, batch_time=time)
    level = ServiceLevel(time_per_token=token)
    found = hindsight.solve(workload, 0.15, goal=OnTime(level), threads=1)
    assert found.lower_bound == found.upper_bound == int(token > 0.5)


@pytest.mark.parametrize("limit", ["latency", "first_token"])
def test_a_tail_is_not_above_a_schedule_that_stores_a_token_next(limit: TailOf) -> None:
    # A token stored next is not held in its own round, which is shorter by d2.
    rule = MemoryRule(emitted_token="next")
    time = AffineTime(0.1, 0.05, 0.5)
    workload = Workload([0.0], [3], [2], memory_limit=50, memory_rule=rule, batch_time=time)
    schedule = SecondsSchedule(workload, [(0, 1, 2)])
    assert not schedule.violations()
    reached = {"latency": schedule.latencies, "first_token": schedule.first_token_times}
    found = hindsight.solve(workload, 0.5, goal=hindsight.Tail(1.0, limit))
    assert found.lower_bound <= found.upper_bound == pytest.approx(reached[limit][0])

"""The most requests on time, and the shortest tails, of fleets in rounds."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_problems import check_in_rounds, in_rounds

import hindsight
from instances import FleetSchedule, Instance, ServiceLevel


def check_schedule(schedule: FleetSchedule) -> None:
    """It is feasible by the definition."""
    check_in_rounds(in_rounds(schedule.instance), schedule)


@pytest.mark.parametrize("replicas", [3, pytest.param(100_000, marks=pytest.mark.slow)])
def test_more_replicas_than_requests_serve_each_alone(replicas: int) -> None:
    fleet = Instance.from_arrays([2] * 3, [2] * 3, memory_limit=5, replicas=replicas)
    found = hindsight.solve(fleet, goal=hindsight.OnTime(ServiceLevel(latency=2), "serve"))
    assert (found.lower_bound, found.upper_bound) == (3, 3)
    assert found.schedule.latencies.tolist() == [2, 2, 2]
    assert hindsight.solve(fleet, goal=hindsight.Tail(1.0)).upper_bound == 2


def test_prices_bound_many_requests_and_schedules_are_checked() -> None:
    rng = np.random.default_rng(0)
    fleet = Instance.from_arrays(
        rng.integers(1, 60, 200),
        rng.integers(1, 80, 200),
        np.sort(rng.integers(0, 100, 200)),
        memory_limit=700,
        replicas=4,
    )
    level = ServiceLevel(latency=90)
    found = hindsight.solve(fleet, 60, goal=hindsight.OnTime(level), gap=0.06)
    assert found.stop_reason == "gap"
    assert found.lower_bound < found.upper_bound < 200
    assert (found.best_bound, found.certified) == ("memory prices", True)
    check_schedule(found.schedule)
    kept = found.schedule.on_time(level)
    assert kept.all()
    assert len(kept) == found.lower_bound

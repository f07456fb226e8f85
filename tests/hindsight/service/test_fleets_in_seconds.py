"""The most requests on time on several replicas in seconds: late ones, empty ones, tails."""

from __future__ import annotations

import hindsight
from instances import FleetSchedule, ServiceLevel, Workload
from online import AffineTime

FULL = AffineTime(1.0, 0.5, 0.25)


def test_replicas_without_requests_stay_empty() -> None:
    fleet = Workload([0.0, 0.0], [3, 3], [1, 1], memory_limit=4, replicas=3, batch_time=FULL)
    for latency, most in ((3.0, 0), (4.0, 2)):
        level = ServiceLevel(latency=latency)
        found = hindsight.solve(fleet, 60, goal=hindsight.OnTime(level, "serve"), threads=1)
        assert found.lower_bound == found.upper_bound == most
        assert isinstance(found.schedule, FleetSchedule)
        assert sum(part is None for part in found.schedule.parts) == 1
        assert found.schedule.is_feasible

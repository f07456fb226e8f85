"""Policies under routers of a fleet, held against bounds of the fleet's optimum."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import online
from instances import FleetSchedule, Instance, Request
from instances.batch_time import AffineTime
from instances.problem.arrival_source import in_seconds
from online.comparison import comparing, records_csv

ROWS = [Request(k, 2 + k % 3, 3 + k % 4) for k in range(10)]
FLEET = Instance(ROWS, 14, "ten", replicas=2)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The search proves nothing below the least output lengths; its problems are told here."""
    found: list[Any] = []

    def find(problem: Any, *, preemptive: bool, **options: Any) -> Any:
        found.append(problem)
        bounds = {"upper_bound": 10**6, "lower_bound": 1, "certified_lower_bound": 1}
        facts = {"problem": problem, "best_bound": "by hand", "schedule": None}
        return SimpleNamespace(**bounds, **facts, stop_reason="proof", runtime=0.0)

    monkeypatch.setattr(comparing, "find_optimum", find)
    return found


@pytest.mark.parametrize("clock", [None, AffineTime(0.05, 0.003, 1e-3)])
def test_every_policy_is_compared_under_every_router(starts: list[Any], clock: Any) -> None:
    routers = ["round-robin", "least-tokens(delay=1)"]
    records = online.compare(in_seconds(FLEET, clock), ["mc-sf", "fcfs"], routers=routers)
    assert [record.policy_label for record in records] == [
        "mc-sf under round-robin",
        "mc-sf under least-tokens(delay=1)",
        "fcfs under round-robin",
        "fcfs under least-tokens(delay=1)",
    ]
    assert len(starts) == 1
    totals = [record.total_latency for record in records]
    (best,) = {id(record.optimum_schedule): record.optimum_schedule for record in records}.values()
    assert isinstance(best, FleetSchedule)
    assert min(totals) == pytest.approx(best.total_latency, rel=1e-12)
    for record, total in zip(records, totals, strict=True):
        assert record.ratio is not None
        assert record.ratio.lower is not None
        assert float(record.ratio.lower) == pytest.approx(float(total / min(totals)), rel=1e-9)
    frame = records.frame()
    assert frame["router"].tolist() == [record.router for record in records]
    assert records_csv(records).splitlines()[0].endswith(",router")
    assert len(records.summary().rows) == 4


def test_the_preemptive_optimum_takes_any_replicas_preemption(starts: list[Any]) -> None:
    fleet = Instance([Request(0, 3, 5)] * 8, 12, replicas=2)
    kept, other = online.compare(fleet, ["vllm", "mc-sf"], routers="round-robin")
    assert kept.run.keeps_tokens
    assert kept.compared_with == "preemptive optimum"
    assert other.compared_with == "optimum"


def test_what_fails_under_a_router_is_a_trial_that_says_so(starts: list[Any]) -> None:
    class Broken(online.Router):
        def route(self, request: Any, replicas: Any) -> int:
            raise KeyError("gone")

    failed, served = online.compare(FLEET, "mc-sf", routers=[Broken, "random"])
    assert (failed.status, failed.router) == ("failed", "Broken")
    assert "router 'Broken', request 0: KeyError" in str(failed.reason)
    assert served.status == "completed"
    assert np.array_equal(served.optimum_schedule.assignment, served.run.assignment)

"""Requests as data frames."""

from __future__ import annotations

import pytest

import online
from instances import Instance, Workload

pytest.importorskip("pandas")

INSTANCE = Instance.from_arrays([2, 1, 3], [3, 2, 4], [0, 0, 1], memory_limit=8)


def test_requests_are_rows() -> None:
    workload = Workload([0.0, 0.5, 1.0], [2, 1, 3], [3, 2, 4], memory_limit=8, ids=["a", "b", 3])
    for requests, ids in ((INSTANCE, [0, 1, 2]), (workload, ["a", "b", 3])):
        frame = requests.frame()
        assert frame["id"].tolist() == ids
        assert frame["arrival_time"].tolist() == requests.arrival_times.tolist()
        assert (frame["prompt_length"] + frame["output_length"]).tolist() == [5, 3, 7]


def test_latencies_of_a_schedule_and_of_its_run_agree() -> None:
    run = online.simulate(INSTANCE, "mc-sf")
    assert run.schedule.frame()["latency"].tolist() == run.frame()["e2el"].tolist()
    assert run.schedule.frame()["latency"].sum() == run.total_latency
    batch_time = online.AffineTime(0.05, 0.00028, 1.1e-7)
    timed = online.simulate(Workload.from_instance(INSTANCE, batch_time), "mc-sf")
    seconds = timed.schedule.frame()
    assert seconds["latency"].tolist() == timed.frame()["e2el"].tolist()
    assert (seconds["first_token_time"] <= seconds["completion_time"]).all()

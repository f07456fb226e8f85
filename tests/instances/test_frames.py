"""Requests as data frames."""

from __future__ import annotations

import pytest

import online
from instances import Instance, Workload
from instances.batch_time import preset
from instances.problem.arrival_source import in_seconds

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
    batch_time = preset("llama-2-70b-2xa100").batch_time
    timed = online.simulate(in_seconds(INSTANCE, batch_time), "mc-sf")
    seconds = timed.schedule.frame()
    assert seconds["latency"].tolist() == timed.frame()["e2el"].tolist()
    assert (seconds["first_token_time"] <= seconds["completion_time"]).all()

"""Tables of notebooks are small, and each repr is one short line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hindsight
import instances
import online
from instances import Instance, Workload
from instances.batch_time import preset

NAME = "drawn at random"
MODEL = preset("llama-2-70b-2xa100")


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """Two thousand requests as everything that a notebook shows."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, 2000), rng.integers(1, 40, 2000)
    arrivals = np.sort(rng.integers(0, 2000, 2000))
    many = Instance.from_arrays(*lengths, arrivals, memory_limit=500, name=NAME)
    machine = {"memory_limit": 16492, "batch_time": MODEL.batch_time}
    timed = Workload(arrivals / 2.0, *lengths, name=NAME, **machine)
    run, run_in_seconds = online.simulate(many, "mc-sf"), online.simulate(timed, "mc-sf")
    few = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name=NAME, replicas=2)
    return {
        "instance": many,
        "workload": timed,
        "schedule": run.schedule,
        "preemptive schedule": run.preemptive_schedule,
        "seconds schedule": run_in_seconds.schedule,
        "fleet schedule": hindsight.solve(few, progress=False).schedule,
        "run": run,
        "run in seconds": run_in_seconds,
    }


def test_tables_are_small(shown: dict[str, Any]) -> None:
    for kind, one in shown.items():
        table = one._repr_html_()
        assert len(table) < 10_000, kind
        # The first five requests, a row of dots, the last five.
        assert table.count("<tr") == (12 if len(one.frame()) > 60 else len(one.frame()) + 1)


def test_reprs_are_one_short_line(shown: dict[str, Any]) -> None:
    few = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name=NAME)
    optimum, (trial,) = hindsight.solve(few, progress=False), online.sweep([few], "mc-sf")
    more = {
        "result": optimum,
        "ratio": online.ratio(online.simulate(few, "mc-sf"), optimum),
        "trial": trial,
        "bounds": optimum.known_bounds(),
        "library": instances.library(),
        "library set": instances.library().sets[0],
        "library entry": instances.library()["j25-m1-n50-03"],
    }
    for kind, one in {**shown, **more}.items():
        assert "\n" not in repr(one), kind
        assert len(repr(one)) <= 120 + len(NAME), kind


def test_requests_latencies_and_runs_are_frames() -> None:
    instance = Instance.from_arrays([2, 1, 3], [3, 2, 4], [0, 0, 1], memory_limit=8)
    workload = Workload.from_instance(instance, online.AffineTime(0.05, 0.00028, 1.1e-7))
    for problem in (instance, workload):
        run = online.simulate(problem, "mc-sf")
        frame, latencies = problem.frame(), run.schedule.frame()["latency"]
        assert frame["id"].tolist() == [0, 1, 2]
        assert frame["arrival_time"].tolist() == problem.arrival_times.tolist()
        assert (frame["prompt_length"] + frame["output_length"]).tolist() == [5, 3, 7]
        assert latencies.tolist() == run.frame()["e2el"].tolist()
        assert latencies.sum() == run.total_latency

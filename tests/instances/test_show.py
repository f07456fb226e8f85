"""Tables of notebooks: escaped, well formed and small."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import pytest

import hindsight
import instances
import online
from instances import Instance, Workload
from instances.batch_time import preset

HOSTILE = '<script>alert("1")</script>&'
MODEL = preset("llama-2-70b-2xa100")


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """Two thousand requests as everything that a notebook shows."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, 2000), rng.integers(1, 40, 2000)
    arrivals = np.sort(rng.integers(0, 2000, 2000))
    many = Instance.from_arrays(*lengths, arrivals, memory_limit=500, name=HOSTILE)
    machine = {"memory_limit": 16492, "batch_time": MODEL.batch_time}
    timed = Workload(arrivals / 2.0, *lengths, name=HOSTILE, **machine)
    run, run_in_seconds = online.simulate(many, "mc-sf"), online.simulate(timed, "mc-sf")
    few = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name=HOSTILE, replicas=2)
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


def test_figures_are_well_formed_escaped_and_small(shown: dict[str, Any]) -> None:
    for kind, one in shown.items():
        figure = one._repr_html_()
        assert "<script" not in figure, kind
        assert len(figure) < 10_000, kind
        assert escape(repr(one)) in figure
        # The first five requests, a row of dots, the last five.
        assert figure.count("<tr") == (12 if len(one.frame()) > 60 else len(one.frame()) + 1)


def test_reprs_are_one_short_line(shown: dict[str, Any]) -> None:
    few = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name=HOSTILE)
    optimum, (trial,) = hindsight.solve(few, progress=False), online.sweep([few], "mc-sf")
    more = {
        "result": optimum,
        "ratio": online.ratio(online.simulate(few, "mc-sf"), optimum),
        "trial": trial,
        "bounds": optimum.known_bounds(),
        "library": instances.library(),
        "library set": instances.library().sets[0],
        "library entry": instances.library("j25-m1-n50-03"),
    }
    for kind, one in {**shown, **more}.items():
        assert "\n" not in repr(one), kind
        assert len(repr(one)) <= 120 + len(HOSTILE), kind


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

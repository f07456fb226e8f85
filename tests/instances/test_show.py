"""Figures of notebooks: escaped, well formed, small, and drawn to scale."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

import hindsight
import instances
import online
from instances import Instance, Workload, show
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
        assert len(figure) < 200_000, kind
        # Browsers mend what is not closed; here it is an error.
        tree = ElementTree.fromstring(f"<body>{figure}</body>")
        assert tree.find(".//{http://www.w3.org/2000/svg}svg") is not None, kind


def test_reprs_are_one_short_line(shown: dict[str, Any]) -> None:
    few = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name=HOSTILE)
    optimum, (trial,) = hindsight.solve(few, progress=False), online.sweep([few], "mc-sf")
    more = {
        "result": optimum,
        "relaxation": hindsight.relax(few),
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


def axes() -> Any:
    return Figure().subplots()


def heights(ax: Any) -> list[tuple[float, float, int]]:
    """Begin, end and height of every bar of the area that is drawn."""
    ((x, y),) = [path.vertices.T for path in ax.collections[0].get_paths()]
    ups = np.flatnonzero((np.diff(y) > 0) & (np.diff(x) == 0))
    return [(x[k + 1], x[k + 2], int(y[k + 1])) for k in ups]


def test_a_curve_shows_the_largest_of_what_it_puts_together() -> None:
    memory = np.ones(10 * show.COLUMNS, dtype=np.int64)
    memory[1234] = 77
    starts = np.arange(len(memory), dtype=np.float64)
    ax = axes()
    show.draw_memory(ax, starts, starts + 1, memory, 100, "rounds")
    expected = [(10 * k, 10 * k + 10, 77 if k == 123 else 1) for k in range(show.COLUMNS)]
    assert heights(ax) == expected


def test_a_round_that_lasts_covers_its_time_and_waiting_is_left_out() -> None:
    ax = axes()
    starts, ends = np.array([0.0, 90.0, 120.0]), np.array([90.0, 100.0, 130.0])
    show.draw_memory(ax, starts, ends, np.array([5, 9, 2]), 10, "s")
    assert heights(ax) == [(0, 90, 5), (90, 100, 9), (120, 130, 2)]


def test_what_cannot_be_drawn_has_a_figure_without_picture() -> None:
    instance = Instance.from_arrays([1, 1], [2, 2], memory_limit=4)
    for starts in ([-1, 0], [0, 10**12]):
        figure = instances.Schedule(instance, starts)._repr_html_()
        assert "total latency" in figure
        assert "<svg" not in figure


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

"""Figures of notebooks: escaped, well formed, small, and drawn to scale."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import hindsight
import instances
import online
from instances import Instance, Workload, generate, html
from instances.batch_time import preset
from instances.problem.arrival_source import in_seconds
from online.comparison.comparing import compare

HOSTILE = '<script>alert("1")</script>&'
MODEL = preset("llama-2-70b-2xa100")


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """One of everything a notebook shows, of two thousand requests where that is quick."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, 2000), rng.integers(1, 40, 2000)
    arrivals = np.sort(rng.integers(0, 2000, 2000))
    many = Instance.from_arrays(*lengths, arrivals, memory_limit=500, name=HOSTILE)
    machine = {"memory_limit": 16492, "batch_time": MODEL.batch_time}
    timed = Workload(arrivals / 2.0, *lengths, name=HOSTILE, **machine)
    few = Instance.from_arrays([2, 1, 3], [3, 2, 4], memory_limit=8, name=HOSTILE)
    run = online.simulate(many, "mc-sf")
    run_in_seconds = online.simulate(timed, "mc-sf")
    optimum = hindsight.solve(few)
    return {
        "instance": many,
        "workload": timed,
        "schedule": run.schedule,
        "preemptive schedule": run.preemptive_schedule,
        "seconds schedule": run_in_seconds.schedule,
        "run": run,
        "run in seconds": run_in_seconds,
        "result": optimum,
        "preemptive result": hindsight.solve(few, preemption="keep"),
        "result in seconds": hindsight.solve(in_seconds(few, MODEL.batch_time), time_limit=0),
        "table": compare(few, ["mc-sf", "fcfs"]).summary(),
    }


def test_figures_are_well_formed_escaped_and_small(shown: dict[str, Any]) -> None:
    for kind, one in shown.items():
        figure = one._repr_html_()
        assert "<script" not in figure, kind
        assert len(figure) < 100_000, kind
        # Browsers mend what is not closed; here it is an error.
        tree = ElementTree.fromstring(f"<body>{figure}</body>")
        assert kind == "table" or tree.find(".//svg") is not None, kind


def test_reprs_are_one_short_line(shown: dict[str, Any]) -> None:
    anonymous = len(HOSTILE)
    bounds = shown["result"].known_bounds()
    few = shown["result"].problem
    records = compare(few, ["mc-sf", "fcfs"])
    more = {
        "relaxation": hindsight.relax(few),
        "ratio": online.ratio(online.simulate(few, "mc-sf"), shown["result"]),
        "records": records,
        "record": records[0],
        "bounds": bounds,
        "library": instances.library(),
        "library set": instances.library().sets[0],
        "library entry": instances.library("j25-m1-n50-03"),
    }
    for kind, one in {**shown, **more}.items():
        assert "\n" not in repr(one), kind
        assert len(repr(one)) <= 120 + anonymous, kind


def test_bands_cover_what_the_schedule_holds() -> None:
    instance = generate("arrival-model-1", seed=5, n=6)
    picture = online.simulate(instance, "mc-sf").schedule.picture()
    areas = [area(path) for path in re.findall(r'd="(M[^"]*z)"', picture)]
    assert len(areas) == len(instance)
    assert sum(areas) == instance.volumes.sum()


def area(path: str) -> int:
    """Of a closed outline of horizontal and vertical steps, by the shoelace formula."""
    x, y = (int(number) for number in re.match(r"M(-?\d+) (-?\d+)", path).groups())  # type: ignore[union-attr]
    doubled = 0
    for direction, text in re.findall(r"([hv])(-?\d+)", path):
        step = int(text)
        after = (x + step, y) if direction == "h" else (x, y + step)
        doubled += x * after[1] - after[0] * y
        x, y = after
    return abs(doubled) // 2


@pytest.mark.parametrize(("stays", "rounds"), [(html.MOST_BANDS, 15), (10, html.MOST_STEPS // 10)])
def test_the_largest_stack_is_small_and_a_larger_one_a_curve(stays: int, rounds: int) -> None:
    name = "request-" + "9" * 200

    def picture(count: int) -> str:
        begin = np.arange(count)
        columns = (begin, np.full(count, 3000), np.full(count, rounds))
        limit, profile = 10**6, np.arange(count + rounds)
        return html.memory_picture(columns, limit, lambda row: name, lambda: profile)

    assert picture(stays).count("<title>") == stays
    assert len(picture(stays)) < 100_000
    assert picture(stays + 1).count("<title>") == 0


def test_a_curve_shows_the_largest_of_what_it_puts_together() -> None:
    memory = np.ones(10 * html.COLUMNS, dtype=np.int64)
    memory[1234] = 77
    curve = html.memory_curve(np.arange(len(memory), dtype=np.float64), memory, 100)
    heights = np.cumsum([-int(step) for step in re.findall(r"v(-?\d+)h1", curve)])
    expected = np.ones(html.COLUMNS)
    expected[123] = 77
    assert heights.tolist() == expected.tolist()


def test_a_round_that_lasts_covers_its_time() -> None:
    curve = html.memory_curve(
        np.array([0.0, 90.0]), np.array([5, 9]), 10, ends=np.array([90.0, 100.0]), unit="s"
    )
    heights = np.cumsum([-int(step) for step in re.findall(r"v(-?\d+)h1", curve)])
    assert heights.tolist() == [5] * (9 * html.COLUMNS // 10) + [9] * (html.COLUMNS // 10)


def test_what_cannot_be_drawn_has_a_figure_without_picture() -> None:
    instance = Instance.from_arrays([1, 1], [2, 2], memory_limit=4)
    for starts in ([-1, 0], [0, 10**12]):
        figure = online.simulate(instance, "fcfs").schedule
        figure = type(figure)(instance, starts)._repr_html_()
        assert "total latency" in figure
        assert "<svg" not in figure


def test_rows_beyond_the_most_are_counted() -> None:
    rows = [(str(k),) for k in range(html.MOST_ROWS + 5)]
    figure = html.table(["number"], rows)
    assert figure.count("<td") == html.MOST_ROWS
    assert "and 5 more" in figure

"""The page in a real browser without a network: it loads, says nothing, and fits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import BROWSER, launched

import instances
from instances import ServiceLevel, Workload
from instances.batch_time import AffineTime
from online.headroom import Headroom, Measured, headroom_page, measure_headroom, measuring
from online.headroom.tables import sentences, tables

pytest.importorskip("playwright.sync_api")

PICTURES = (
    *("levels-picture", "loads-picture"),
    *("policies-picture", "over-time-picture", "memory-picture", "load-picture"),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium"),
]


@pytest.fixture(scope="module")
def found() -> Headroom:
    drawn = instances.generate("conversations", 5, n=40, rate=60)
    workload = Workload(
        drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths, memory_limit=2500
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "SEARCH_SHARE", 0.002)
        patch.setattr(measuring, "POINT_SHARE", 0.0001)
        return measure_headroom(
            workload,
            AffineTime(0.02, 2e-4, 1e-6),
            ["fcfs", "mc-sf"],
            measured=Measured(np.full(40, 500.0)),
            time_limit=200,
            level=ServiceLevel(latency=1.0),
        )


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "light"), (1280, "dark")])
def test_the_page_draws_everything_and_says_nothing(
    chromium: Any, found: Headroom, width: int, scheme: str, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        headroom_page(found, {"read": "</script> <b>"}, "a & b" + 30 * "_log"), encoding="utf-8"
    )
    context = chromium.new_context(
        offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    # The answer and its bars are on the first screen; the rest is folded.
    assert page.locator(".bars").last.bounding_box()["y"] < 900
    assert not page.locator("#policies-picture").is_visible()
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for name in PICTURES:
        page.wait_for_selector(f"#{name} .marks > *")
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("#answer li").all_text_contents() == sentences(found)
    # The picture of the answer comes before the table of inputs; no column is off a wide screen.
    picture, inputs = (page.locator(one).bounding_box() for one in ("#policies-picture", "#facts"))
    assert picture["y"] + picture["height"] <= inputs["y"]
    columns = "all => all.map(one => one.scrollWidth - one.clientWidth)"
    assert width < 1280 or not any(page.locator(".scroll").evaluate_all(columns))
    for svg in page.locator(".picture svg:not(svg svg, .legend svg)").all():
        assert svg.get_attribute("role") == "img"
        assert svg.get_attribute("aria-label")
    ink, paper = page.evaluate(
        "[getComputedStyle(document.querySelector('svg text')).fill,"
        " getComputedStyle(document.body).backgroundColor]"
    )
    assert (int(ink[4:].split(",")[0]) > int(paper[4:].split(",")[0])) is (scheme == "dark")
    drawn = [
        [row.locator("td").all_text_contents() for row in table.locator("tbody tr").all()]
        for table in page.locator("table:not(#facts)").all()
    ]
    assert [[sorted(row) for row in table] for table in drawn] == [
        [sorted(row) for row in table.rows] for table in tables(found).values()
    ]
    # A point for each policy and kind of lengths, and two lines and a band at other loads.
    points = page.locator("#policies-picture .marks .point")
    assert points.count() == len(found.completed)
    # The best possible is a band, what is there today is lines, all inside the picture.
    plot = page.locator("#policies-picture svg[role]").bounding_box()
    shapes = [
        one.bounding_box()
        for kind in ("band", "rule")
        for one in page.locator(f"#policies-picture .marks .{kind}").all()
    ]
    assert len(shapes) == 1 + len(found.savings)
    for box in shapes:
        assert plot["x"] <= box["x"] + 1
        assert box["x"] + box["width"] <= plot["x"] + plot["width"] + 1
    intervals = page.locator("#load-picture .marks .upright").all()
    assert len(intervals) == len(found.load_curve)
    assert all(one.bounding_box()["height"] >= 1 for one in intervals)
    for name, count in (("levels", 7), ("loads", 5)):
        assert page.locator(f"#{name}-picture .marks .upright").count() == count
        names = page.locator(f"#{name}-picture .legend").all_text_contents()
        assert names[:3] == ["attainable lies here", found.baseline, found.challenger]
    names = page.locator("#load-picture .legend").all_text_contents()
    assert set(names) == {"best possible lies here", found.baseline, found.challenger}
    smallest = page.locator("#policies-picture text").evaluate_all(
        "all => Math.min(...all.filter(text => text.textContent)"
        ".map(text => parseFloat(getComputedStyle(text).fontSize)))"
    )
    assert smallest >= 11
    for name in PICTURES:
        box = page.locator(f"#{name}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    context.close()

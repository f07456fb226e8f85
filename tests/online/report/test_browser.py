"""The page in a real browser without a network: it loads, says nothing, and answers clicks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from browser import BROWSER, launched
from trials_by_hand import trial_by_hand

import instances
import online
from instances import Instance
from online.comparison import PolicySpec, Trial, compare
from online.report import build_report
from online.simulation.occupancy import bands_of, stays_of

pytest.importorskip("playwright.sync_api")

BAND = "#picture .band"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium"),
]


@pytest.fixture(scope="module")
def records() -> list[Trial]:
    example = Instance.from_arrays(
        [63] + [1] * 21, [1] + [2] * 21, memory_limit=64, name="[W25] Example 1"
    )
    drawn = instances.generate("arrival-model-2", seed=2, n=12)
    found = [
        trial
        for one in (example, drawn)
        for trial in compare(one, ["mc-sf", "fcfs"], time_limit=1, threads=1)
    ]
    noisy = instances.generate("arrival-model-1", seed=10, n=10)
    run = online.simulate(noisy, "a-min", predictions=online.ProportionalPredictions(0.5))
    attempts = run.attempts
    columns = (attempts.request, attempts.start_round, attempts.end_round, attempts.completed)
    stays = zip(*(column.tolist() for column in columns), strict=True)
    lost = tuple(
        (request, begin, end) for request, begin, end, done in stays if not done and begin < end
    )
    starts = tuple(run.start_rounds.tolist())
    found.append(trial_by_hand(noisy, "a-min<i>", 0, "completed", starts, lost, (), None, 300))
    stuck = Instance.from_arrays([1, 1, 1], [1, 3, 3], memory_limit=7)
    found += compare(stuck, [PolicySpec("alpha-protection", {"alpha": 0.1})])
    found.append(trial_by_hand(None, "broken", 0, "failed", reason="ValueError: <b>no</b>"))
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(records: list[Trial], tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(build_report(records), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def page(chromium: Any, address: str) -> Iterator[Any]:
    """The page, offline; at the end nothing was asked for and nothing said."""
    context = chromium.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector(BAND)
    yield page
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [address]
    context.close()


@pytest.fixture
def tab(page: Any) -> Any:
    """The page at 1280 pixels with its first trial, nothing filtered."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator("#filter").fill("")
    page.locator('#trials-table tr[data-index="0"]').click()
    page.wait_for_selector(BAND)
    page.mouse.move(1, 1)
    return page


def outlines(tab: Any) -> list[str]:
    """Each band with the place where it is seen."""
    paths: list[str] = tab.locator(BAND).evaluate_all(
        "all => all.map(p => p.getAttribute('d')"
        " + ['x', 'width'].map(key => p.getBoundingClientRect()[key].toFixed(3)))"
    )
    return paths


def rows(tab: Any) -> Any:
    return tab.locator("#trials-table tbody tr:not([hidden])")


def choose(tab: Any, index: int) -> None:
    """Click a trial wherever the sorting has put it."""
    tab.locator(f'#trials-table tr[data-index="{index}"]').click()


def test_a_click_changes_the_picture(tab: Any, records: list[Trial]) -> None:
    assert rows(tab).count() == len(records)
    first = outlines(tab)
    assert len(first) == 2 * 22
    choose(tab, 3)
    tab.wait_for_function(f"document.querySelectorAll('{BAND}').length === 24")
    assert outlines(tab) != first
    assert tab.locator("#trial-heading").text_content() == "fcfs on arrival-model-2[seed=2,n=12]"
    assert str(records[3].ratio) in tab.locator("#verdict").text_content()
    assert tab.locator('tr[aria-selected="true"]').get_attribute("data-index") == "3"
    assert tab.url.endswith("#trial=3")
    tab.locator("#previous").click()
    assert tab.locator("#trial-heading").text_content().startswith("mc-sf on arrival-model-2")


def test_the_bands_are_those_of_the_package(tab: Any, records: list[Trial]) -> None:
    for index, record in enumerate(records[:4]):
        for field, schedule in (
            ("start_times", record.schedule),
            ("optimum", record.optimum_schedule),
        ):
            drawn = tab.evaluate(
                """([index, field]) => {
                  const { data, bandsOf } = window.report;
                  const trial = data.trials[index];
                  const rounds = field === "optimum" ? data.optima[trial.optimum] : trial[field];
                  return bandsOf(data.instances[trial.instance], rounds, []);
                }""",
                [index, field],
            )
            assert [(one["request"], one["begin"], one["bottom"], one["top"]) for one in drawn] == [
                (band.stay, band.begin, band.bottom.tolist(), band.top.tolist())
                for band in bands_of(stays_of(schedule))
            ]


def test_pointing_at_a_band_tells_of_its_request(tab: Any, records: list[Trial]) -> None:
    choose(tab, 0)
    # The long prompt is the first band of Example 1: it has the cache to itself for a round.
    tab.locator("#picture").scroll_into_view_if_needed()
    box = tab.locator(BAND).first.bounding_box()
    tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = tab.locator("#tip")
    tip.wait_for()
    told = tip.text_content()
    assert told == ("request 0prompt length 63output length 1arrival 0start 0completion 1latency 1")
    # Its band is outlined on both sides.
    assert tab.locator(BAND + ".pointed").count() == 2
    tab.mouse.move(1, 1)
    assert not tip.is_visible()


def test_a_drag_shows_part_of_the_rounds(tab: Any) -> None:
    choose(tab, 2)
    before = outlines(tab)
    tab.locator("#picture").scroll_into_view_if_needed()
    box = tab.locator("#picture .marks").first.bounding_box()
    y = box["y"] + box["height"] / 2
    tab.mouse.move(box["x"] + 60, y)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 160, y, steps=3)
    tab.mouse.up()
    assert outlines(tab) != before
    tab.mouse.dblclick(box["x"] + 60, y)
    assert outlines(tab) == before


def test_every_ratio_is_in_the_picture(tab: Any, records: list[Trial]) -> None:
    ratios = tab.locator("#ratios-picture .ratio")
    bounded = [
        k for k, record in enumerate(records) if record.ratio is not None and record.ratio.lower
    ]
    assert ratios.count() == len(bounded)
    ratios.last.dispatch_event("click")
    chosen = int(tab.locator('tr[aria-selected="true"]').get_attribute("data-index"))
    assert chosen in bounded
    reasons = tab.locator("#reasons-table tbody tr").all_text_contents()
    assert any("ValueError: <b>no</b>" in line for line in reasons)


def test_columns_sort_and_trials_are_filtered(tab: Any) -> None:
    heading = tab.locator("#trials-table th").nth(1)
    for direction, best in (("ascending", 1), ("descending", -1)):
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == direction
        shown = [float(text.strip("[]?, ").split(", ")[-1]) for text in
                 rows(tab).locator("td:nth-child(2)").all_text_contents() if text]  # fmt: skip
        assert len(shown) == 5
        assert shown == sorted(shown, reverse=best < 0)
        # What has no ratio comes last either way.
        assert rows(tab).last.locator("td").nth(1).text_content() == ""
    tab.locator("#filter").fill("FCFS example")
    assert rows(tab).count() == 1
    assert tab.locator("#shown").text_content() == "1 shown"


def test_lost_attempts_and_failed_trials_are_shown(tab: Any, records: list[Trial]) -> None:
    choose(tab, 4)
    bands = len(records[4].lost_attempts) + 10
    tab.wait_for_function(f"document.querySelectorAll('{BAND}').length === {bands}")
    assert f"{len(records[4].lost_attempts)} evictions" in tab.locator("#verdict").text_content()
    assert tab.locator("#trial-heading").text_content().startswith("a-min<i> on")
    choose(tab, 5)
    # Served before the run went round in circles, then lost again and again; beside the optimum.
    stuck = records[5]
    assert (stuck.status, len(stuck.served) > 0, len(stuck.lost_attempts) > 0) == (
        *("livelock", True),
        True,
    )
    bands = len(stuck.served) + len(stuck.lost_attempts) + 3
    tab.wait_for_function(f"document.querySelectorAll('{BAND}').length === {bands}")
    choose(tab, 6)
    assert tab.locator(BAND).count() == 0
    assert tab.locator("#verdict").text_content().endswith("ValueError: <b>no</b>")
    tab.locator('#trials-table tr[data-index="0"]').press("Enter")
    tab.wait_for_selector(BAND)


@pytest.fixture(params=[(1280, "light"), (400, "light"), (1280, "dark"), (400, "dark")])
def stretched(request: pytest.FixtureRequest, chromium: Any, tmp_path: Path) -> Iterator[Any]:
    """Five policies, of which one is ten times the optimum and the others near it."""
    width, scheme = request.param
    alone = Instance.from_arrays([1], [10], memory_limit=20, name="alone")
    records = [
        trial_by_hand(
            alone, policy, 0, "completed", (start,), (), (), (0,), 10, family="one request"
        )
        for policy, start in (("a", 0), ("b", 1), ("c", 2), ("d", 3), ("fcfs", 90))
    ]
    # A group is named where there is another.
    records.append(trial_by_hand(None, "broken", 0, "failed", family="none", reason="no"))
    path = tmp_path / "stretched.html"
    path.write_text(build_report(records), encoding="utf-8")
    context = chromium.new_context(
        offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("#ratios-picture .ratio")
    yield page
    context.close()


def test_a_policy_far_off_does_not_stretch_the_axis(stretched: Any) -> None:
    picture = stretched.locator("#ratios-picture")
    marks = [one.bounding_box() for one in picture.locator(".ratio").all()]
    assert len(marks) == 5
    # Those near the optimum are apart from each other, the other is at the end with its figure.
    near = [box["x"] for box in marks[:4]]
    assert min(after - before for before, after in pairwise(near)) > 15
    assert marks[4]["x"] > near[-1]
    said = picture.locator("text.beyond")
    assert "10.0000" in said.text_content()
    plot, words = picture.locator("svg[role]").bounding_box(), said.bounding_box()
    assert plot["x"] <= words["x"]
    assert words["x"] + words["width"] <= plot["x"] + plot["width"]
    # It can be picked as any other.
    picture.locator(".ratio").last.dispatch_event("click")
    assert stretched.locator("#trial-heading").text_content() == "fcfs on alone"


def test_ratios_are_in_sight_at_any_width_and_colour_scheme(stretched: Any) -> None:
    width = stretched.viewport_size["width"]
    for table in ("policies", "trials-table"):
        for row in stretched.locator(f"#{table} tbody tr").all()[:2]:
            policy, ratio = (row.locator("td").nth(k).bounding_box() for k in (0, 1))
            assert policy["x"] + policy["width"] <= ratio["x"] + 1
            assert ratio["x"] + ratio["width"] <= width
        shown = stretched.locator(f"#{table}").evaluate(
            "table => [table.parentElement.scrollWidth, table.parentElement.clientWidth]"
        )
        assert width < 1280 or shown[0] <= shown[1]
    # The group stands below its policy, which stays where it is while the rest is scrolled.
    first = stretched.locator("#policies tbody td").first
    assert first.text_content() == "aone request"
    before = first.bounding_box()["x"]
    stretched.locator("#policies").evaluate("table => table.parentElement.scrollBy(200, 0)")
    assert first.bounding_box()["x"] == before
    colour = "element => getComputedStyle(element).backgroundColor"
    dark = stretched.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    paper = [int(part) for part in stretched.locator("body").evaluate(colour)[4:-1].split(",")]
    assert (max(paper) < 64) is dark
    assert (min(paper) > 192) is not dark
    for picture in stretched.locator(".picture svg:not(svg svg, .legend svg)").all():
        assert picture.get_attribute("role") == "img"
        assert picture.get_attribute("aria-label")


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_sticks_out_at_any_width(tab: Any, width: int) -> None:
    choose(tab, 3)
    tab.set_viewport_size({"width": width, "height": 800})
    tab.wait_for_timeout(400)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    panels = [box.bounding_box() for box in tab.locator("#picture .marks").all()]
    assert len(panels) == 2
    left, right = panels
    if width == 400:
        assert right["y"] > left["y"] + left["height"]
    else:
        assert right["x"] > left["x"] + left["width"]
    for box in panels:
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert tab.locator("#ratios-picture svg[role]").bounding_box()["width"] <= width
    smallest = tab.locator(".picture text").evaluate_all(
        "all => Math.min(...all.filter(text => text.textContent)"
        ".map(text => parseFloat(getComputedStyle(text).fontSize)))"
    )
    assert smallest >= 11

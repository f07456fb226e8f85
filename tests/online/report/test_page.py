"""The page as text: what is embedded, and what it must not contain."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from trials_by_hand import trial_by_hand

import instances
from instances import Instance, InvalidTypeError, InvalidValueError
from instances.batch_time import AffineTime
from online import simulate
from online.comparison import compare
from online.comparison.bootstrap import ratio_confidence
from online.report import build_report
from online.report.page import DATA_ID, report_data

THREE = Instance.from_arrays([1, 2, 1], [3, 2, 2], [0, 0, 1], memory_limit=7, name="three")
HOSTILE = "</script><script>alert('1') & $title <b>"
RECORDS = [
    trial_by_hand(THREE, "late", 5, "completed", (0, 3, 3), ((1, 0, 1),), (), (0, 0, 2), 8),
    trial_by_hand(
        THREE, HOSTILE, 5, "livelock", None, ((1, 0, 1),), ((0, 1),), None, 7, reason=HOSTILE
    ),
    trial_by_hand(None, "none", 6, "failed", family="other", reason="ValueError: no"),
]


class Page(HTMLParser):
    """Elements, their attributes, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.scripts and self.lasttag == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)


@pytest.fixture(scope="module")
def page() -> str:
    return build_report(RECORDS, title=HOSTILE, note="one & two")


@pytest.fixture(scope="module")
def parsed(page: str) -> Page:
    return Page(page)


def test_the_embedded_json_is_the_records(parsed: Page) -> None:
    (text,) = [text for attributes, text in parsed.scripts if attributes.get("id") == DATA_ID]
    data = json.loads(text)
    assert data == report_data(RECORDS)
    assert data["instances"] == [
        {
            "name": "three",
            "digest": THREE.digest,
            "memory_limit": 7,
            "ids": [0, 1, 2],
            "arrival_times": [0, 0, 1],
            "prompt_lengths": [1, 2, 1],
            "output_lengths": [3, 2, 2],
        }
    ]
    assert data["trials"][0] == {
        "instance": 0,
        "group": "",
        "policy": "late",
        "seed": 5,
        "status": "completed",
        "note": "",
        "unit": "rounds",
        "total_latency": 12,
        "start_times": [0, 3, 3],
        "lost_attempts": [[1, 0, 1]],
        "served": [],
        "optimum": 0,
        "optimum_upper": 8,
        "optimum_lower": 8,
        "compared_with": "optimum",
        "proved": True,
        "ratio": {"text": "1.5000", "lower": 1.5, "upper": 1.5},
        # Of 12 and 8 rounds 7 are output lengths.
        "waiting": 5,
        "optimum_waiting": [1, 1],
        "waiting_ratio": {"text": "5.0000", "lower": 5.0, "upper": 5.0},
    }
    assert data["optima"] == [[0, 0, 2]]
    livelock, failed = data["trials"][1:]
    assert livelock["optimum"] is None
    assert (livelock["policy"], livelock["note"]) == (HOSTILE, HOSTILE)
    assert livelock["served"] == [[0, 1]]
    assert livelock["waiting_ratio"] is livelock["waiting"] is None
    assert livelock["optimum_waiting"] == [0, None]
    assert failed["optimum_waiting"] == [None, None]
    assert livelock["ratio"] is livelock["total_latency"] is livelock["optimum_upper"] is None
    assert (failed["instance"], failed["group"]) == (None, "other")


def test_policies_are_averaged_within_their_group() -> None:
    twice = [
        RECORDS[0],
        trial_by_hand(THREE, "late", 5, "completed", (0, 0, 2), (), (), (0, 0, 2), 8),
    ]
    (row,) = report_data(twice)["policies"]
    assert (row["trials"], row["proved"], row["failed"]) == (2, 2, 0)
    assert (row["mean_ratio"]["text"], row["max_ratio"]["text"]) == ("1.2500", "1.5000")
    assert row["ratio_of_totals"]["text"] == "1.2500"
    assert row["ratio_of_waitings"]["text"] == "3.0000"
    rows = report_data([twice[0], replace(twice[1], family="b")])["policies"]
    assert [(one["group"], one["mean_ratio"]["text"]) for one in rows] == [
        ("", "1.5000"),
        ("b", "1.0000"),
    ]


def test_the_page_refers_to_nothing_outside(page: str, parsed: Page) -> None:
    for tag, attributes in parsed.elements:
        for name in ("src", "srcset", "action", "poster", "data"):
            assert name not in attributes, f"<{tag} {name}={attributes[name]}>"
        assert attributes.get("href") in (None, "data:,")
    styles = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)
    assert styles is not None
    assert "url(" not in styles[1]
    assert "@import" not in styles[1]
    # The name of a namespace is no address, but nothing else is said with slashes.
    rest = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}", rest)
    (rule,) = [
        attributes["content"]
        for tag, attributes in parsed.elements
        if tag == "meta" and "http-equiv" in attributes
    ]
    assert rule is not None
    assert rule.startswith("default-src 'none';")
    assert "http" not in rule


def test_no_name_becomes_markup(page: str, parsed: Page) -> None:
    assert len(parsed.scripts) == 3
    assert "<title>&lt;/script&gt;&lt;script&gt;alert(" in page
    assert "one &amp; two" in page
    assert [tag for tag, _ in parsed.elements].count("b") == 0


def test_equal_records_give_equal_pages(page: str) -> None:
    assert build_report(RECORDS, title=HOSTILE, note="one & two") == page


def test_there_must_be_something_to_report() -> None:
    with pytest.raises(InvalidValueError, match="nothing to report"):
        build_report([])
    with pytest.raises(InvalidTypeError, match="is no Trial"):
        build_report([1])  # type: ignore[list-item]


def test_a_page_tells_what_its_optima_are_of() -> None:
    trace = {"token_scale": 64, "has_arrival_times": True, "round_seconds": 3.2}
    record = trial_by_hand(THREE.with_metadata(trace=trace), "late", 5, "completed", (0, 3, 3))
    page = build_report([record, record], note="one")
    assert page.count("one; bounds are of the rounded instance, not of the log: tokens") == 1
    assert "rounded instance" not in build_report(RECORDS)


def test_ratios_have_confidence_intervals_and_failures_reasons() -> None:
    other = Instance.from_arrays([1, 1], [2, 2], memory_limit=6, name="two")
    records = [*RECORDS, trial_by_hand(other, "late", 5, "completed", (0, 2), (), (), (0, 0), 4)]
    data = report_data(records)
    late = next(row for row in data["policies"] if row["policy"] == "late")
    expected = ratio_confidence([[records[0]], [records[3]]])
    assert [late["mean_confidence"]["text"], late["totals_confidence"]["text"]] == [
        str(interval) for interval in expected
    ]
    assert all(row["mean_confidence"] is None for row in data["policies"] if row is not late)
    assert data["reasons"] == [
        {"group": "", "policy": HOSTILE, "count": 1, "status": "livelock", "reason": HOSTILE},
        {
            "group": "other",
            "policy": "none",
            "count": 1,
            "status": "failed",
            "reason": "ValueError: no",
        },
    ]


def test_the_unit_of_confidence_is_the_draw_where_it_is_told() -> None:
    """Two runs on one draw stay together, and two draws are two though they are equal."""
    starts = ((0, 3, 3), (0, 0, 2), (0, 3, 3))
    drawn = [
        trial_by_hand(THREE, "p", seed, "completed", starts[seed], (), (), (0, 0, 2), 8, draw=draw)
        for seed, draw in enumerate((0, 0, 1))
    ]
    (row,) = report_data(drawn)["policies"]
    one, two, three = drawn
    assert row["mean_confidence"]["text"] == str(ratio_confidence([[one, two], [three]])[0])
    assert report_data(drawn[:2])["policies"][0]["mean_confidence"] is None


def test_policies_that_did_the_same_are_named() -> None:
    same = [trial_by_hand(THREE, name, 5, "completed", (0, 3, 3)) for name in ("mc-sf", "fcfs")]
    assert report_data(same)["notes"] == [
        "mc-sf and fcfs made the same schedules on the only instance"
    ]


def test_a_trial_in_seconds_has_figures_and_no_bands() -> None:
    time = AffineTime(0.5, 0.25)
    (figures,) = compare(THREE, ["fcfs"], batch_time=time, time_limit=0.1)
    data = report_data([figures, figures])
    assert data["units"] == ["seconds"]
    (trial, _), (instance,) = data["trials"], data["instances"]
    assert (instance["name"], instance["requests"], instance["ids"]) == ("three", 3, [])
    assert (trial["start_times"], trial["optimum"]) == (None, None)
    # What is shown holds what is known: bounds are rounded outwards.
    assert trial["optimum_lower"] <= figures.optimum_lower
    assert trial["optimum_upper"] >= figures.optimum_upper
    assert trial["total_latency"] == pytest.approx(float(figures.total_latency or 0), abs=1e-4)


def test_a_page_of_many_trials_is_small() -> None:
    """Nothing is embedded but the records, and each instance and optimum once."""
    drawn = [instances.generate("uniform", seed, n=10) for seed in range(60)]
    records = [
        trial_by_hand(one, f"policy {k}", 0, "completed", starts, (), (), starts, 1)
        for one in drawn
        for starts in [tuple(simulate(one, "fcfs").start_rounds.tolist())]
        for k in range(4)
    ]
    assert len(records) == 240
    assert len(build_report(records).encode()) < 400_000

"""The page as text: what is embedded, and what it must not contain."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from trials_by_hand import trial_by_hand

import instances
from instances import Instance, Request
from online import simulate
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
    assert data == json.loads(json.dumps(report_data(RECORDS)))
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
        "heading": "late on three",
        "verdict": "Ratio 1.5000; of waitings 5.0000; seed 5; optimum 8, proved; 1 evictions",
        "titles": ["late: total latency 12", "hindsight optimum: total latency 8"],
        "start_times": [0, 3, 3],
        "lost_attempts": [[1, 0, 1]],
        "served": [],
        "optimum": 0,
    }
    assert data["optima"] == [[0, 0, 2]]
    livelock, failed = data["trials"][1:]
    assert livelock["optimum"] is None
    assert livelock["heading"] == f"{HOSTILE} on three"
    assert livelock["verdict"].startswith("ended as livelock, seed 5; optimum [7, ?], not proved; ")
    assert livelock["verdict"].endswith(HOSTILE)
    assert livelock["titles"] == [f"{HOSTILE}: livelock", "no schedule of the optimum"]
    assert livelock["served"] == [[0, 1]]
    assert (failed["instance"], failed["group"]) == (None, "other")
    assert failed["heading"] == "none on no instance"
    assert failed["verdict"] == "ended as failed, seed 6; ValueError: no"


def test_the_page_refers_to_nothing_outside(page: str, parsed: Page) -> None:
    for tag, attributes in parsed.elements:
        for name in ("src", "srcset", "action", "poster", "data"):
            assert name not in attributes, f"<{tag} {name}={attributes[name]}>"
        assert attributes.get("href") in (None, "data:,")
    styles = re.search(r"<style>(.*?)</style>", page, flags=re.DOTALL)
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
    assert rule.startswith("default-src 'none';")
    assert "http" not in rule


def test_no_name_becomes_markup(page: str, parsed: Page) -> None:
    assert len(parsed.scripts) == 2
    assert "<title>&lt;/script&gt;&lt;script&gt;alert(" in page
    assert "one &amp; two" in page
    assert [tag for tag, _ in parsed.elements].count("b") == 0


def test_equal_records_give_equal_pages(page: str) -> None:
    assert build_report(RECORDS, title=HOSTILE, note="one & two") == page


def test_a_page_tells_what_its_optima_are_of() -> None:
    trace = {"token_scale": 64, "has_arrival_times": True, "round_seconds": 3.2}
    record = trial_by_hand(THREE.with_metadata(trace=trace), "late", 5, "completed", (0, 3, 3))
    page = build_report([record, record], note="one")
    assert page.count("one; bounds are of the rounded instance, not of the log: tokens") == 1
    assert "rounded instance" not in build_report(RECORDS)


def test_ids_are_shown_only_where_they_are_asked_for() -> None:
    named = Instance([Request(0, 1, 2, "alice"), Request(0, 1, 2, "bob")], memory_limit=6)
    records = [trial_by_hand(named, "late", 5, "completed", (0, 2))]
    assert report_data(records)["instances"][0]["ids"] == [0, 1]
    assert "alice" not in build_report(records)
    assert '"ids":["alice","bob"]' in build_report(records, ids=True)


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

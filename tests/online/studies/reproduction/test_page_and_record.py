from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from instances import FileFormatError, InvalidValueError, UnknownNameError
from online.pictures import new_axes
from online.studies.reproduction import (
    ITEMS,
    Outcome,
    Recorded,
    Reproduction,
    Setting,
    read_recorded,
    record,
    register_reproduction,
    reproduction,
    reproduction_names,
    reproduction_page,
)

DOCS = Path(__file__).resolve().parents[4] / "docs"


def outcome(**changes: object) -> Outcome:
    ax = new_axes()
    ax.plot([1, 2], [3, 4])
    fields = {
        "columns": ["n", "latency"],
        "rows": [[1, 0.1 + 0.2], [2, None]],
        "figure": ax.figure,
        "measured": "0.3 at n = 1.",
        "verdict": "in part",
        "why": "one point only.",
        **changes,
    }
    return Outcome(**fields)  # type: ignore[arg-type]


STUDY = Reproduction("j25-test", "J25", "Figure 3", "0.5 at n = 1.", lambda setting: outcome())


def square(value: int) -> int:
    return value * value


def test_every_item_is_measured_or_says_why_not() -> None:
    measured = {(study.paper, study.item) for study in map(reproduction, reproduction_names())}
    listed = {(item.paper, item.label): item.not_measured for item in ITEMS}
    assert len(listed) == len(ITEMS)
    assert measured == {key for key, reason in listed.items() if not reason}


def test_names_tell_paper_and_item_apart() -> None:
    for name in reproduction_names():
        study = reproduction(name)
        stem = f"{study.paper}-{study.item}".lower().replace(" ", "-").replace(".", "")
        assert name == stem or name.startswith(f"{stem}-")


def test_unknown_and_repeated_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="j25-figure-99"):
        reproduction("j25-figure-99")
    taken = reproduction_names()[0]
    with pytest.raises(InvalidValueError, match="registered already"):
        register_reproduction(taken, "J25", "Figure 3", "")(lambda setting: outcome())


def test_record_writes_data_figure_and_verdict(tmp_path: Path) -> None:
    recorded = record(STUDY, outcome(), Setting(quick=True), tmp_path)
    with (tmp_path / "j25-test.csv").open() as stream:
        assert list(csv.reader(stream)) == [["n", "latency"], ["1", "0.3"], ["2", ""]]
    assert (tmp_path / "j25-test.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "j25-test.svg").read_text()
    assert read_recorded(tmp_path / "j25-test.json") == recorded
    assert recorded.line == (
        "[J25] Figure 3; the paper: 0.5 at n = 1; measured (quick size): 0.3 at n = 1; "
        "in part: one point only."
    )


@pytest.mark.parametrize(
    "damage",
    [
        lambda document: document.pop("why"),
        lambda document: document.update(extra="x"),
        lambda document: document.update(verdict="nearly"),
        lambda document: document.update(measured=3),
    ],
)
def test_other_files_are_refused(tmp_path: Path, damage: object) -> None:
    record(STUDY, outcome(), Setting(), tmp_path)
    path = tmp_path / "j25-test.json"
    document = json.loads(path.read_text())
    damage(document)  # type: ignore[operator]
    path.write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="j25-test.json"):
        read_recorded(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("verdict", "nearly"), ("rows", [[1]]), ("measured", " "), ("why", "two\nlines")],
)
def test_an_outcome_is_checked(field: str, value: object) -> None:
    with pytest.raises(InvalidValueError):
        outcome(**{field: value})


def test_the_page_has_a_row_for_every_item() -> None:
    found = Recorded("j25-test", "J25", "Figure 3", "claim", "figures", "in part", "why", "quick")
    page = reproduction_page([found])
    rows = [line for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) == len(ITEMS) + 4
    assert "[Figure 3](#j25-test)" in page
    assert "reproduce.py j25-test --quick" in page
    assert "1 measurements: 1 in part. 1 of them" in page


def test_the_page_counts_verdicts_best_first_and_mends_sentences() -> None:
    bad = Recorded("j25-b", "J25", "Figure 3", "says.", "5 s.", "not reproduced", "why", "full")
    good = Recorded("j25-a", "J25", "Figure 2", "says", "5 s", "reproduced", "because 1.", "full")
    page = reproduction_page([bad, good])
    assert "2 measurements: 1 reproduced, 1 not reproduced." in page
    assert "| says | 5 s | not reproduced |" in page
    assert "not reproduced.** Why.\n" in page
    assert "reproduced.** Because 1.\n" in page


def test_the_page_in_docs_is_that_of_the_verdicts_beside_it() -> None:
    verdicts = sorted((DOCS / "reproduction").glob("*.json"))
    page = reproduction_page([read_recorded(path) for path in verdicts])
    assert (DOCS / "reproduction.md").read_text(encoding="utf-8") == page
    assert {path.stem for path in verdicts} == set(reproduction_names())


def test_map_keeps_the_order_on_any_number_of_processes() -> None:
    seen: list[tuple[int, int]] = []
    setting = Setting(jobs=2, progress=lambda done, total: seen.append((done, total)))
    assert setting.map(square, range(4)) == [0, 1, 4, 9]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert Setting().map(square, range(4)) == [0, 1, 4, 9]

"""Tables of docs/library.md, and its data are of the library as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import instances
from instances import RecordStore
from online.leaderboard.scores import Score, read_scores, registered
from studies.library.gap_figure import gap_figure, series
from studies.library.page import (
    INSTANCES,
    SCORES,
    VERSIONS,
    library_tables,
    measured_library_tables,
)
from studies.library.summary import Known, instances_csv
from studies.library.surprises import TEXTS
from studies.library.versions import VersionRow, read_rows, sample

DATA = Path(__file__).resolve().parents[4] / "docs" / "library"


@pytest.fixture(scope="module")
def known() -> Known:
    return Known.of(instances.library(), RecordStore())


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    return read_scores(DATA / SCORES, instances.library())


def test_the_page_has_every_set_and_policy(known: Known, scores: list[Score]) -> None:
    page = measured_library_tables(DATA)
    assert page == library_tables(known, scores, read_rows(DATA / VERSIONS))
    first_cells = {line.split("|")[1].strip() for line in page.splitlines() if line[:2] == "| "}
    assert {f"`{one.name}`" for one in known.library.sets} <= first_cells
    assert {score.policy for score in scores} <= first_cells


def test_the_table_of_instances_is_of_the_records(known: Known) -> None:
    """Otherwise: python scripts/library_summary.py."""
    assert (DATA / INSTANCES).read_text(encoding="utf-8") == instances_csv(known)


def test_every_policy_was_played_on_every_instance(scores: list[Score]) -> None:
    """Otherwise: llm-hindsight library leaderboard --scores docs/library/leaderboard.csv."""
    played = {(score.instance, score.policy) for score in scores}
    library = instances.library()
    assert played == {
        (one.name, spec.label)
        for one in library
        for spec in registered(deadlines=one.level is not None)
    }


def test_every_version_was_measured_on_the_whole_sample() -> None:
    """Beside the rows that are kept, there may be none, one that lacks an instance."""
    missing, *others = (entry.name for entry in sample(instances.library()))
    short = VersionRow("short", "2026-11-22", "here", 10.0, dict.fromkeys(others, (1, 2)))
    rows = [*read_rows(DATA / VERSIONS), short]
    partial = [row.label for row in rows if set(row.bounds) != {missing, *others}]
    assert partial == ["short"]


def test_a_version_is_a_row_of_mean_gaps(known: Known, scores: list[Score]) -> None:
    bounds = {one.name: (100 if one.set == "c25" else 90, 100) for one in sample(known.library)}
    row = VersionRow("9.9", "2026-11-22", "here", 10.0, bounds)
    page = library_tables(known, scores, [row])
    (line,) = [line for line in page.splitlines() if line.startswith("| 9.9 ")]
    gaps = [cell.strip() for cell in line.strip("| ").split("|")]
    closed = sum(name.startswith("c25") for name in bounds)
    mean = 10 * (len(bounds) - closed) / len(bounds)
    assert gaps[1:7] == ["10.00 %"] * 3 + ["0.00 %"] + ["10.00 %"] * 2
    assert float(gaps[7].removesuffix(" %")) == pytest.approx(mean, abs=0.0101)
    assert gaps[8:] == [str(closed), "10", "2026-11-22", "here"]


def test_numbers_of_the_explanations_are_filled_in(known: Known, scores: list[Score]) -> None:
    page = library_tables(known, scores, [])
    assert ("### What surprises" in page) == bool(TEXTS)
    assert "{" not in page.split("## Every policy")[1].split("## What each version")[0]


def test_every_record_is_drawn(known: Known) -> None:
    figure = gap_figure(known)
    drawn = sum(len(line.get_xdata()) for ax in figure.axes for line in ax.lines)
    assert drawn == len(known.records)
    assert series("azure-code") == series("azure-conv") == "azure"

"""docs/library.md is what its data give, and its data are of the library as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import instances
import online
from instances import RecordStore
from online.leaderboard import Score, read_scores
from online.studies.library.gap_figure import gap_figure, series
from online.studies.library.page import INSTANCES, SCORES, VERSIONS, library_page
from online.studies.library.summary import Known, instances_csv, percent
from online.studies.library.surprises import TEXTS
from online.studies.library.versions import read_rows, sample

DOCS = Path(__file__).resolve().parents[4] / "docs"
DATA = DOCS / "library"


@pytest.fixture(scope="module")
def known() -> Known:
    return Known.of(instances.library(), RecordStore())


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    return read_scores(DATA / SCORES, instances.library())


def test_the_page_is_what_its_data_give(known: Known, scores: list[Score]) -> None:
    """Otherwise: python scripts/library_page.py."""
    page = library_page(known, scores, read_rows(DATA / VERSIONS))
    assert (DOCS / "library.md").read_text(encoding="utf-8") == page
    assert (DATA / INSTANCES).read_text(encoding="utf-8") == instances_csv(known)


def test_every_policy_was_played_on_every_instance(scores: list[Score]) -> None:
    """Otherwise: llm-hindsight library leaderboard --scores docs/library/leaderboard.csv."""
    played = {(score.instance, score.policy) for score in scores}
    library = instances.library()
    assert played == {(one.name, policy) for one in library for policy in online.policy_names()}


def test_every_version_was_measured_on_the_whole_sample() -> None:
    names = {entry.name for entry in sample(instances.library())}
    for row in read_rows(DATA / VERSIONS):
        assert set(row.bounds) == names, row.label


def test_numbers_of_the_explanations_are_filled_in(known: Known, scores: list[Score]) -> None:
    page = library_page(known, scores, [])
    assert ("### Three surprises" in page) == bool(TEXTS)
    assert "{" not in page.split("## Every policy")[1].split("## What each version")[0]


def test_every_record_is_drawn(known: Known) -> None:
    figure = gap_figure(known)
    drawn = sum(len(line.get_xdata()) for ax in figure.axes for line in ax.lines)
    assert drawn == len(known.records)
    assert series("azure-code") == series("azure-conv") == "azure"


@pytest.mark.parametrize(
    ("share", "told"), [(0, "0.00 %"), (1e-12, "0.01 %"), (0.0123, "1.23 %"), (0.01231, "1.24 %")]
)
def test_only_a_closed_gap_reads_nothing(share: float, told: str) -> None:
    assert percent(share) == told

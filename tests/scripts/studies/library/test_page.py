"""Tables of docs/library.md, and its data are of the library as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import instances
from instances import RecordStore
from studies.library.gap_figure import gap_figure, series
from studies.library.page import INSTANCES, SCORES, library_tables, measured_library_tables
from studies.library.scores import Score, read_scores, registered
from studies.library.summary import Known, instances_csv

DATA = Path(__file__).resolve().parents[4] / "docs" / "library"


@pytest.fixture(scope="module")
def known() -> Known:
    return Known.of(instances.library(), RecordStore())


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    return read_scores(DATA / SCORES, instances.library())


def test_the_page_has_every_set_and_policy(known: Known, scores: list[Score]) -> None:
    page = measured_library_tables(DATA)
    assert page == library_tables(known, scores)
    first_cells = {line.split("|")[1].strip() for line in page.splitlines() if line[:2] == "| "}
    assert {f"`{one.name}`" for one in known.library.sets} <= first_cells
    assert {score.policy for score in scores} <= first_cells


def test_the_table_of_instances_is_of_the_records(known: Known) -> None:
    """Otherwise: python scripts/library.py summary."""
    assert (DATA / INSTANCES).read_text(encoding="utf-8") == instances_csv(known)


@pytest.mark.slow
def test_every_policy_was_played_on_every_instance(scores: list[Score]) -> None:
    """Otherwise: python scripts/library.py score."""
    played = {(score.instance, score.policy) for score in scores}
    library = instances.library()
    assert played == {
        (one.name, spec.label)
        for one in library
        for spec in registered(deadlines=one.level is not None)
    }


def test_every_record_is_drawn(known: Known) -> None:
    figure = gap_figure(known)
    drawn = sum(len(line.get_xdata()) for ax in figure.axes for line in ax.lines)
    assert drawn == len(known.records)
    assert series("azure-code") == series("azure-conv") == "azure"

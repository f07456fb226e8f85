"""What versions prove: held against the records, kept as rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import instances
from instances import FileFormatError, InvalidValueError, LibraryEntry, Record, RecordStore
from instances.catalogue.records import Credit
from studies.library.versions import (
    SETS,
    VersionRow,
    check_against_records,
    put_row,
    read_rows,
    sample,
)

NAME = "j25-m1-n10-00"
ROW = VersionRow("9.9", "2026-11-22", "here", 10.0, {NAME: (80, 100), "j25-m1-n10-01": (50, 50)})


def test_rows_replace_those_of_their_label(tmp_path: Path) -> None:
    path = tmp_path / "versions.json"
    assert read_rows(path) == []
    other = replace(ROW, label="10.0")
    better = replace(ROW, bounds={NAME: (90, 100)})
    for row in (ROW, other, better):
        put_row(path, row)
    assert read_rows(path) == [better, other]


@pytest.mark.parametrize(
    "text",
    [
        '{"format": "other"}',
        '{"format": "llm-hindsight/library-versions", "version": 2}',
        '{"format": "llm-hindsight/library-versions", "version": 1, "rows": [{"label": "x"}]}',
        "[",
    ],
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "versions.json"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=r"versions\.json"):
        read_rows(path)


class Store(RecordStore):
    """One instance's interval is known."""

    def __init__(self, lower: int, upper: int) -> None:
        super().__init__()
        self.known = (lower, upper)

    def record(self, entry: object) -> Record | None:
        if not isinstance(entry, LibraryEntry) or entry.name != NAME:
            return None
        credit = Credit("2026-11-22", "by hand", "0")
        lower, upper = self.known
        return Record(entry, upper, {"start_times": []}, credit, lower, "by hand", credit)


@pytest.mark.parametrize(
    ("known", "fits"), [((70, 90), True), ((101, 105), False), ((60, 79), False)]
)
def test_proved_intervals_cannot_part(known: tuple[int, int], fits: bool) -> None:
    if fits:
        check_against_records(ROW, instances.library(), Store(*known))
        return
    with pytest.raises(InvalidValueError, match=NAME):
        check_against_records(ROW, instances.library(), Store(*known))


def test_the_sample_is_of_every_set_and_takes_minutes() -> None:
    chosen = sample(instances.library())
    assert {entry.set for entry in chosen} == set(SETS)
    assert {entry.goal for entry in chosen} == {"total_latency"}
    assert 40 <= len(chosen) <= 60

"""Records of small instances of the library, without a solver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hindsight import best_list_schedule, make_certificate
from hindsight.records.improvement import compressed
from hindsight.records.verification import certified_bound, closed_form_bound
from instances import LibraryEntry, Record, RecordStore, library
from instances.catalogue import records
from instances.catalogue.records import rounds_of


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package without records, but for those that a test puts there."""
    folder = tmp_path / "package"
    monkeypatch.setattr(records, "PACKAGE", folder)
    return folder


OPEN = "worst-n7-00"
"""An instance whose memory prices prove less than its optimum."""

CREDIT = ("2026-01-01", "by hand", "0")
"""Date, method and version."""


def listed_record(store: RecordStore, name: str = OPEN) -> tuple[LibraryEntry, Record]:
    """A list schedule and memory prices, put into the store."""
    entry = library()[name]
    schedule = best_list_schedule(entry.instance)
    document = make_certificate(schedule, None)
    lower, proof = certified_bound(entry, document)
    upper = schedule.total_latency
    record = Record(entry, upper, rounds_of(schedule), lower, proof, *CREDIT)
    return entry, store.put(record, compressed(document))


def bare_record(store: RecordStore, name: str = OPEN) -> tuple[LibraryEntry, Record]:
    """A list schedule and the output lengths."""
    entry = library()[name]
    schedule = best_list_schedule(entry.instance)
    lower, proof = closed_form_bound(entry)
    upper = schedule.total_latency
    record = Record(entry, upper, rounds_of(schedule), lower, proof, *CREDIT)
    return entry, store.put(record)


def records_file(folder: Path, name: str = OPEN) -> Path:
    """Where the record of an instance is."""
    return folder / "records" / f"{library()[name].set}.json"


def change(folder: Path, name: str = OPEN, **entries: Any) -> None:
    """Change the record of an instance in its file."""
    path = records_file(folder, name)
    document = json.loads(path.read_text("utf-8"))
    document["records"][name] |= entries
    path.write_text(json.dumps(document), "utf-8")

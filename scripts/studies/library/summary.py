"""Tables of the records of the library: by set, by number of requests, and for each instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hindsight.outcomes.result import percent
from instances import Library, LibraryEntry, LibrarySet, Record, RecordStore
from instances.files import csv_text
from online.tables import Table
from studies.library.gaps import median_gap, open_gaps

from .standings import COMPARED_WITH

SIZES = ((1, 12), (13, 25), (26, 50), (51, 100), (101, 2000))
"""Least and largest number of requests of each column."""

COLUMN = ".2f"
"""Format of gaps in a column."""

INSTANCE_COLUMNS = (
    *("instance", "set", "n", "memory_limit", "goal", "batch_time", "lower_bound", "upper_bound"),
    *("gap", "status", "proof", "certificate", "method", "date", "version", "digest"),
)


@dataclass(frozen=True)
class Known:
    """The library of instances, with the record of each instance.

    Attributes
    ----------
    library : Library
        The instances.
    records : dict[str, Record]
        Records by name of the instance. Instances without a record are left out.
    """

    library: Library
    records: dict[str, Record]

    @classmethod
    def of(cls, library: Library, store: RecordStore) -> Known:
        """Return the library with the records of a store."""
        found = {entry.name: store.record(entry) for entry in library}
        return cls(library, {name: one for name, one in found.items() if one is not None})

    def of_entries(self, entries: Sequence[LibraryEntry]) -> list[Record]:
        """Return the records of these entries. Entries without a record are left out."""
        return [self.records[one.name] for one in entries if one.name in self.records]


def sets_table(known: Known) -> Table:
    """Return a table with a row for each set: its instances, how many are closed, and gaps."""
    columns = (
        *("set", "what", "compared with", "instances", "n", "closed"),
        *("median gap of the open", "widest"),
    )
    rows = tuple(_set_row(one, known.of_entries(one.entries)) for one in known.library.sets)
    everything = known.of_entries([*known.library])
    last = ("all", "", "", str(len(known.library)), "", *_gap_cells(everything))
    return Table("", columns, (*rows, last), frozenset({"set", "what", "compared with"}))


def sources(library: Library) -> list[str]:
    """Return lines with the origin and the licence of the sets. Equal ones share a line."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in library.sets:
        counts = Counter((entry.source, entry.licence) for entry in one.entries)
        for told, count in counts.items():
            part = "" if count == len(one) else f" ({count} of {len(one)})"
            found.setdefault(told, []).append(f"`{one.name}`{part}")
    return [f"{', '.join(names)}: {told[0]}. {told[1]}." for told, names in found.items()]


def _set_row(one: LibrarySet, records: Sequence[Record]) -> tuple[str, ...]:
    sizes = [entry.n for entry in one.entries]
    goals = dict.fromkeys(COMPARED_WITH[entry.goal] for entry in one.entries)
    return (
        *(f"`{one.name}`", one.title, ", ".join(goals), str(len(one.entries))),
        *(f"{min(sizes)} to {max(sizes)}", *_gap_cells(records)),
    )


def _gap_cells(records: Sequence[Record]) -> tuple[str, ...]:
    gaps = open_gaps(records)
    widest = percent(max(gaps), COLUMN) if gaps else "-"
    return str(len(records) - len(gaps)), median_gap(records), widest


def sizes_table(known: Known) -> Table:
    """Return a table by set and number of requests: how many of the instances are closed.

    A cell also has the median gap of the open instances.
    """
    columns = ("set", *(f"n {first} to {last}" for first, last in SIZES))
    rows = []
    for one in known.library.sets:
        cells = []
        for first, last in SIZES:
            entries = [entry for entry in one.entries if first <= entry.n <= last]
            records = known.of_entries(entries)
            closed = len(records) - len(open_gaps(records))
            told = "; ".join(filter(None, (f"{closed} of {len(entries)}", median_gap(records, ""))))
            cells.append(told if entries else "")
        rows.append((f"`{one.name}`", *cells))
    return Table("", columns, tuple(rows), frozenset({"set"}))


def instances_csv(known: Known) -> str:
    """Return CSV with a line for each instance. Cells are empty if the instance has no record."""
    rows: list[tuple[object, ...]] = [INSTANCE_COLUMNS]
    for entry in known.library:
        what = (entry.name, entry.set, entry.n, entry.instance.memory_limit, entry.goal)
        cells = _record_cells(known.records.get(entry.name))
        rows.append((*what, entry.batch_time, *cells, entry.digest))
    return csv_text(rows)


def _record_cells(record: Record | None) -> tuple[object, ...]:
    if record is None:
        return (None,) * 9
    return (
        *(record.lower_bound, record.upper_bound, f"{record.gap:.6f}", record.status),
        *(record.proof, "yes" if record.certified else "no", record.method, record.date),
        record.version,
    )

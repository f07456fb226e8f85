"""Bounds that each version of this package proves for a library sample in a fixed time."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instances import FileFormatError, InvalidValueError, Library, LibraryEntry, RecordStore
from instances.files import parse_json, read_bytes, write_atomically
from instances.validation import as_integer, as_name, as_number

FORMAT = "llm-hindsight/library-versions"
VERSION = 1

SETS = ("j25-m1", "j25-m2", "w25", "c25", "azure-code", "azure-conv")
FEWEST, MOST = 20, 100
"""Requests of the sample's instances."""


@dataclass(frozen=True)
class VersionRow:
    """Bounds that a version proves.

    Attributes
    ----------
    label : str
        The version, and what tells it from others of that number.
    date, machine : str
        When and where it was measured.
    seconds : float
        For each instance.
    bounds : Mapping[str, tuple[int, int]]
        Certified lower bound and best total latency, by instance.
    """

    label: str
    date: str
    machine: str
    seconds: float
    bounds: Mapping[str, tuple[int, int]]

    def gaps(self, names: Sequence[str]) -> list[float]:
        """(upper - lower) / upper of each."""
        return [(upper - lower) / upper for lower, upper in (self.bounds[one] for one in names)]


def sample(library: Library) -> list[LibraryEntry]:
    """The first instance of each family and size, of `FEWEST` to `MOST` requests, in `SETS`."""
    return [
        entry
        for entry in library
        if entry.set in SETS and FEWEST <= entry.n <= MOST and entry.name.endswith("-00")
    ]


def check_against_records(row: VersionRow, library: Library, store: RecordStore) -> None:
    """Hold what was measured against what is known: both are proved, so they cannot part.

    Raises
    ------
    InvalidValueError
        They do.
    """
    for name, (lower, upper) in row.bounds.items():
        record = store.record(library[name])
        least, most = (upper, lower) if record is None else (record.lower_bound, record.upper_bound)
        if not (lower <= most and least <= upper and lower <= upper):
            reason = f"does not go with the record of {name}, [{least}, {most}]"
            raise InvalidValueError(row.label, "bounds", [lower, upper], reason)


def read_rows(path: str | os.PathLike[str]) -> list[VersionRow]:
    """The rows of a file; none where there is no file.

    Raises
    ------
    FileFormatError
        It is no such file.
    """
    if not Path(path).exists():
        return []
    document = parse_json(read_bytes(path), path)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FileFormatError(path, f"its format is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise FileFormatError(path, f"version is {document.get('version')!r}, not {VERSION}")
    try:
        return [_row(row) for row in document["rows"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FileFormatError(path, f"is no list of versions: {error}") from error


def _row(row: Mapping[str, Any]) -> VersionRow:
    label = as_name(row["label"], "version", "label")
    bounds = {
        str(name): (
            as_integer(lower, label, "lower bound", minimum=0),
            as_integer(upper, label, "upper bound", minimum=1),
        )
        for name, (lower, upper) in row["bounds"].items()
    }
    seconds = as_number(row["seconds"], label, "seconds", above=0)
    return VersionRow(label, str(row["date"]), str(row["machine"]), seconds, bounds)


def put_row(path: str | os.PathLike[str], row: VersionRow) -> None:
    """Write a row in the place of that of its label, or at the end.

    Raises
    ------
    OSError, FileFormatError
        The file cannot be written, or is another.
    """
    rows = {one.label: one for one in read_rows(path)} | {row.label: row}
    texts = [json.dumps({**vars(one), "bounds": dict(one.bounds)}) for one in rows.values()]
    head = json.dumps({"format": FORMAT, "version": VERSION})
    write_atomically(path, f'{head[:-1]}, "rows": [\n' + ",\n".join(texts) + "\n]}\n")

"""Detection of a log's format; errors that list the columns of a file of unknown format."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from instances.errors import FileFormatError
from instances.settings import quoted

from .cells import as_numbers
from .formats import FORMATS, Format

MOST_TRIED = 100
"""Records used to detect the format; more than one, as the first requests may have failed."""

LONGEST_LIST = 1000
"""Most characters of a file's list of columns in an error message."""

DEEPEST_LISTED = 4
"""Most levels of nested JSON keys that an error message lists as columns."""


def format_of(
    path: object,
    wanted: Format | None,
    header: Sequence[str],
    chunk: tuple[Sequence[int], list[Any]],
    columns: Mapping[str, Any],
) -> Format:
    """Choose the format of a log file, and check that the file has the format's columns.

    Parameters
    ----------
    path : object
        Name of the file in error messages.
    wanted : Format or None
        The format that the user asks for; None detects it.
    header : sequence of str
        Names of the columns of a table; empty for JSON.
    chunk : tuple[Sequence[int], list]
        The first records: their line numbers, or positions in a JSON list, and the records.
    columns : Mapping[str, Any]
        The user's choice of columns by role, of which only ``"worker"`` is used here: it may
        be added to any format.

    Raises
    ------
    FileFormatError
        No format fits, several fit, a column is missing, or two columns have one name. The message
        suggests what to type.
    """
    numbers, tried = chunk
    records = [one for one in tried[:MOST_TRIED] if isinstance(one, dict)]
    if header:
        records.insert(0, dict.fromkeys(header, ""))
    elif tried and not records:
        raise FileFormatError(path, tried[0].message, row=numbers[0])
    kind = wanted or _detected(path, [one for one in records if one])
    if "worker" in columns:
        kind = kind._replace(columns={**kind.columns, "worker": (columns["worker"],)})
    for mark in kind.missing(records):
        raise _unknown(path, records, f"column {mark!r} is missing")
    for name in {name for names in kind.columns.values() for name in names}:
        if header.count(name) > 1:
            raise FileFormatError(path, f"column {name!r} is there twice")
    return kind


def _detected(path: object, records: Sequence[dict[str, Any]]) -> Format:
    """Return the only format whose columns the records have; raise an error if none or several."""
    if not records:
        raise FileFormatError(path, "has no record with fields")
    found = [kind for kind in FORMATS.values() if not all(kind.missing([one]) for one in records)]
    most = max((len(one.marks) for one in found), default=0)
    found = [one for one in found if len(one.marks) == most]
    if len(found) == 1:
        return found[0]
    several = f"fits several formats: give {' or '.join(f'format={one.name}' for one in found)}"
    raise _unknown(path, records, several if found else "fits no format")


def _unknown(path: object, records: Sequence[dict[str, Any]], why: str) -> FileFormatError:
    """Make the error for a file of unknown format.

    Its message has the reason, the columns, each as the user can type it, and the text to type as a
    source of requests: ``trace:FILE(role=column, ...)``.
    """
    seen = [*dict.fromkeys(one for record in records for one in _paths(record))]
    if len(seen) > 1 and 2 * np.isfinite(as_numbers(seen)).sum() > len(seen):
        return FileFormatError(path, "has no header line: names of columns come before its rows")
    listed = textwrap.shorten(", ".join(map(quoted, seen)), LONGEST_LIST, placeholder="...")
    line = shlex.quote(f"trace:{path}(arrival=NAME, prompt=NAME, output=NAME)")
    reason = f"{why}; its columns are {listed or 'none'}; type {line}, with a column for each NAME"
    return FileFormatError(path, reason)


def _paths(record: Mapping[str, Any], before: str = "", depth: int = 1) -> Iterator[str]:
    """Yield the path of each value of a nested record, such as ``usage.prompt_tokens``."""
    for key, value in record.items():
        path = before + str(key).replace(".", "\\." if before or isinstance(value, dict) else ".")
        if isinstance(value, dict) and value and depth < DEEPEST_LISTED:
            yield from _paths(value, f"{path}.", depth + 1)
        else:
            yield path

"""Telling which of the known formats a file has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError

from .columns import format_of
from .formats import FORMATS
from .trace_format import ABSENT, Container, TraceFormat, lookup

MOST_LISTED = 30
"""Columns of a file that an error lists."""

MAP_COLUMNS = (
    "say which column holds what with columns (in a command FILE(arrival=NAME, prompt=NAME, "
    "output=NAME))"
)


def format_named(name: Any) -> TraceFormat:
    """The format of that name.

    Raises
    ------
    InvalidTypeError
        Not a string.
    UnknownNameError
        No such format.
    """
    if not isinstance(name, str):
        raise InvalidTypeError(None, "format", name, "is not a string")
    if name not in FORMATS:
        raise UnknownNameError("trace format", name, sorted(FORMATS))
    return FORMATS[name]


def wanted_format(format: Any, columns: Mapping[str, str] | None) -> TraceFormat | None:  # noqa: A002
    """What a file is to be read as; None tells it from the columns.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        See `format_named` and `format_of`; or both are given.
    """
    if columns is None:
        return None if format is None else format_named(format)
    if format is not None:
        raise InvalidValueError(None, "format", format, "and columns say two things: give one")
    return format_of(columns)


def fits(format: TraceFormat, record: Mapping[str, Any]) -> bool:  # noqa: A002
    """Whether a record has what every one of this format has."""
    return all(
        lookup(record, *column.split("|"), missing=ABSENT) is not ABSENT
        for column in format.required
    )


def fitting(container: Container, record: Mapping[str, Any]) -> list[TraceFormat]:
    """The formats of rows of this kind that a record is of."""
    return [one for one in FORMATS.values() if one.container == container and fits(one, record)]


def detect_format(path: Any, container: Container, record: Mapping[str, Any]) -> TraceFormat:
    """The format whose columns a file has.

    Where none fits, but just one shares a column with the file, it is that one with a column
    missing, and the reader says which.

    Parameters
    ----------
    path : Any
        What errors call the file.
    container : Literal[csv, json, document]
        What kind of rows it has.
    record : Mapping[str, Any]
        One of them, or a table's columns.

    Raises
    ------
    FileFormatError
        No format or several fit; the message says what can be done.
    """
    if not record:
        raise FileFormatError(path, "holds no record that has fields")
    alike = [one for one in FORMATS.values() if one.container == container]
    found = fitting(container, record)
    if not found:
        found = [one for one in alike if set(one.read) & set(record)]
    if len(found) != 1:
        if container == "json":
            alike = [one for one in FORMATS.values() if one.container != "csv"]
        known = "; ".join(f"{one.name}: {', '.join(one.required)}" for one in alike)
        how_many = "several formats" if found else "no format"
        way_out = "name one with format=" if found else MAP_COLUMNS
        raise FileFormatError(
            path, f"the columns ({listed(record)}) fit {how_many} ({known}); {way_out}"
        )
    return found[0]


def listed(columns: Collection[str]) -> str:
    """The columns of a file, for a message: not all of a thousand."""
    shown = ", ".join(list(columns)[:MOST_LISTED]) or "none"
    return f"{shown}, ... {len(columns)} in all" if len(columns) > MOST_LISTED else shown

"""The formats that are known, and telling which one a file has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError
from instances.generators.registry import UnknownNameError

from .azure import AZURE
from .burstgpt import BURSTGPT
from .columns import format_of
from .mooncake import MOONCAKE
from .row import TraceFormat
from .vidur import VIDUR

MOST_LISTED = 30
"""Columns of a file that an error lists."""

MAP_COLUMNS = (
    "say which column holds what with columns (--column arrival=NAME --column prompt=NAME "
    "--column output=NAME)"
)

FORMATS: dict[str, TraceFormat] = {one.name: one for one in (AZURE, BURSTGPT, MOONCAKE, VIDUR)}


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


def detect_format(
    path: Any, container: Literal["csv", "jsonl"], columns: Collection[str]
) -> TraceFormat:
    """The format whose columns a file has.

    Where none fits, but just one shares a column with the file, it is that one with a column
    missing, and the reader says which.

    Raises
    ------
    FileFormatError
        No format or several fit; the message says what can be done.
    """
    alike = [one for one in FORMATS.values() if one.container == container]
    fitting = [one for one in alike if all(column in columns for column in one.required)]
    if not fitting:
        fitting = [one for one in alike if set(one.read) & set(columns)]
    if len(fitting) != 1:
        known = "; ".join(f"{one.name}: {', '.join(one.required)}" for one in alike)
        how_many = "several formats" if fitting else "no format"
        way_out = "name one with format (--trace-format)" if fitting else MAP_COLUMNS
        raise FileFormatError(
            path, f"the columns ({listed(columns)}) fit {how_many} ({known}); {way_out}"
        )
    return fitting[0]


def listed(columns: Collection[str]) -> str:
    """The columns of a file, for a message: not all of a thousand."""
    shown = ", ".join(list(columns)[:MOST_LISTED]) or "none"
    return f"{shown}, ... {len(columns)} in all" if len(columns) > MOST_LISTED else shown

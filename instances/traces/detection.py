"""Choose the format of a file: one by name, columns mapped by the user, or the one detected."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError

from .formats import FORMATS
from .row import Clock, Measured, any_clock, as_duration, clock_of
from .trace_format import ABSENT, Container, TraceFormat, lookup

NO_ERROR = ("", "0", "0.0", "false", "none", "null", "nan", "[]", "{}")
"""Cells of a column of errors that mean that there was none."""

CLOCKS: dict[str, Callable[[], Clock]] = {
    "arrival": any_clock,
    "arrival_ms": clock_of(10**3),
    "arrival_us": clock_of(10**6),
    "arrival_ns": clock_of(10**9),
}
"""Clocks by the role of a column of arrivals: seconds or dates, or parts of a second."""

MEASUREMENTS = {
    "latency": "latency",
    "time_to_first_token": "time_to_first_token",
    "inter_token_time": "mean_inter_token_time",
}
"""Fields of `Measured` by the role of their column, which is in seconds or ends in ``_ms``."""

_DURATIONS = [f"{name}{unit}" for name in MEASUREMENTS for unit in ("", "_ms")]
ROLES = (*CLOCKS, "prompt", "output", *_DURATIONS, "error", "worker")

MOST_LISTED = 30
"""Columns of a file that an error lists."""

LONGEST_LISTED = 40
"""Characters of a column's name that an error repeats."""

MAP_COLUMNS = (
    "say which column holds what with columns (in a command FILE(arrival=NAME, prompt=NAME, "
    "output=NAME))"
)


def format_of(columns: Mapping[str, str]) -> TraceFormat:
    """Make a format of columns that are named by the user.

    Parameters
    ----------
    columns : Mapping[str, str]
        ``{"arrival": ..., "prompt": ..., "output": ...}``, the first may be missing (all arrive at
        once), or ``"arrival_ms"``, ``"arrival_us"`` or ``"arrival_ns"``. In JSON lines a name may
        be a path, as in ``"usage.prompt_tokens"``. What the log measured may be named too:
        ``"latency"``, ``"time_to_first_token"``, ``"inter_token_time"`` (the mean), each in seconds
        or with ``_ms``; ``"error"``, which is empty, 0 or false where a request succeeded; and
        ``"worker"``, the replica that served it.

    Raises
    ------
    InvalidTypeError
        Not a mapping of names.
    UnknownNameError
        Something else is to be read.
    InvalidValueError
        Two columns of arrivals or of one measurement, or no prompts or outputs.
    """
    if not isinstance(columns, Mapping):
        raise InvalidTypeError(None, "columns", columns, "is not a mapping")
    chosen: dict[str, Any] = {str(role).replace("-", "_"): name for role, name in columns.items()}
    kinds: dict[str, str] = {}
    for role, name in chosen.items():
        if role not in ROLES:
            raise UnknownNameError("column role", role, list(ROLES))
        if not isinstance(name, str):
            raise InvalidTypeError("columns", role, name, "is not the name of a column")
        kind = "arrivals" if role in CLOCKS else role.removesuffix("_ms")
        if kind in kinds:
            reason = f"names two columns of {kind}"
            raise InvalidValueError(None, "columns", dict(columns), reason)
        kinds[kind] = role
    for role in ("prompt", "output"):
        if role not in chosen:
            reason = f"does not say which column holds {role}s"
            raise InvalidValueError(None, "columns", dict(columns), reason)
    arrival, error = kinds.get("arrivals"), chosen.get("error")
    units = {
        MEASUREMENTS[kind]: (chosen[role], 1e-3 if role.endswith("_ms") else 1.0)
        for kind, role in kinds.items()
        if kind in MEASUREMENTS
    }

    further = [error, chosen.get("worker"), *[column for column, _ in units.values()]]

    def has_failed(record: dict[str, Any]) -> bool:
        return str(lookup(record, str(error))).strip().lower() not in NO_ERROR

    def measured(record: dict[str, Any]) -> Measured:
        found: dict[str, Any] = {name: _text_duration(record, *at) for name, at in units.items()}
        return Measured(**found)

    return TraceFormat(
        name="columns",
        source="columns named by the user",
        container=None,
        time=chosen[arrival] if arrival else None,
        prompt=chosen["prompt"],
        output=chosen["output"],
        new_clock=CLOCKS[arrival or "arrival"],
        has_failed=has_failed if error is not None else None,
        measured=measured if units else None,
        further=tuple(column for column in further if column is not None),
        worker=chosen.get("worker"),
    )


def _text_duration(record: Any, name: str, seconds: float) -> float | None:
    """Read a duration that may be text, as the cells of a table are; None where it is blank."""
    value = lookup(record, name)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, (str, Decimal)):
        try:
            # Python reads 1_0 as 10.
            value = float(str(value).replace("_", "x"))
        except ValueError:
            raise InvalidTypeError(None, name, value, "is not a number") from None
    return as_duration(value, name) * seconds


def wanted_format(format: Any, columns: Mapping[str, str] | None) -> TraceFormat | None:  # noqa: A002
    """Choose the format that the caller asks for; None leaves it to `detect_format`.

    Columns that name the worker only do not make a format.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        No name of a format, columns that `format_of` refuses, or both are given.
    """
    if isinstance(columns, Mapping) and [*columns] == ["worker"]:
        if not isinstance(columns["worker"], str):
            name = columns["worker"]
            raise InvalidTypeError("columns", "worker", name, "is not the name of a column")
        columns = None
    if columns is not None and format is not None:
        raise InvalidValueError(None, "format", format, "and columns say two things: give one")
    if columns is not None:
        return format_of(columns)
    if format is None:
        return None
    if not isinstance(format, str):
        raise InvalidTypeError(None, "format", format, "is not a string")
    if format not in FORMATS:
        raise UnknownNameError("trace format", format, sorted(FORMATS))
    return FORMATS[format]


def with_worker(format: TraceFormat, worker: str | None) -> TraceFormat:  # noqa: A002
    """The format, with the replica of a request in the column ``worker`` unless that is None."""
    return format if worker is None else replace(format, worker=worker)


def fits(format: TraceFormat, record: Mapping[str, Any]) -> bool:  # noqa: A002
    """Tell whether a record has every field that this format requires."""
    return all(
        lookup(record, *column.split("|"), missing=ABSENT) is not ABSENT
        for column in format.required
    )


def fitting(container: Container, record: Mapping[str, Any]) -> list[TraceFormat]:
    """List the formats of this container that a record fits."""
    return [one for one in FORMATS.values() if one.container == container and fits(one, record)]


def detect_format(path: Any, container: Container, record: Mapping[str, Any]) -> TraceFormat:
    """Detect the format whose columns a file has.

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
        # Tables of logs have columns that any table may have.
        alike_tables = [one for one in alike if container != "csv" or not one.is_log]
        found = [one for one in alike_tables if set(one.read) & set(record)]
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
    """List the columns of a file in a message, the first `MOST_LISTED` only.

    Names are cut: in a file without a header they are cells of its first row.
    """
    names = [
        one if len(one) <= LONGEST_LISTED else f"{one[:LONGEST_LISTED]}..."
        for one in list(columns)[:MOST_LISTED]
    ]
    shown = ", ".join(names) or "none"
    return f"{shown}, ... {len(columns)} in all" if len(columns) > MOST_LISTED else shown

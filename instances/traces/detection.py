"""Choose the format of a file: one by name, columns mapped by the user, or the one detected."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError
from instances.validation import as_integer

from .advice import refuse_totals, refuse_unknown
from .formats import FORMATS
from .plausibility import likely_unit
from .row import (
    MILLISECONDS,
    PER_SECOND,
    SECONDS,
    TICKS_PER_SECOND,
    Clock,
    Measured,
    as_duration,
    name_words,
    named_unit,
)
from .trace_format import ABSENT, Container, TraceFormat, lookup, path_of

NO_ERROR = (
    *("", "0", "0.0", "false", "none", "null", "nan", "[]", "{}", "ok", "success", "successful"),
    *("succeeded", "complete", "completed", "done", "finished", "stop", "length", "tool_calls"),
)
"""Cells of a column of errors that mean that there was none; so do statuses of HTTP below 400."""

NO_SUCCESS = ("", "0", "0.0", "false", "none", "null", "nan", "no", "failed", "failure", "error")
"""Cells of a column of successes that mean that a request failed."""

ARRIVALS = {
    "arrival": None,
    "arrival_ms": MILLISECONDS,
    "arrival_us": "microseconds",
    "arrival_ns": "nanoseconds",
}
"""Units by the role of a column of arrivals; None is told by its name and its cells."""

MEASUREMENTS = {
    "latency": "latency",
    "time_to_first_token": "time_to_first_token",
    "inter_token_time": "mean_inter_token_time",
}
"""Fields of `Measured` by the role of their column, which is in seconds or ends in ``_ms``."""

STAMPS = {"end": "latency", "first_token": "time_to_first_token"}
"""Fields of `Measured` by the role of a column with the time at which they end."""

_DURATIONS = [f"{name}{unit}" for name in MEASUREMENTS for unit in ("", "_ms")]
ROLES = (*ARRIVALS, "prompt", "output", *_DURATIONS, *STAMPS, "error", "worker", "requests", "run")


def format_of(columns: Mapping[str, str]) -> TraceFormat:
    """Make a format of columns that are named by the user.

    Parameters
    ----------
    columns : Mapping[str, str]
        ``{"arrival": ..., "prompt": ..., "output": ...}``, the first may be missing (all arrive at
        once), or ``"arrival_ms"``, ``"arrival_us"`` or ``"arrival_ns"``. In JSON lines a name may
        be a path, as in ``"usage.prompt_tokens"``; a dot in a key has a backslash before it. What
        the log measured may be named too: ``"latency"``, ``"time_to_first_token"``,
        ``"inter_token_time"`` (the mean), each with ``_ms`` or in the unit that ends its name, else
        in seconds; ``"end"`` and ``"first_token"``, times on the clock of arrivals; ``"error"``,
        which is empty, 0, false, a success or a status below 400 where a request succeeded;
        ``"worker"``, the replica that served it; and ``"requests"``, the list of requests in a
        larger object. ``"run"`` is the number of one of several runs.

    Raises
    ------
    InvalidTypeError
        Not a mapping of names.
    UnknownNameError
        Something else is to be read.
    InvalidValueError
        Two columns of arrivals or of one measurement, or no prompts or outputs.
    """
    chosen, kinds = _chosen(columns)
    for role in ("prompt", "output"):
        if role not in chosen:
            reason = f"does not say which column holds {role}s"
            raise InvalidValueError(None, "columns", dict(columns), reason)
    arrival, error = kinds.pop("arrivals", None), chosen.get("error")
    time, unit = (chosen[arrival], ARRIVALS[arrival]) if arrival else (None, None)
    durations: dict[str, tuple[str, float]] = {}
    stamps: dict[str, str] = {}
    named: list[str] = []
    for kind, role in kinds.items():
        name = chosen[role]
        if role in STAMPS:
            if time is None:
                raise InvalidValueError("columns", role, name, "needs a column of arrivals")
            stamps[kind] = name
        elif role in _DURATIONS:
            of_name = None if role.endswith("_ms") else named_unit(name)
            if of_name not in (None, SECONDS):
                named.append(f"{name!r} is in {of_name}, as its name says")
            seconds = 1e-3 if role.endswith("_ms") else 1 / PER_SECOND[of_name or SECONDS]
            durations[kind] = name, seconds
    further = [error, chosen.get("worker"), *[name for name, _ in durations.values()]]

    def measured(record: dict[str, Any]) -> Measured:
        found: dict[str, Any] = {
            kind: _text_duration(record, *at) for kind, at in durations.items()
        }
        for kind, name in stamps.items():
            clock = made.new_clock()
            found[kind] = _text_since(clock, lookup(record, str(time)), lookup(record, name), name)
        return Measured(**found)

    made = TraceFormat(
        name="columns",
        source="columns named by the user",
        container=None,
        time=time,
        prompt=chosen["prompt"],
        output=chosen["output"],
        unit=unit,
        has_failed=None if error is None else (lambda record: _is_error(record, error)),
        measured=measured if durations or stamps else None,
        further=tuple(one for one in (*further, *stamps.values()) if one is not None),
        worker=chosen.get("worker"),
        records=path_of(chosen["requests"]) if "requests" in chosen else (),
        note="; ".join(named) or None,
    )
    return made


def _chosen(columns: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Check the roles: columns by role, and roles by the one thing that each of them holds."""
    if not isinstance(columns, Mapping):
        raise InvalidTypeError(None, "columns", columns, "is not a mapping")
    chosen: dict[str, Any] = {str(role).replace("-", "_"): name for role, name in columns.items()}
    chosen.pop("run", None)
    kinds: dict[str, str] = {}
    for role, name in chosen.items():
        if role not in ROLES:
            raise UnknownNameError("column role", role, list(ROLES))
        if not isinstance(name, str):
            raise InvalidTypeError("columns", role, name, "is not the name of a column")
        kind = "arrivals" if role in ARRIVALS else role.removesuffix("_ms")
        kind = STAMPS.get(kind, MEASUREMENTS.get(kind, kind))
        if kind in kinds:
            reason = f"names two columns of {kind.replace('_', ' ')}"
            raise InvalidValueError(None, "columns", dict(columns), reason)
        kinds[kind] = role
    return chosen, kinds


def _is_error(record: dict[str, Any], column: str) -> bool:
    """Return True if a cell says that a request failed, in a column of errors or of successes."""
    value = str(lookup(record, column)).strip().lower()
    if {*name_words(column)} & {"success", "successful", "succeeded", "ok"}:
        return value in NO_SUCCESS
    status = re.match(r"(\d{3})(\.0)?\b", value)
    return value not in NO_ERROR and not (status and 200 <= int(status[1]) < 400)


def _text_since(clock: Clock, start: Any, end: Any, name: str) -> float | None:
    """Seconds from one stamp to another; None where it is blank."""
    if end is None or (isinstance(end, str) and not end.strip()):
        return None
    try:
        begin, ticks = clock(start), clock(end)
    except ValueError as error:
        raise InvalidTypeError(None, name, end, str(error)) from None
    if ticks < begin:
        raise InvalidValueError(None, name, end, "is before the arrival")
    return (ticks - begin) / TICKS_PER_SECOND


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

    Columns that name the worker or the run only do not make a format.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        No name of a format, columns that `format_of` refuses, or both are given.
    """
    if isinstance(columns, Mapping) and columns and {*columns} <= {"worker", "run"}:
        if not isinstance(columns.get("worker", ""), str):
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


def run_of(columns: Mapping[str, Any] | None) -> int | None:
    """Return the number of the run that columns name, the first being 1; None where they do not.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Not such a number.
    """
    run: Any = None if columns is None else columns.get("run")
    if isinstance(run, str) and run.isdecimal() and len(run) < 10:
        run = int(run)
    return None if run is None else as_integer(run, "columns", "run", minimum=1)


def detect_format(
    path: Any, container: Container, records: Sequence[Mapping[str, Any]]
) -> TraceFormat:
    """Detect the format whose columns a file has.

    Parameters
    ----------
    path : Any
        What errors call the file.
    container : Literal[csv, json, document]
        What kind of rows it has.
    records : sequence of mapping
        Some of them; of a table one may be its columns without cells.

    Raises
    ------
    FileFormatError
        No format or several fit; the message says what can be done.
    """
    filled = [one for one in records if one]
    if not filled:
        raise FileFormatError(path, "holds no record that has fields")
    found = next((some for one in filled if len(some := fitting(container, one)) == 1), None)
    found = found or fitting(container, filled[0])
    if {one.name for one in found} == {"mooncake", "qwen-bailian"}:
        unit = likely_unit(filled, found[0].time or "", found[0].prompt)
        found = [one for one in found if unit in (None, one.unit)]
    if len(found) > 1:
        ways = " or ".join(f"format={one.name} (times in {one.unit})" for one in found)
        raise FileFormatError(path, f"fits several formats: which is it? Say {ways}")
    if not found:
        refuse_totals(path, filled[0])
        refuse_unknown(path, filled, f"fits no format{_nearly(container, filled[0])}")
    return found[0]


def _nearly(container: Container, record: Mapping[str, Any]) -> str:
    """Name the one column that a file lacks of a known format."""
    for one in FORMATS.values():
        missing = {*one.required} - {*record}
        is_near = len(missing) == 1 and len({*one.read} & {*record}) > 1
        if one.container == container and is_near and not one.is_log:
            return f" (of {one.name} column {missing.pop()!r} is missing)"
    return ""

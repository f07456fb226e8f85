"""Columns named by the user, for logs of any tool."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from instances.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from instances.validation import as_integer

from .cells import DIGITS_OF, MILLISECONDS, SECONDS
from .formats import FORMATS, Format
from .paths import inside, lookup, name_words, named_unit, path_of

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

DURATIONS = ("latency", "time_to_first_token", "inter_token_time")
"""Roles of columns in seconds or in the unit that their name has, or with ``_ms`` at their end."""

STAMPS = {"end": "latency", "first_token": "time_to_first_token"}
"""Roles of columns with a time of day, and the duration that ends then."""

_DURATIONS = [f"{name}{unit}" for name in DURATIONS for unit in ("", "_ms")]
ROLES = (*ARRIVALS, "prompt", "output", *_DURATIONS, *STAMPS, "error", "worker", "requests", "run")


def wanted_format(format: Any, columns: Mapping[str, Any] | None) -> Format | None:  # noqa: A002
    """Choose the format that the caller asks for; None leaves it to the content of the file.

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


def format_of(columns: Mapping[str, str]) -> Format:
    """Make a format of columns that are named by the user, as `read_log` describes them.

    Raises
    ------
    InvalidTypeError
        Not a mapping of names.
    UnknownNameError
        Something else is to be read.
    InvalidValueError
        Two columns of arrivals or of one measurement, or no prompts or outputs.
    """
    chosen = _chosen(columns)
    roles: dict[str, str] = {}
    seconds: dict[str, float] = {}
    unit, notes = None, []
    for role, name in chosen.items():
        if role in ARRIVALS:
            roles["arrival"], unit = name, ARRIVALS[role]
        elif role not in _DURATIONS:
            roles[role] = name
        else:
            own = role.removesuffix("_ms")
            of_name = MILLISECONDS if role != own else named_unit(name) or SECONDS
            if role == own and of_name != SECONDS:
                notes.append(f"{name!r} is in {of_name}, as its name says")
            roles[own], seconds[own] = name, float(10 ** -DIGITS_OF[of_name])
    requests, error = roles.pop("requests", None), roles.get("error")
    for role in STAMPS:
        if role in roles and "arrival" not in roles:
            raise InvalidValueError("columns", role, roles[role], "needs a column of arrivals")
    return Format(
        "columns",
        roles,
        unit=unit,
        seconds=seconds,
        rows=None if requests is None else partial(inside, keys=path_of(requests)),
        is_document=requests is not None,
        failed=None if error is None else partial(_is_error, column=error),
        note="; ".join(notes) or None,
    )


def _chosen(columns: Any) -> dict[str, str]:
    """Check the roles of columns."""
    if not isinstance(columns, Mapping):
        raise InvalidTypeError(None, "columns", columns, "is not a mapping")
    chosen: dict[str, Any] = {str(role).replace("-", "_"): name for role, name in columns.items()}
    chosen.pop("run", None)
    kinds = set()
    for role, name in chosen.items():
        if role not in ROLES:
            raise UnknownNameError("column role", role, list(ROLES))
        if not isinstance(name, str):
            raise InvalidTypeError("columns", role, name, "is not the name of a column")
        kind = "arrivals" if role in ARRIVALS else role.removesuffix("_ms")
        kind = STAMPS.get(kind, kind)
        if kind in kinds:
            reason = f"names two columns of {kind.replace('_', ' ')}"
            raise InvalidValueError(None, "columns", dict(columns), reason)
        kinds.add(kind)
    for role in ("prompt", "output"):
        if role not in chosen:
            reason = f"does not say which column holds {role}s"
            raise InvalidValueError(None, "columns", dict(columns), reason)
    return chosen


def _is_error(record: dict[str, Any], column: str) -> bool:
    """Return True if a cell says that a request failed, in a column of errors or of successes."""
    value = str(lookup(record, column)).strip().lower()
    if {*name_words(column)} & {"success", "successful", "succeeded", "ok"}:
        return value in NO_SUCCESS
    status = re.match(r"(\d{3})(\.0)?\b", value)
    return value not in NO_ERROR and not (status and 200 <= int(status[1]) < 400)


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

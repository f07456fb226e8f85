"""Files of no published format: the user says which column holds what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from instances.errors import InvalidTypeError, InvalidValueError, UnknownNameError

from .row import Clock, Measured, any_clock, clock_of
from .trace_format import TraceFormat, lookup, text_duration

NO_ERROR = ("", "0", "0.0", "false", "none", "null", "nan")
"""What a column of errors holds where there is none."""

CLOCKS: dict[str, Callable[[], Clock]] = {
    "arrival": any_clock,
    "arrival_ms": clock_of(10**3),
    "arrival_us": clock_of(10**6),
    "arrival_ns": clock_of(10**9),
}
"""What a column of arrivals counts: seconds or dates, or parts of a second."""

DURATIONS = {
    "latency": ("latency", 1.0),
    "latency_ms": ("latency", 1e-3),
    "time_to_first_token": ("time_to_first_token", 1.0),
    "time_to_first_token_ms": ("time_to_first_token", 1e-3),
    "inter_token_time": ("mean_inter_token_time", 1.0),
    "inter_token_time_ms": ("mean_inter_token_time", 1e-3),
}
"""What a column of measurements holds (of times between tokens, the mean), and its unit in s."""

ROLES = (*CLOCKS, "prompt", "output", *DURATIONS, "error")


def format_of(columns: Mapping[str, str]) -> TraceFormat:
    """The format of a file whose columns are named by the user.

    Parameters
    ----------
    columns : Mapping[str, str]
        ``{"arrival": ..., "prompt": ..., "output": ...}``, the first may be missing (all arrive at
        once), or ``"arrival_ms"``, ``"arrival_us"`` or ``"arrival_ns"``. In JSON lines a name may
        be a path, as in ``"usage.prompt_tokens"``. What the log measured may be named too:
        ``"latency"``, ``"time_to_first_token"``, ``"inter_token_time"`` (the mean), each in seconds
        or with ``_ms``; and ``"error"``, which is empty, 0 or false where a request succeeded.

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
    for role, name in chosen.items():
        if role not in ROLES:
            raise UnknownNameError("column role", role, list(ROLES))
        if not isinstance(name, str):
            raise InvalidTypeError("columns", role, name, "is not the name of a column")
    arrivals = [role for role in chosen if role in CLOCKS]
    if len(arrivals) > 1:
        raise InvalidValueError(None, "columns", dict(columns), "names two columns of arrivals")
    durations: dict[str, tuple[str, float]] = {}
    for role in chosen:
        if role in DURATIONS:
            measurement, seconds = DURATIONS[role]
            if measurement in durations:
                reason = f"names two columns of {role.removesuffix('_ms')}"
                raise InvalidValueError(None, "columns", dict(columns), reason)
            durations[measurement] = chosen[role], seconds
    for role in ("prompt", "output"):
        if role not in chosen:
            reason = f"does not say which column holds {role}s"
            raise InvalidValueError(None, "columns", dict(columns), reason)
    error = chosen.get("error")
    measured_columns = [column for column, _ in durations.values()]

    def has_failed(record: dict[str, Any]) -> bool:
        return str(lookup(record, str(error))).strip().lower() not in NO_ERROR

    def measured(record: dict[str, Any]) -> Measured:
        found: dict[str, Any] = {name: text_duration(record, *at) for name, at in durations.items()}
        return Measured(**found)

    return TraceFormat(
        name="columns",
        source="columns named by the user",
        container=None,
        time=chosen[arrivals[0]] if arrivals else None,
        prompt=chosen["prompt"],
        output=chosen["output"],
        new_clock=CLOCKS[arrivals[0]] if arrivals else any_clock,
        has_failed=None if error is None else has_failed,
        measured=measured if durations else None,
        further=tuple(column for column in (error, *measured_columns) if column is not None),
    )

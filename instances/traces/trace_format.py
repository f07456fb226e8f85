"""What a format has to say of itself, and looking things up in its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from instances.arrays import FloatArray
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_number

from .row import FAILED, Cells, Clock, Measured

ABSENT = object()

LONGEST_DURATION = 1e16
"""In the unit of the file; longer ones have no sum, and no place among floats of 32 bits."""

NO_ERROR = ("", "0", "0.0", "false", "none", "null", "nan")
"""What a column of errors holds where there is none."""

Container = Literal["csv", "json", "document"]


@dataclass(frozen=True)
class TraceFormat:
    """Where a format keeps arrival, prompt and output.

    Attributes
    ----------
    name : str
        What ``format=`` calls it.
    source : str
        The dataset or the tool it is from.
    container : Literal[csv, json, document] or None
        ``"csv"`` with a header line; ``"json"``, objects that are lines or items of one list;
        ``"document"``, requests inside a larger object; None is told from the file.
    time, prompt, output : str or None, str, str
        The columns or keys that are read; others are passed over. No ``time``: lengths only.
    new_clock : Callable[[], Clock]
        Called once a file; reads the cells of ``time``.
    time_is_optional : bool
        Whether files without ``time`` are of this format too.
    marks : tuple[str, ...]
        Keys by which it is told, where they are not those that are read.
    cells : Callable[[dict[str, Any]], Cells or None] or None
        Takes a record apart, None for a record that is no request; without it, the cells are
        those of the columns named.
    durations : Mapping[str, tuple[str, float]]
        Columns with what was measured: a field of `Measured`, the column, seconds in its unit.
    error : str or None
        The column that says, by not being empty, 0 or false, that a request has failed.
    is_in_order : bool
        Whether rows promise to be in order of time; others are sorted unless told otherwise.
    """

    name: str
    source: str
    container: Container | None
    time: str | None
    prompt: str
    output: str
    new_clock: Callable[[], Clock]
    time_is_optional: bool = False
    marks: tuple[str, ...] = ()
    cells: Callable[[dict[str, Any]], Cells | None] | None = None
    durations: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    error: str | None = None
    is_in_order: bool = True

    @property
    def required(self) -> tuple[str, ...]:
        """Columns no file of this format is without."""
        if self.marks:
            return self.marks
        if self.time_is_optional:
            return self.prompt, self.output
        return self.read

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that are read where they are there."""
        others = [self.time, self.error, *(column for column, _ in self.durations.values())]
        return (*(column for column in others if column is not None), self.prompt, self.output)


def cells_of(format: TraceFormat, record: dict[str, Any]) -> Cells:  # noqa: A002
    """The cells of a row in the columns of a format.

    Parameters
    ----------
    format : TraceFormat
        Which columns there are.
    record : dict[str, Any]
        The row.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        What was measured is no duration.
    """
    if (
        format.error is not None
        and str(lookup(record, format.error)).strip().lower() not in NO_ERROR
    ):
        return FAILED
    found = {
        name: _as_duration(lookup(record, column), column, seconds)
        for name, (column, seconds) in format.durations.items()
    }
    is_measured = any(value is not None for value in found.values())
    time = None if format.time is None else lookup(record, format.time)
    measured = Measured(**found) if is_measured else None  # type: ignore[arg-type]
    return Cells(time, lookup(record, format.prompt), lookup(record, format.output), measured)


def _as_duration(value: Any, column: str, seconds: float) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, (str, Decimal)):
        try:
            # Python reads 1_0 as 10.
            value = float(str(value).replace("_", "x"))
        except ValueError:
            raise InvalidTypeError(None, column, value, "is not a number") from None
    return as_number(value, None, column, minimum=0, maximum=LONGEST_DURATION) * seconds


def lookup(record: Any, *names: str, missing: Any = None) -> Any:
    """What an object has under the first of these keys that it has.

    Parameters
    ----------
    record : Any
        A JSON object.
    *names : str
        Keys, or keys inside one another, joined by dots.
    missing : Any, default None
        What is returned where none is there.
    """
    for name in names:
        if isinstance(record, dict) and name in record:
            return record[name]
        found = record
        for key in _keys(name):
            if not isinstance(found, dict) or key not in found:
                break
            found = found[key]
        else:
            return found
    return missing


@lru_cache(maxsize=256)
def _keys(name: str) -> tuple[str, ...]:
    return tuple(name.split("."))


def duration(record: Any, *names: str, seconds: float = 1.0) -> float | None:
    """A time that was measured, in seconds; None where the record does not have it.

    Parameters
    ----------
    record, *names : Any, str
        As in `lookup`.
    seconds : float, default 1.0
        Seconds in the unit that it is in.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        No number, or a negative one.
    """
    value = lookup(record, *names)
    if value is None:
        return None
    return as_number(value, None, names[0], minimum=0, maximum=LONGEST_DURATION) * seconds


def durations(record: Any, *names: str, seconds: float = 1.0) -> FloatArray | None:
    """A list of times that were measured, by the rules of `duration`."""
    values = lookup(record, *names)
    return None if values is None else as_durations(values, names[0]) * seconds


def as_durations(values: Any, name: str) -> FloatArray:
    """A list of numbers >= 0.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        No list, or something else in it.
    """
    if not isinstance(values, list):
        raise InvalidTypeError(None, name, values, "is not a list of numbers")
    try:
        known = np.asarray(values)
    except (ValueError, OverflowError):
        known = np.asarray([None])
    # Among numbers a boolean would count as one.
    if values and (known.ndim != 1 or known.dtype.kind not in "iuf" or bool in map(type, values)):
        raise InvalidTypeError(None, name, values, "is not a list of numbers")
    times = known.astype(np.float64)
    if not ((times >= 0) & (times <= LONGEST_DURATION)).all():
        raise InvalidValueError(None, name, values, "holds what is no duration")
    return times


def measured(
    latency: float | None,
    time_to_first_token: float | None,
    inter_token_times: FloatArray | None = None,
    mean_inter_token_time: float | None = None,
) -> Measured | None:
    """What was measured; None where nothing was."""
    found = Measured(latency, time_to_first_token, inter_token_times, mean_inter_token_time)
    return None if all(value is None for value in found) else found

"""What a format has to say of itself, and looking things up in its records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from instances.arrays import FloatArray
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_number

from .row import Cells, Clock, Measured

ABSENT = object()

Container = Literal["csv", "json", "document"]


@dataclass(frozen=True)
class TraceFormat:
    """Where a format keeps arrival, prompt and output.

    Attributes
    ----------
    name : str
        What ``format=`` and ``--trace-format`` call it.
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
    is_in_order: bool = True

    @property
    def required(self) -> tuple[str, ...]:
        """Columns no file of this format is without."""
        if self.marks:
            return self.marks
        lengths = (self.prompt, self.output)
        return lengths if self.time is None or self.time_is_optional else (self.time, *lengths)

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that are read where they are there."""
        lengths = (self.prompt, self.output)
        return lengths if self.time is None else (self.time, *lengths)


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
    return None if value is None else as_number(value, None, names[0], minimum=0) * seconds


def durations(record: Any, *names: str, seconds: float = 1.0) -> FloatArray | None:
    """A list of times that were measured, by the rules of `duration`."""
    values = lookup(record, *names)
    return None if values is None else as_durations(values, names[0]) * seconds


def as_durations(values: Any, field: str) -> FloatArray:
    """A list of numbers >= 0.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        No list, or something else in it.
    """
    if not isinstance(values, list):
        raise InvalidTypeError(None, field, values, "is not a list of numbers")
    try:
        known = np.asarray(values)
    except (ValueError, OverflowError):
        known = np.asarray([None])
    if values and (known.ndim != 1 or known.dtype.kind not in "iuf"):
        raise InvalidTypeError(None, field, values, "is not a list of numbers")
    times = known.astype(np.float64)
    if not (np.isfinite(times) & (times >= 0)).all():
        raise InvalidValueError(None, field, values, "holds what is no duration")
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

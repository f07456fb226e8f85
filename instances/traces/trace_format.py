"""What a format has to say of itself, and looking things up in its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from instances.arrays import FloatArray
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import as_number

from .row import FAILED, Cells, Clock, Measured, seconds_clock
from .streams import Document

ABSENT = object()

LONGEST_DURATION = 1e16
"""In the unit of the file; longer ones have no sum, and no place among floats of 32 bits."""

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
        Called once a file; reads the cells of ``time``, which are seconds unless it is given.
    time_is_optional : bool
        Whether files without ``time`` are of this format too.
    marks : tuple[str, ...]
        Keys by which a tool's log is told; datasets are told by the columns that are read.
    names : Mapping[str, tuple[str, ...]]
        Where a column may be, looked up in turn; others are only where their name says.
    requests : Callable[[Document], Iterator[Any]] or None
        The records below the key ``marks[0]`` of a document; None for one that has failed.
    request : Callable[[dict[str, Any]], dict[str, Any] or None] or None
        From a record to the one whose columns are read; None for a record that is no request.
    has_failed : Callable[[dict[str, Any]], Any] or None
        Whether a record's request failed or was broken off.
    measured : Callable[[dict[str, Any]], Measured] or None
        What the log measured of a record's request.
    further : tuple[str, ...]
        Columns that ``has_failed`` and ``measured`` read in a table.
    is_in_order : bool
        Whether rows promise to be in order of time; others are sorted unless told otherwise.
    """

    name: str
    source: str
    container: Container | None
    time: str | None
    prompt: str
    output: str
    new_clock: Callable[[], Clock] = seconds_clock
    time_is_optional: bool = False
    marks: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    requests: Callable[[Document], Iterator[Any]] | None = None
    request: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None
    has_failed: Callable[[dict[str, Any]], Any] | None = None
    measured: Callable[[dict[str, Any]], Measured] | None = None
    further: tuple[str, ...] = ()
    is_in_order: bool = False

    @property
    def is_log(self) -> bool:
        """Whether a tool writes it, which may not know the output of a request."""
        return bool(self.marks)

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
        time = () if self.time is None else (self.time,)
        return (*time, *self.further, self.prompt, self.output)

    def cells(self, record: dict[str, Any]) -> Cells | None:
        """The cells of a record, None for a record that is no request.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            What was measured is no duration.
        """
        found = record if self.request is None else self.request(record)
        if found is None:
            return None
        if self.has_failed is not None and self.has_failed(found):
            return FAILED
        measured = None if self.measured is None else self.measured(found)
        if measured is not None and all(value is None for value in measured):
            measured = None
        names = self.names.get
        time = None if self.time is None else lookup(found, *names(self.time, (self.time,)))
        prompt = lookup(found, *names(self.prompt, (self.prompt,)))
        output = lookup(found, *names(self.output, (self.output,)))
        return Cells(time, prompt, output, measured)


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


def duration(record: Any, name: str, seconds: float = 1.0) -> float | None:
    """A time that was measured, in seconds; None where the record does not have it.

    Parameters
    ----------
    record, name : Any, str
        As in `lookup`.
    seconds : float, default 1.0
        Seconds in the unit that it is in.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        No number, or a negative one.
    """
    value = lookup(record, name)
    return None if value is None else as_duration(value, name) * seconds


def as_duration(value: Any, name: str) -> float:
    """A number >= 0.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Something else.
    """
    return as_number(value, None, name, minimum=0, maximum=LONGEST_DURATION)


def text_duration(record: Any, name: str, seconds: float) -> float | None:
    """A `duration` that may be text, as the cells of a table are; None where it is blank."""
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

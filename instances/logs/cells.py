"""Cells of logs: times, counts of tokens and durations, and the rows that cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any, NamedTuple, TypeVar

import numpy as np

from instances.arrays import FloatArray
from instances.errors import shown
from instances.validation import LARGEST_TOKEN_COUNT

T = TypeVar("T")

TICK_DIGITS = 24
TICKS_PER_SECOND: int = 10**TICK_DIGITS
"""Times are whole numbers of ticks: a float of 10 ns or more has no digits beyond one."""

DATES, SECONDS, MILLISECONDS = "dates", "seconds", "milliseconds"
DIGITS_OF = {SECONDS: 0, MILLISECONDS: 3, "microseconds": 6, "nanoseconds": 9}
"""Units of time: 10 to this power of each are a second."""

LATEST = 10**16 * TICKS_PER_SECOND
LONGEST_DURATION = 1e16
"""In the unit of the file; longer ones have no sum, and no place among floats of 32 bits."""

LONGEST_NUMBER = 80
MOST_NAMED = 3
"""Rows that are named for each reason."""

_WHOLE = re.compile(r"0{0,80}(\d{1,20})(?:\.0*)?", re.ASCII)
"""Whole numbers also as pandas writes them where a cell of their column is empty: 12.0."""

_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,](\d{1,24}))? ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII | re.IGNORECASE,
)
_ZEROS = str.maketrans("123456789", "000000000")
_PLAIN_NUMBER = re.compile(r"0{1,15}(\.0{0,9})?")
_PLAIN_DATE = re.compile(r"0000-00-00[ T]00:00:00(?:\.0{1,9})?(Z?)")
_EXACT = Context(prec=2 * LONGEST_NUMBER)
_NO_TIME = "is not a time"


class Clock:
    """Reader of a column of times, all in one unit; ``clock(cell)`` is in ticks.

    It raises ValueError where a cell holds no time, or one in another unit.

    Parameters
    ----------
    unit : str or None, default None
        `DATES`, all with a time zone or none, or a key of `DIGITS_OF`; None takes the unit of the
        first cell that can be read. A number is of seconds then, unless that would be after the
        year 5000: then it is a Unix time in milli-, micro- or nanoseconds.
    coarsest : str, default SECONDS
        Coarsest unit that a number may be in, as the name of the column says.
    """

    def __init__(self, unit: str | None = None, coarsest: str = SECONDS) -> None:
        self.unit = unit
        self._is_given = unit is not None
        self._coarsest = coarsest
        self._has_zone: bool | None = None

    def __call__(self, cell: Any) -> int:
        """Return the time in ticks."""
        text = text_of(cell)
        date = _STAMP.fullmatch(text)
        if self.unit is not None and (date is not None) != (self.unit == DATES):
            raise ValueError(_NO_TIME)
        if date is not None:
            ticks, found = self._date(*date.groups()), DATES
        else:
            ticks, found = self._number(text)
        if self.unit not in (None, found):
            raise ValueError("is in another unit than the rows before")
        # Only a cell that can be read says what the others are.
        self.unit = found
        return ticks

    def _number(self, text: str) -> tuple[int, str]:
        is_number = len(text) <= LONGEST_NUMBER and _NUMBER.fullmatch(text)
        if not is_number or (number := Decimal(text)) < 0:
            raise ValueError(_NO_TIME)
        unit = self._unit_of(number)
        ticks = int(number.scaleb(TICK_DIGITS - DIGITS_OF[unit], _EXACT))
        if ticks >= LATEST:
            raise ValueError(_NO_TIME)
        return ticks, unit

    def _unit_of(self, number: Decimal) -> str:
        if self.unit is not None and self._is_given:
            return self.unit
        finer = reversed(DIGITS_OF.items())
        return next(
            one for one, digits in finer if one == self._coarsest or number >= 10 ** (8 + digits)
        )

    def _date(self, whole: str, digits: str | None, zone: str | None) -> int:
        name = "" if zone is None else "Z" if zone.upper() in ("Z", "UTC") else zone
        try:
            moment = datetime.fromisoformat(whole + name)
        except ValueError:
            raise ValueError(_NO_TIME) from None
        if self._has_zone not in (None, zone is not None):
            raise ValueError("has a time zone, or none, unlike the rows before")
        self._has_zone = zone is not None
        elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC if zone else None)
        seconds = elapsed.days * 86_400 + elapsed.seconds
        return seconds * TICKS_PER_SECOND + int((digits or "").ljust(TICK_DIGITS, "0"))

    def column(self, cells: Sequence[Any], name: str, bad: dict[int, BadRow]) -> list[int]:
        """Read a whole column, as `column_of` does; cells of plain forms all at once."""
        if cells and {*map(type, cells)} <= {str, int, float}:
            texts = [*map(str, cells)]
            forms = {*"\n".join(texts).translate(_ZEROS).split("\n")}
            with suppress(ValueError):
                if self.unit != DATES and all(map(_PLAIN_NUMBER.fullmatch, forms)):
                    return self._plain_numbers(texts)
                if self.unit in (None, DATES):
                    return self._plain_dates(texts, {*map(_PLAIN_DATE.fullmatch, forms)})
        return column_of(cells, self, name, bad, 0)

    def _plain_numbers(self, texts: list[str]) -> list[int]:
        """Read digits with at most a point; ValueError where they are in several units."""
        (unit,) = {self._unit_of(Decimal(end(texts, key=float))) for end in (min, max)}
        places = TICK_DIGITS - DIGITS_OF[unit]
        parts = (one.partition(".") for one in texts)
        ticks = [int(whole + digits.ljust(places, "0")) for whole, _, digits in parts]
        self.unit = unit
        return ticks

    def _plain_dates(self, texts: list[str], forms: set[re.Match[str] | None]) -> list[int]:
        """Read dates to the nanosecond, all in UTC or none; ValueError where they are others."""
        (zone,) = {None if one is None else one[1] for one in forms}
        if zone is None or min(texts) < "17" or max(texts) > "22":
            raise ValueError(_NO_TIME)
        stamps = np.array([one.removesuffix("Z") for one in texts], "datetime64[ns]")
        self.unit, self._has_zone = DATES, bool(zone)
        return [one * 10 ** (TICK_DIGITS - 9) for one in stamps.astype(np.int64).tolist()]


def column_of(
    cells: Sequence[Any],
    read: Callable[[Any], T],
    name: str,
    bad: dict[int, BadRow],
    instead: T,
) -> list[T]:
    """Read the cells of a column one by one.

    Parameters
    ----------
    cells : sequence
        What the file has.
    read : Callable
        Reads a cell, or raises ValueError with the reason why it cannot.
    name : str
        The column.
    bad : dict
        Gets the reasons by place; a place that has one keeps it.
    instead : Any
        Stands for a cell that cannot be read.
    """
    if not isinstance(read, Clock) and {*map(type, cells)} == {str}:
        # Tables have the same few texts again and again.
        with suppress(ValueError):
            known = {one: read(one) for one in {*cells}}
            return [known[one] for one in cells]
    found = []
    for place, cell in enumerate(cells):
        try:
            found.append(read(cell))
        except ValueError as error:
            bad.setdefault(place, bad_cell(name, cell, str(error)))
            found.append(instead)
    return found


def ticks_of(times: FloatArray) -> list[int]:
    """Return times in seconds as ticks, each as the shortest text that gives its float."""
    return [int(Decimal(repr(one)).scaleb(TICK_DIGITS)) for one in times.tolist()]


def seconds_since(times: FloatArray, begin: float) -> FloatArray:
    """Subtract a time from others as their texts say: 0.3 less 0.1 is 0.2."""
    first = ticks_of(np.array([begin]))[0]
    return np.array([(one - first) / TICKS_PER_SECOND for one in ticks_of(times)])


def text_of(cell: Any) -> str:
    """A text or a number as text; blank for anything else.

    The shortest text that gives a float is what its writer has written.
    """
    if isinstance(cell, str):
        return cell.strip()
    return str(cell) if type(cell) in (int, float) else ""


def as_count(value: Any) -> int:
    """A whole number of tokens >= 0, as text or a number; 12.0 is 12.

    Raises
    ------
    ValueError
        Not such a number, or more than a request can have.
    """
    whole = _WHOLE.fullmatch(text_of(value))
    if whole is None or int(whole[1]) > LARGEST_TOKEN_COUNT:
        raise ValueError(f"is not a whole number from 0 to {LARGEST_TOKEN_COUNT}")
    return int(whole[1])


def as_duration(value: Any) -> float:
    """A number >= 0, as text or a number; NaN where the cell is blank.

    Raises
    ------
    ValueError
        Something else.
    """
    if is_blank(value):
        return math.nan
    number = math.nan
    with suppress(ValueError):
        # Python reads 1_0 as 10.
        number = float(text_of(value).replace("_", "x"))
    if not 0 <= number <= LONGEST_DURATION:
        raise ValueError(f"is not a number from 0 to {LONGEST_DURATION:g}")
    return number


def as_durations(values: Any) -> FloatArray:
    """A list of numbers >= 0; empty where the cell is blank.

    Raises
    ------
    ValueError
        No list, or something else in it.
    """
    if values is None:
        return np.zeros(0)
    if isinstance(values, list) and {*map(type, values)} <= {int, float}:
        with suppress(OverflowError):
            times = np.array(values, np.float64)
            if ((times >= 0) & (times <= LONGEST_DURATION)).all():
                return times
    raise ValueError(f"is not a list of numbers from 0 to {LONGEST_DURATION:g}")


def is_blank(value: Any) -> bool:
    """Return True if a cell says nothing."""
    return value is None or (isinstance(value, str) and not value.strip())


class BadRow(NamedTuple):
    """Reason why a row cannot be read.

    Attributes
    ----------
    reason : str
        The same for all rows with this fault, such as ``"output is missing"``.
    message : str
        What an error about this row says: the reason with the refused value.
    """

    reason: str
    message: str


def bad_cell(column: str, value: Any, reason: str) -> BadRow:
    """Say why a cell cannot be read; an empty one is missing."""
    if is_blank(value):
        return BadRow(f"{column} is missing", f"{column} is missing")
    return BadRow(f"{column} {reason}", f"{column} {shown(value)} {reason}")


@dataclass
class SkippedRows:
    """Rows of a log that were skipped, counted by reason; `str` says it in a line.

    Attributes
    ----------
    rows : int
        All rows, skipped or not.
    counts : dict[str, int]
        How many rows were skipped for which reason.
    first_rows : dict[str, list[int]]
        The numbers of the first of them.
    """

    rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    first_rows: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: int, bad: Mapping[int, BadRow]) -> SkippedRows:
        """Count bad rows by reason, given all rows and the bad ones by their numbers."""
        skipped = cls(rows)
        for number in sorted(bad):
            reason = bad[number].reason
            skipped.first_rows.setdefault(reason, []).append(number)
        for reason, numbers in skipped.first_rows.items():
            skipped.counts[reason] = len(numbers)
            del numbers[MOST_NAMED:]
        return skipped

    def __len__(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        most = ", more than half of them" if 2 * len(self) > self.rows else ""
        parts = []
        for reason, count in sorted(self.counts.items(), key=lambda one: -one[1]):
            named = ", ".join(map(str, self.first_rows[reason]))
            more = ", ..." if count > MOST_NAMED else ""
            parts.append(f"{count:,} because {reason} (row{'s'[: count - 1]} {named}{more})")
        return f"{len(self):,} of {self.rows:,} rows skipped{most}: {', '.join(parts)}"

"""Cells of logs as arrays of numbers and times, and the rows that cannot be read."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray
from instances.errors import shown
from instances.validation import LARGEST_TOKEN_COUNT

PER_SECOND = 10**9
"""Times are whole nanoseconds."""

DATES, SECONDS, MILLISECONDS = "dates", "seconds", "milliseconds"
DIGITS_OF = {SECONDS: 0, MILLISECONDS: 3, "microseconds": 6, "nanoseconds": 9}
"""Units of time: 10 to this power of each are a second."""

LATEST = 9.2e18
"""Nanoseconds that a whole number of 64 bits holds, in the year 2261."""

LONGEST_DURATION = 1e16
"""In the unit of the file; longer ones have no sum, and no place among floats of 32 bits."""

NO_LIST = f"is not a list of numbers from 0 to {LONGEST_DURATION:g}"

MOST_NAMED = 3
"""Rows that are named for each reason."""

_EXACT_FLOATS = 2**53
_LONGEST_DATE = 40
_NO_TIME = "is not a time"
_DIGITS = ".0123456789"

Refuse = Callable[[npt.NDArray[np.bool_], str], None]
"""Takes a mask of the cells that cannot be read, and the reason."""


def as_numbers(cells: Sequence[Any]) -> FloatArray:
    """Return numbers, as text or not, as floats; NaN for any other cell."""
    kinds = {*map(type, cells)}
    with suppress(ValueError, OverflowError):
        # Most columns are of numbers only, which are read three times as fast together.
        text = "".join(cells) if kinds == {str} else ""
        if kinds <= {int, float} or (text.isascii() and "_" not in text and kinds == {str}):
            return np.array([*map(float, cells)])
    return np.fromiter(map(_number, cells), np.float64, len(cells))


def _number(cell: Any) -> float:
    kind = type(cell)
    # Python reads 1_0 as 10, and digits of other scripts.
    if kind is int or kind is float or (kind is str and cell.isascii() and "_" not in cell):
        try:
            return float(cell)
        except (ValueError, OverflowError):
            pass
    return math.nan


def as_times(
    cells: Sequence[Any], unit: str | None, coarsest: str, refuse: Refuse
) -> tuple[IntArray, str | None]:
    """Read times, all in one unit, in nanoseconds.

    Parameters
    ----------
    cells : sequence
        The cells of a column.
    unit : str or None
        `DATES`, all with a time zone or none, or a key of `DIGITS_OF`; None takes the unit of the
        first cell that can be read. A number is of seconds then, unless that would be after the
        year 5000: then it is a Unix time in milli-, micro- or nanoseconds.
    coarsest : str
        Coarsest unit that a number may be in, as the name of the column says.
    refuse : Refuse
        Takes the cells that are not a time, or one in another unit.

    Returns
    -------
    int64 array, str or None
        Nanoseconds, 0 for cells that cannot be read, and the unit; None if none can.
    """
    numbers = np.full(len(cells), np.nan) if unit == DATES else as_numbers(cells)
    is_number = np.isfinite(numbers) & (numbers >= 0)
    if unit == DATES or (unit is None and not is_number.all()):
        dates, zones = _dates(cells)
        is_date = ~np.isnat(dates)
        first = _first(is_date)
        if unit == DATES or first < _first(is_number):
            refuse(~is_date, _NO_TIME)
            reason = "has a time zone, or none, unlike the rows before"
            refuse(zones != np.append(zones, False)[first], reason)
            return np.where(is_date, dates.astype(np.int64), 0), DATES if is_date.any() else None
    if unit is None and is_number.any():
        steps = np.array([10.0 ** (8 + digits) for digits in DIGITS_OF.values() if digits])
        finer = np.searchsorted(steps, numbers, side="right")
        finer = np.maximum(finer, [*DIGITS_OF].index(coarsest))
        own = finer[_first(is_number)]
        unit = [*DIGITS_OF][own]
        refuse(is_number & (finer != own), "is in another unit than the rows before")
    digits = DIGITS_OF[unit or SECONDS]
    is_number &= numbers < LATEST / 10 ** (9 - digits)
    refuse(~is_number, _NO_TIME)
    found = nanoseconds(np.where(is_number, numbers, 0.0), digits)
    for k in np.flatnonzero(is_number & (numbers >= _EXACT_FLOATS)).tolist():
        found[k] = int(Decimal(str(cells[k]).strip()))
    return found, unit if is_number.any() else None


def _first(mask: npt.NDArray[np.bool_]) -> int:
    """Return the first place that is True, or the length where none is."""
    return int(np.argmax(mask)) if mask.any() else len(mask)


def _dates(cells: Sequence[Any]) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.bool_]]:
    """Return dates with times of day, and whether they have a time zone; NaT for other cells."""
    texts = [one.strip()[:_LONGEST_DATE] if isinstance(one, str) else "" for one in cells]
    texts = [one.replace(" UTC", "Z").replace(",", ".") for one in texts]
    zones = np.array([bool(one[19:].strip(_DIGITS)) for one in texts])
    plain = [one.removesuffix("Z") for one in texts]
    with warnings.catch_warnings():
        # NumPy warns that it converts times of other zones.
        warnings.simplefilter("ignore")
        try:
            found = np.array(plain, "datetime64[ns]")
        except ValueError:
            found = np.array([_date(one) for one in plain])
    # NumPy takes years that nanoseconds do not reach for others.
    kept = [len(one) > 18 and one[4] == "-" and "1700" <= one < "2200" for one in plain]
    found[~np.array(kept)] = "NaT"
    return found, zones


def _date(text: str) -> np.datetime64:
    try:
        return np.datetime64(text, "ns")
    except ValueError:
        return np.datetime64("NaT", "ns")


def nanoseconds(numbers: FloatArray, digits: int = 0) -> IntArray:
    """Convert numbers >= 0 to nanoseconds, each as its shortest decimals say: 0.1 s are 10**8.

    Parameters
    ----------
    numbers : float64 array
        Times in a unit.
    digits : int, default 0
        10 to this power of the unit are a second.
    """
    whole = np.floor(numbers)
    rest = numbers - whole
    short = np.round(rest)
    for places in range(1, 10 - digits):
        is_longer = whole + short != numbers
        if not is_longer.any():
            break
        short[is_longer] = np.round(rest[is_longer], places)
    scale = 10 ** (9 - digits)
    found: IntArray = whole.astype(np.int64) * scale + np.rint(short * scale).astype(np.int64)
    return found


def seconds_since(times: FloatArray, begin: float) -> FloatArray:
    """Subtract a time from others as their decimals say: 0.3 less 0.1 is 0.2."""
    found: FloatArray = (nanoseconds(times) - nanoseconds(np.array([begin]))) / PER_SECOND
    return found


def in_range(cells: Sequence[Any], is_count: bool) -> tuple[FloatArray, npt.NDArray[np.bool_], str]:
    """Read whole numbers of tokens or durations: numbers, those out of range, and the range.

    12.0 is 12. What cannot be read is 0 tokens or NaN seconds.
    """
    numbers = as_numbers(cells)
    most, kind = (LARGEST_TOKEN_COUNT, "whole number") if is_count else (LONGEST_DURATION, "number")
    is_good = (numbers >= 0) & (numbers <= most)
    if is_count:
        is_good &= numbers == np.floor(numbers)
    found = np.where(is_good, numbers, 0.0 if is_count else np.nan)
    return found, ~is_good, f"is not a {kind} from 0 to {most if is_count else f'{most:g}'}"


def as_list(values: Any, unit: float = 1.0) -> tuple[npt.NDArray[np.float32], float] | None:
    """Read a list of numbers >= 0 in this many seconds: the times, and their sum, NaN if empty.

    A blank cell is empty; None stands for any other cell.
    """
    numbers = [] if values is None else values
    if not isinstance(numbers, list) or not {*map(type, numbers)} <= {int, float}:
        return None
    times = as_numbers(numbers)
    if not ((times >= 0) & (times <= LONGEST_DURATION)).all():
        return None
    return (times * unit).astype(np.float32), float((times * unit).sum()) if numbers else math.nan


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


NO_OBJECT = BadRow("the row is not a JSON object", "is not a JSON object")


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
            skipped.counts[reason] = skipped.counts.get(reason, 0) + 1
            if skipped.counts[reason] <= MOST_NAMED:
                skipped.first_rows.setdefault(reason, []).append(number)
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

"""Find the columns of a log by name, convert their cells to arrays, and report unreadable cells."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray
from instances.errors import shown
from instances.validation import LARGEST_TOKEN_COUNT

PER_SECOND = 10**9
"""Nanoseconds per second: times in logs are converted to whole numbers of nanoseconds."""

DATES, SECONDS, MILLISECONDS = "dates", "seconds", "milliseconds"
DIGITS_OF = {SECONDS: 0, MILLISECONDS: 3, "microseconds": 6, "nanoseconds": 9}
"""For each unit of time, the exponent d: a second has 10**d of the unit."""

LATEST = 9.2e18
"""Latest time, in nanoseconds since 1970 (in the year 2261): the limit of an int64."""

LONGEST_DURATION = 1e16
"""Longest duration accepted in a log, in the file's unit. It keeps sums finite, even float32."""

NO_LIST = f"is not a list of numbers from 0 to {LONGEST_DURATION:g}"

_EXACT_FLOATS = 2**53
_LONGEST_DATE = 40
_NO_TIME = "is not a time"
_DIGITS = ".0123456789"

Refuse = Callable[[npt.NDArray[np.bool_], str], None]
"""Function to report unreadable cells: its arguments are a mask of these cells, and the reason."""


def column(records: Sequence[dict[str, Any]], *names: str) -> list[Any]:
    """Look up a column of a log: in each record, the value of the first of ``names`` that has one.

    Parameters
    ----------
    records : sequence of dict
        JSON objects, or rows of a table.
    *names : str
        Alternative names of the column. A name is a key, or a path to a nested key with dots
        between the keys, as in ``"usage.prompt_tokens"``. In a path, a dot that belongs to a key
        has a backslash before it.

    Returns
    -------
    list
        One value for each record; None where the record has none of the names.
    """
    found: list[Any] = []
    for name in names:
        path = tuple(key.replace("\\.", ".") for key in re.split(r"(?<!\\)\.", name))
        for keys in dict.fromkeys([(name,), path]):
            values: list[Any] = [*records]
            for key in keys:
                values = [one.get(key) if type(one) is dict else None for one in values]
            pairs = zip(found, values, strict=True) if found else ()
            found = [own if own is not None else value for own, value in pairs] or values
        if None not in found:
            break
    return found


def lookup(record: Any, *names: str) -> Any:
    """Look up in one record the value of the first of ``names`` that has one, as `column` does.

    Names are keys, or paths to nested keys with dots between the keys. None if no name has a value.
    """
    return column([record], *names)[0]


def inside(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    """Yield all values to which a path of nested keys leads in a JSON value.

    If a value on the path is a list, the path continues in every item of the list.
    """
    for one in value if isinstance(value, list) else [value]:
        if not keys:
            yield one
        elif isinstance(one, dict):
            yield from inside(one.get(keys[0], []), keys[1:])


def as_numbers(cells: Sequence[Any]) -> FloatArray:
    """Convert cells that are numbers, or numbers written as text, to floats; others are NaN."""
    kinds = {*map(type, cells)}
    with suppress(ValueError, OverflowError):
        # In most columns every cell is a number: converting the whole column in one expression is
        # three times as fast as cell by cell.
        text = "".join(cells) if kinds == {str} else ""
        if kinds <= {int, float} or (text.isascii() and "_" not in text and kinds == {str}):
            return np.array([*map(float, cells)])
    return np.fromiter(map(_number, cells), np.float64, len(cells))


def _number(cell: Any) -> float:
    kind = type(cell)
    # Exclude text that float() accepts although it is not a plain number: "1_0" (10 in Python),
    # and digits of other scripts.
    if kind is int or kind is float or (kind is str and cell.isascii() and "_" not in cell):
        try:
            return float(cell)
        except (ValueError, OverflowError):
            pass
    return math.nan


def as_times(cells: Sequence[Any], unit: str | None, refuse: Refuse) -> tuple[IntArray, str | None]:
    """Convert a column of times, all in one unit, to nanoseconds.

    Parameters
    ----------
    cells : sequence
        The cells of a column.
    unit : str or None
        Unit of the cells: a key of `DIGITS_OF`, or `DATES` for dates. Either all dates have a time
        zone or none has. None detects the unit from the first readable cell, a date or a number. A
        number is taken as seconds if, as a Unix time, it is not after the year 5000. Otherwise it
        is taken as a Unix time in milli-, micro- or nanoseconds.
    refuse : Refuse
        Called with a mask of the cells that are not a time or are in another unit.

    Returns
    -------
    int64 array, str or None
        The times in nanoseconds, which are 0 for unreadable cells. And the unit, which is None if
        no cell is readable.
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
        steps = [10.0 ** (8 + digits) for digits in DIGITS_OF.values() if digits]
        finer = np.searchsorted(steps, numbers, side="right")
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
    """Return the index of the first True in a mask; the length of the mask if all are False."""
    return int(np.argmax(mask)) if mask.any() else len(mask)


def _dates(cells: Sequence[Any]) -> tuple[npt.NDArray[np.datetime64], npt.NDArray[np.bool_]]:
    """Convert cells with a date and a time of day to datetimes (NaT for all other cells).

    The second array states for each cell whether its text has a time zone.
    """
    import pandas

    texts = [one.strip()[:_LONGEST_DATE] if isinstance(one, str) else "" for one in cells]
    texts = [one.replace(" UTC", "Z").replace(",", ".") for one in texts]
    zones = np.array([bool(one[19:].strip(_DIGITS)) for one in texts])
    # Accept the years 1700 to 2199 only: differences of other dates may not fit int64 nanoseconds.
    kept = [one if len(one) > 18 and "1700-" <= one < "2200" else "" for one in texts]
    found = pandas.to_datetime(kept, format="ISO8601", utc=True, errors="coerce")
    return found.tz_localize(None).to_numpy().astype("datetime64[ns]"), zones


def nanoseconds(numbers: FloatArray, digits: int = 0) -> IntArray:
    """Convert times >= 0 to whole nanoseconds, without the error of binary fractions.

    Each float is taken as the shortest decimal number that rounds to it. So 0.1 s is exactly 10**8
    ns.

    Parameters
    ----------
    numbers : float64 array
        Times in one unit.
    digits : int, default 0
        The unit of ``numbers``: a second has 10**digits units. 0 means seconds, 3 milliseconds.
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
    """Subtract ``begin`` from each time, in seconds, without the error of binary fractions.

    For example 0.3 - 0.1 gives 0.2. The result is exact to the nanosecond.
    """
    found: FloatArray = (nanoseconds(times) - nanoseconds(np.array([begin]))) / PER_SECOND
    return found


def in_range(cells: Sequence[Any], is_count: bool) -> tuple[FloatArray, npt.NDArray[np.bool_], str]:
    """Convert a column of token counts (``is_count``) or durations to floats, and check the range.

    Return the numbers, a mask of the cells that are unreadable or out of range, and the reason with
    the valid range. Such a cell becomes 0 as a token count and NaN as a duration. Token counts may
    be written as 12.0.
    """
    numbers = as_numbers(cells)
    most, kind = (LARGEST_TOKEN_COUNT, "whole number") if is_count else (LONGEST_DURATION, "number")
    is_good = (numbers >= 0) & (numbers <= most)
    if is_count:
        is_good &= numbers == np.floor(numbers)
    found = np.where(is_good, numbers, 0.0 if is_count else np.nan)
    return found, ~is_good, f"is not a {kind} from 0 to {most if is_count else f'{most:g}'}"


def as_list(values: Any, unit: float = 1.0) -> tuple[npt.NDArray[np.float32], float] | None:
    """Convert a cell with a list of durations to an array in seconds, and the sum of the list.

    ``unit`` is the unit of the durations, in seconds. None counts as an empty list, and its sum is
    NaN. Return None for a cell that is not a list of durations >= 0.
    """
    numbers = [] if values is None else values
    if not isinstance(numbers, list) or not {*map(type, numbers)} <= {int, float}:
        return None
    times = as_numbers(numbers)
    if not ((times >= 0) & (times <= LONGEST_DURATION)).all():
        return None
    return (times * unit).astype(np.float32), float((times * unit).sum()) if numbers else math.nan


def is_blank(value: Any) -> bool:
    """Return True if a cell is empty: None, or text of white space only."""
    return value is None or (isinstance(value, str) and not value.strip())


class BadRow(NamedTuple):
    """A row that cannot be read.

    Attributes
    ----------
    message : str
        Text for an error about this row, with the refused value.
    """

    message: str


NO_OBJECT = BadRow("is not a JSON object")


def bad_cell(column: str, value: Any, reason: str) -> BadRow:
    """Return the `BadRow` for an unreadable cell of a column; an empty cell is "missing"."""
    return BadRow(f"{column} " + ("is missing" if is_blank(value) else f"{shown(value)} {reason}"))

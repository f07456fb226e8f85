"""Cells of logs: times, counts of tokens and durations, and the rows that cannot be read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray
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

LONGEST_NUMBER = LONGEST_SHOWN = 80
"""Characters of a number, and of a refused cell that its error repeats."""

MOST_NAMED = 3
"""Rows that are named for each reason."""

_WHOLE = re.compile(r"(-?)(\d+)(?:\.0*)?", re.ASCII)
"""Whole numbers also as pandas writes them where a cell of their column is empty: 12.0."""

_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,](\d{1,24}))? ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII | re.IGNORECASE,
)
_SAME_FORM = re.compile(r"0000-00-00[ T]00:00:00(\.0{1,9})?(Z|\+00:00)?")
_ZEROS = str.maketrans("123456789", "000000000")
_EPOCH = datetime(1970, 1, 1)
_EPOCH_IN_ZONE = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = Context(prec=2 * LONGEST_NUMBER)


class Clock:
    """Reads the cells of a column of times, all in one unit; ``clock(cell)`` is in ticks.

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
        if (self.unit not in (None, DATES)) if date else self.unit == DATES:
            raise ValueError("is not a time")
        ticks, found = self._date(*date.groups()) if date else self._number(text)
        if self.unit not in (None, found):
            raise ValueError("is in another unit than the rows before")
        # Only a cell that can be read says what the others are.
        self.unit = found
        return ticks

    def _number(self, text: str) -> tuple[int, str]:
        if (
            len(text) > LONGEST_NUMBER
            or not _NUMBER.fullmatch(text)
            or (number := Decimal(text)) < 0
        ):
            raise ValueError("is not a time")
        unit = self._unit_of(number)
        ticks = int(number.scaleb(TICK_DIGITS - DIGITS_OF[unit], _EXACT))
        if ticks >= LATEST:
            raise ValueError("is not a time")
        return ticks, unit

    def _unit_of(self, number: Decimal) -> str:
        if self.unit is not None and self._is_given:
            return self.unit
        finer = reversed(DIGITS_OF.items())
        return next(
            one for one, digits in finer if one == self._coarsest or number >= 10 ** (8 + digits)
        )

    def _date(self, whole: str, digits: str | None, zone: str | None) -> tuple[int, str]:
        try:
            at_zero = zone is not None and zone.upper() in ("Z", "UTC")
            moment = datetime.fromisoformat(whole + ("Z" if at_zero else zone or ""))
        except ValueError:
            raise ValueError("is not a time") from None
        has_zone = zone is not None
        if self._has_zone not in (None, has_zone):
            raise ValueError("has a time zone, or none, unlike the rows before")
        self._has_zone = has_zone
        elapsed = moment - (_EPOCH_IN_ZONE if has_zone else _EPOCH)
        seconds = (elapsed.days * 86_400 + elapsed.seconds) * TICKS_PER_SECOND
        return seconds + int((digits or "").ljust(TICK_DIGITS, "0")), DATES

    def column(self, cells: Sequence[Any], name: str, bad: dict[int, BadRow]) -> list[int]:
        """Read a whole column, as `column_of` does; dates of one form all at once."""
        if cells and self.unit in (None, DATES) and {*map(type, cells)} == {str}:
            texts = "\n".join(cells).translate(_ZEROS).split("\n")
            forms = [_SAME_FORM.fullmatch(one) for one in {*texts}]
            zones = {one and one[2] for one in forms}
            if all(forms) and len(zones) == 1 and min(cells) > "17" and max(cells) < "22":
                with suppress(ValueError):
                    zone = zones.pop() or ""
                    if not all(one.endswith(zone) for one in cells):
                        return column_of(cells, self, name, bad, 0)
                    texts = [one.removesuffix(zone) for one in cells] if zone else [*cells]
                    found = np.array(texts, "datetime64[ns]").astype(np.int64).tolist()
                    self.unit, self._has_zone = DATES, bool(zone)
                    return [one * 10**15 for one in found]
        if cells and self.unit != DATES and {*map(type, cells)} <= {str, int, float}:
            with suppress(ValueError):
                return self._plain_numbers([*map(str, cells)])
        return column_of(cells, self, name, bad, 0)

    def _plain_numbers(self, texts: list[str]) -> list[int]:
        """Read digits with at most a point, all in one unit; ValueError sends them one by one."""
        parts = [one.partition(".") for one in texts]
        is_plain = all(
            whole.isdigit() and (not dot or digits.isdigit()) for whole, dot, digits in parts
        )
        is_short = max(map(len, texts)) <= TICK_DIGITS - max(DIGITS_OF.values())
        if not (is_plain and is_short and "".join(texts).isascii()):
            raise ValueError
        ends = {self._unit_of(Decimal(end(texts, key=float))) for end in (min, max)}
        if len(ends) > 1:
            raise ValueError
        unit = ends.pop()
        places = TICK_DIGITS - DIGITS_OF[unit]
        ticks = [int(whole + digits.ljust(places, "0")) for whole, _, digits in parts]
        if max(ticks) >= LATEST or self.unit not in (None, unit):
            raise ValueError
        self.unit = unit
        return ticks


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
        What stands for a cell that cannot be read.
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
        Not such a number, or more than a request can have; the message says which.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        # Nearly every cell there is.
        return int(value)
    whole = _WHOLE.fullmatch(text_of(value))
    if whole is None:
        raise ValueError("is not a whole number")
    sign, digits = whole.groups()
    if sign and digits.strip("0"):
        raise ValueError("is negative")
    if len(digits) > 20 or int(digits) > LARGEST_TOKEN_COUNT:
        raise ValueError(f"is above {LARGEST_TOKEN_COUNT}")
    return int(digits)


def as_duration(value: Any) -> float:
    """A number >= 0, as text or a number; NaN where the cell is blank.

    Raises
    ------
    ValueError
        Something else; the message says what is wrong.
    """
    if is_blank(value):
        return math.nan
    try:
        # Python reads 1_0 as 10.
        number = float(text_of(value).replace("_", "x"))
    except ValueError:
        raise ValueError("is not a number") from None
    if not math.isfinite(number):
        raise ValueError("is not a finite number")
    if number < 0:
        raise ValueError("is below 0")
    if number > LONGEST_DURATION:
        raise ValueError(f"is above {LONGEST_DURATION:g}")
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
    if not isinstance(values, list) or not {*map(type, values)} <= {int, float}:
        raise ValueError("is not a list of numbers")
    try:
        times = np.array(values, np.float64)
    except OverflowError:
        raise ValueError("is not a list of numbers") from None
    if not ((times >= 0) & (times <= LONGEST_DURATION)).all():
        raise ValueError("holds what is no duration")
    return times


def is_blank(value: Any) -> bool:
    """Tell whether a cell says nothing."""
    return value is None or (isinstance(value, str) and not value.strip())


def as_label(value: Any) -> str | None:
    """Return a cell as the label of a replica; None where it is no text and no number."""
    return text_of(value) or None


class PromptBlocks(NamedTuple):
    """A prompt in blocks, as a log has it for finding prefixes that requests share.

    Attributes
    ----------
    block_size : int
        Tokens of a block; the last one may have fewer.
    hashes : uint64 array
        Hash of each block.
    """

    block_size: int
    hashes: npt.NDArray[np.uint64]


def as_blocks(block_size: Any, hashes: Any) -> PromptBlocks | None:
    """Hold the hashes of a prompt; None where they are no list of whole numbers of 64 bits."""
    is_whole = isinstance(hashes, list) and {*map(type, hashes)} <= {int}
    if not is_whole or type(block_size) is not int or not 0 < block_size <= LARGEST_TOKEN_COUNT:
        return None
    with suppress(OverflowError):
        return PromptBlocks(block_size, np.array(hashes, np.uint64))
    return None


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
    text = str(value).strip()
    is_plain = type(value) is float or text.removeprefix("-").isdigit()
    shown = text if is_plain else repr(value)
    if len(shown) > LONGEST_SHOWN:
        shown = f"{shown[:LONGEST_SHOWN]}..."
    return BadRow(f"{column} {reason}", f"{column} {shown} {reason}")


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

    def __len__(self) -> int:
        return sum(self.counts.values())

    def add(self, number: int, reason: str) -> None:
        """Count a row that was skipped."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        named = self.first_rows.setdefault(reason, [])
        if len(named) < MOST_NAMED:
            named.append(number)

    def __str__(self) -> str:
        most = ", more than half of them" if 2 * len(self) > self.rows else ""
        return f"{len(self):,} of {self.rows:,} rows skipped{most}: {self.reasons()}"

    def reasons(self) -> str:
        """Name the reasons, the most frequent first, with the first rows of each."""
        parts = []
        for reason, count in sorted(self.counts.items(), key=lambda one: -one[1]):
            named = ", ".join(map(str, self.first_rows[reason]))
            more = ", ..." if count > MOST_NAMED else ""
            parts.append(f"{count:,} because {reason} (row{'s'[: count - 1]} {named}{more})")
        return ", ".join(parts)

"""Rows of any trace or log: their fields, the readers of their cells, and bad rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray
from instances.errors import InvalidTypeError, InvalidValueError
from instances.validation import LARGEST_INTEGER, LARGEST_TOKEN_COUNT, as_number

TICK_DIGITS = 24
TICKS_PER_SECOND: int = 10**TICK_DIGITS
"""Times are counted in whole ticks. A float of 10 ns or more has no digits beyond a tick."""

_PLAIN = re.compile(r"(\d{1,25})(?:\.(\d*))?", re.ASCII)
_WHOLE = re.compile(r"(-?)(\d+)(?:\.0*)?", re.ASCII)
"""Whole numbers also as pandas writes them where a cell of their column is empty: 12.0."""

_MINUS_ZERO = re.compile(r"-0+(?:\.0*)?(?:[eE][+-]?\d+)?", re.ASCII)
"""Zero as arithmetic with floats leaves it."""

DATES, SECONDS, MILLISECONDS = "dates", "seconds", "milliseconds"
PER_SECOND = {SECONDS: 1, MILLISECONDS: 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
"""Units of time, and how many of each are a second."""

_UNIT_WORDS = {
    SECONDS: "s sec secs second seconds",
    MILLISECONDS: "ms msec msecs milli millis millisecond milliseconds",
    "microseconds": "us usec usecs micro micros microsecond microseconds",
    "nanoseconds": "ns nsec nsecs nano nanos nanosecond nanoseconds",
}
_UNIT_OF_WORD = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_IN_BRACKETS = re.compile(r"[(\[{]\s*([A-Za-z]+)\.?\s*[)\]}]")

_LATEST = 10**16 * TICKS_PER_SECOND
_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:[.,](\d{1,24}))? ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII | re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1)
_EPOCH_IN_ZONE = datetime(1970, 1, 1, tzinfo=UTC)
_EXPONENT = re.compile(r"\d{1,40}(?:\.\d{0,40})?[eE][+-]?\d{1,2}", re.ASCII)

MOST_INTER_TOKEN_TIMES = 2**24
"""Times between tokens that are held: 64 MiB; of later rows only their mean is."""

LONGEST_DURATION = 1e16
"""In the unit of the file; longer ones have no sum, and no place among floats of 32 bits."""

OnBadRows = Literal["refuse", "skip"]

LONGEST_SHOWN = 80
"""Characters of a refused cell that its error repeats."""

MOST_NAMED = 3
"""Rows that are named for each reason."""

WAY_OUT = "bad_rows='skip' leaves such rows out (in a command FILE(bad_rows=skip))"


class Measured(NamedTuple):
    """Measurements of a request in its log, in seconds; None where it does not say.

    Attributes
    ----------
    latency : float or None
        From arrival to the last token.
    time_to_first_token : float or None
        From arrival to the first token.
    inter_token_times : sequence of float or None
        From each token, or chunk of tokens, to the next.
    mean_inter_token_time : float or None
        Mean time from token to token, where the log has no more than that.
    """

    latency: float | None = None
    time_to_first_token: float | None = None
    inter_token_times: Sequence[float] | FloatArray | None = None
    mean_inter_token_time: float | None = None


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


class Cells(NamedTuple):
    """Cells of a record of a log, before they are checked.

    Attributes
    ----------
    time, prompt, output : Any
        Cells; an output of None is not known.
    measured : Measured or None
        What was measured, checked.
    left_out : str or None
        Why the record is not a request to be served, such as `FAILED_REQUEST`; nothing else is
        looked at then.
    worker : Any
        The cell that names the replica which served the request.
    blocks : PromptBlocks or None
        Hashes of its prompt.
    """

    time: Any = None
    prompt: Any = None
    output: Any = None
    measured: Measured | None = None
    left_out: str | None = None
    worker: Any = None
    blocks: PromptBlocks | None = None


FAILED_REQUEST, WARM_UP, OUTER_SPAN = "failed", "warm-up", "counted by another span"
"""Reasons for leaving out a record that can be read."""

FAILED = Cells(left_out=FAILED_REQUEST)


class TraceRow(NamedTuple):
    """A request as the file has it.

    Attributes
    ----------
    number : int
        Line of the file, the first being 1; in a JSON document, the record.
    ticks : int
        Time on the file's own clock, in units of 10^-24 s.
    prompt_tokens, output_tokens : int
        As counted, 0 included.
    measured : Measured or None
        What the log measured of it; None where the file measures nothing.
    worker : str or None
        Label of the replica that served it; None where the row names none.
    blocks : PromptBlocks or None
        Hashes of its prompt; None where the row has none, and in rows that were sorted.
    """

    number: int
    ticks: int
    prompt_tokens: int
    output_tokens: int
    measured: Measured | None = None
    worker: str | None = None
    blocks: PromptBlocks | None = None

    @property
    def seconds(self) -> Fraction:
        """The time in seconds, exact."""
        return Fraction(self.ticks, TICKS_PER_SECOND)


class Clock:
    """Reads the cells of a column of times, all in one unit; ``clock(cell)`` is in ticks.

    It raises ValueError where a cell holds no time, or one in another unit.

    Parameters
    ----------
    unit : str or None, default None
        `DATES`, all with a time zone or none, or a key of `PER_SECOND`; None takes the unit of the
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

    def __call__(self, value: Any) -> int:
        """Return the time in ticks."""
        found = self.unit
        if not self._is_given and found != DATES:
            found = _unit_of(value, self._coarsest)
        if self.unit is None and found == DATES:
            ticks = self._date(value)
        elif found == DATES and self.unit != DATES:
            raise ValueError("is not a time")
        elif self.unit not in (None, found):
            as_ticks(value)
            raise ValueError("is in another unit than the rows before")
        else:
            ticks = self._date(value) if found == DATES else as_ticks(value, found or SECONDS)
        # Only a cell that can be read says what the others are.
        self.unit = found
        return ticks

    def _date(self, value: Any) -> int:
        stamp = _STAMP.fullmatch(str(value).strip())
        if stamp is None:
            raise ValueError("is not a time")
        whole, digits, zone = stamp.groups()
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
        count: int = (elapsed.days * 86_400 + elapsed.seconds) * TICKS_PER_SECOND
        return count + (int(digits.ljust(TICK_DIGITS, "0")) if digits else 0)


def _unit_of(value: Any, coarsest: str) -> str:
    """Return the unit that the size of a number shows, this one or a finer one, or `DATES`."""
    text = _text(value)
    if _STAMP.fullmatch(text):
        return DATES
    whole = _PLAIN.fullmatch(text)
    if whole or _EXPONENT.fullmatch(text):
        number = int(whole[1]) if whole else int(Decimal(text))
        for unit, per_second in reversed(PER_SECOND.items()):
            if number >= 10**8 * per_second or unit == coarsest:
                return unit
    return coarsest


def named_unit(column: str) -> str | None:
    """Return the unit that the name of a column has in brackets, or ends or begins with.

    Examples
    --------
    >>> named_unit("startTimeMs"), named_unit("Wait (us), mean"), named_unit("status")
    ('milliseconds', 'microseconds', None)
    """
    column = column.replace("\u00b5", "u").replace("\u03bc", "u")
    words = name_words(column)
    # A name that begins with s or us has hardly a unit there.
    first = [one for one in words[:1] if one in ("ms", "ns")]
    for word in (*map(str.lower, _IN_BRACKETS.findall(column)), *words[-1:], *first):
        if word in _UNIT_OF_WORD:
            return _UNIT_OF_WORD[word]
    return None


def name_words(column: str) -> list[str]:
    """Split the name of a column into words, as in ``startTime`` or ``start_time``."""
    return [word.lower() for word in _WORD.findall(column)]


def as_ticks(value: Any, unit: str = SECONDS) -> int:
    """A number of units >= 0, as text, int, float or Decimal, in ticks; what is finer is cut.

    Raises
    ------
    ValueError
        Not such a number, or 10^16 seconds or more.
    """
    text, ticks_per_unit = _text(value), TICKS_PER_SECOND // PER_SECOND[unit]
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        whole, digits = plain.groups()
        ticks = int(whole) * ticks_per_unit
        if ticks < _LATEST:
            return ticks + int(digits) * ticks_per_unit // 10 ** len(digits) if digits else ticks
    if _EXPONENT.fullmatch(text):
        ticks = int(Fraction(Decimal(text)) * ticks_per_unit)
        if ticks < LARGEST_INTEGER * TICKS_PER_SECOND:
            return ticks
    raise ValueError("is not a time")


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
    whole = _WHOLE.fullmatch(_text(value))
    if whole is None:
        raise ValueError("is not a whole number")
    sign, digits = whole.groups()
    if sign:
        raise ValueError("is negative")
    if len(digits) > 20 or int(digits) > LARGEST_TOKEN_COUNT:
        raise ValueError(f"is above {LARGEST_TOKEN_COUNT}")
    return int(digits)


def _text(value: Any) -> str:
    text = ""
    if isinstance(value, str):
        text = value.strip()
    elif isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        # The shortest text that gives a float is what its writer has written.
        text = str(value)
    return "0" if text[:1] == "-" and _MINUS_ZERO.fullmatch(text) else text


def as_label(value: Any) -> str | None:
    """Return a cell as the label of a replica; None where it is blank or no text and no number."""
    if isinstance(value, (bool, list, dict)) or value is None:
        return None
    return str(value).strip() or None


def as_blocks(block_size: Any, hashes: Any) -> PromptBlocks | None:
    """Hold the hashes of a prompt; None where they are no list of whole numbers of 64 bits."""
    is_whole = (
        type(block_size) is int and isinstance(hashes, list) and {*map(type, hashes)} <= {int}
    )
    if not is_whole or not 0 < block_size <= LARGEST_TOKEN_COUNT:
        return None
    try:
        return PromptBlocks(block_size, np.array(hashes, np.uint64))
    except OverflowError:
        return None


def as_duration(value: Any, name: str) -> float:
    """A number >= 0.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Something else.
    """
    return as_number(value, None, name, minimum=0, maximum=LONGEST_DURATION)


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


# --- rows that cannot be read -------------------------------------------------------------------


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
    """Say why a cell cannot be read.

    Parameters
    ----------
    column : str
        Its column.
    value : Any
        What it holds.
    reason : str
        What is wrong with it; an empty cell is always missing.
    """
    text = "" if value is None else str(value).strip()
    if not text:
        return BadRow(f"{column} is missing", f"{column} is missing")
    is_plain = isinstance(value, (float, Decimal)) or text.removeprefix("-").isdigit()
    shown = text if is_plain else repr(value)
    if len(shown) > LONGEST_SHOWN:
        shown = f"{shown[:LONGEST_SHOWN]}..."
    return BadRow(f"{column} {reason}", f"{column} {shown} {reason}")


@dataclass
class SkippedRows:
    """Rows of a trace that were skipped, counted by reason; `str` says it in a line.

    Attributes
    ----------
    rows : int
        All rows read so far, skipped or not.
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


def check_bad_rows(value: Any) -> OnBadRows:
    """``value`` if it says what becomes of rows that cannot be read.

    Raises
    ------
    InvalidValueError
        It does not.
    """
    if value not in get_args(OnBadRows):
        raise InvalidValueError(None, "bad_rows", value, "is neither 'refuse' nor 'skip'")
    found: OnBadRows = value
    return found

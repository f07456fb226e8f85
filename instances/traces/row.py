"""What a trace format has to say, and what a row of any of them becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, NamedTuple

from instances.arrays import FloatArray
from instances.validation import LARGEST_INTEGER, LARGEST_TOKEN_COUNT

TICK_DIGITS = 24
TICKS_PER_SECOND = 10**TICK_DIGITS
"""Times are counted in whole ticks. A float of 10 ns or more has no digits beyond a tick."""

_PLAIN = re.compile(r"(\d{1,16})(?:\.(\d*))?", re.ASCII)
_STAMP = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(\d{1,24}))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1)
_EPOCH_IN_ZONE = datetime(1970, 1, 1, tzinfo=UTC)
_EXPONENT = re.compile(r"\d{1,40}(?:\.\d{0,40})?[eE][+-]?\d{1,2}", re.ASCII)

Clock = Callable[[Any], int]
"""From a cell to its time in ticks; raises ValueError where it holds none."""


class Measured(NamedTuple):
    """What a log measured of a request itself, in seconds; None where it does not say.

    Attributes
    ----------
    latency : float or None
        From arrival to the last token.
    time_to_first_token : float or None
        From arrival to the first token.
    inter_token_times : sequence of float or None
        From each token, or chunk of tokens, to the next.
    mean_inter_token_time : float or None
        Their mean, where the log has no more than that.
    """

    latency: float | None = None
    time_to_first_token: float | None = None
    inter_token_times: Sequence[float] | FloatArray | None = None
    mean_inter_token_time: float | None = None


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
    """

    number: int
    ticks: int
    prompt_tokens: int
    output_tokens: int
    measured: Measured | None = None

    @property
    def seconds(self) -> Fraction:
        """The time in seconds, exact."""
        return Fraction(self.ticks, TICKS_PER_SECOND)


@dataclass(frozen=True)
class TraceFormat:
    """Where a published format keeps arrival, prompt and output.

    Attributes
    ----------
    name : str
        What ``format=`` and ``--trace-format`` call it.
    source : str
        The dataset it is from.
    container : Literal[csv, jsonl] or None
        ``"csv"`` with a header line, or ``"jsonl"``, one JSON object a line; None is told from the
        file.
    time, prompt, output : str or None, str, str
        The columns or keys that are read; others are passed over. No ``time``: lengths only.
    new_clock : Callable[[], Clock]
        Called once a file; reads the cells of ``time``.
    time_is_optional : bool
        Whether files without ``time`` are of this format too.
    is_in_order : bool
        Whether rows promise to be in order of time; others are sorted unless told otherwise.
    """

    name: str
    source: str
    container: Literal["csv", "jsonl"] | None
    time: str | None
    prompt: str
    output: str
    new_clock: Callable[[], Clock]
    time_is_optional: bool = False
    is_in_order: bool = True

    @property
    def required(self) -> tuple[str, ...]:
        """Columns no file of this format is without."""
        lengths = (self.prompt, self.output)
        return lengths if self.time is None or self.time_is_optional else (self.time, *lengths)

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that are read where they are there."""
        lengths = (self.prompt, self.output)
        return lengths if self.time is None else (self.time, *lengths)


def seconds_clock() -> Clock:
    """Cells that are a number of seconds >= 0."""
    return as_ticks


def date_clock() -> Clock:
    """Cells that are a date with a time of day; all with a time zone or none."""
    zoned: bool | None = None

    def ticks(value: Any) -> int:
        nonlocal zoned
        stamp = _STAMP.fullmatch(str(value).strip())
        if stamp is None:
            raise ValueError("is not a time")
        whole, digits, zone = stamp.groups()
        try:
            moment = datetime.fromisoformat(whole + (zone or ""))
        except ValueError:
            raise ValueError("is not a time") from None
        if zoned is None:
            zoned = zone is not None
        elif zoned != (zone is not None):
            raise ValueError("has a time zone, or none, unlike the rows before")
        elapsed = moment - (_EPOCH_IN_ZONE if zoned else _EPOCH)
        count: int = (elapsed.days * 86_400 + elapsed.seconds) * TICKS_PER_SECOND
        return count + (int(digits.ljust(TICK_DIGITS, "0")) if digits else 0)

    return ticks


def any_clock() -> Clock:
    """Cells that are numbers of seconds, or dates: as the first one is."""
    chosen: Clock | None = None

    def ticks(value: Any) -> int:
        nonlocal chosen
        if chosen is None:
            is_date = _STAMP.fullmatch(str(value).strip()) is not None
            chosen = date_clock() if is_date else as_ticks
        return chosen(value)

    return ticks


def as_ticks(value: Any, unit: int = TICKS_PER_SECOND) -> int:
    """A number of units >= 0, as text, int or Decimal, in ticks; what is finer is cut.

    Raises
    ------
    ValueError
        Not such a number, or 10^16 units or more.
    """
    text = _text(value)
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        whole, digits = plain.groups()
        ticks = int(whole) * unit
        return ticks + int(digits) * unit // 10 ** len(digits) if digits else ticks
    if _EXPONENT.fullmatch(text):
        number = Decimal(text)
        if number < LARGEST_INTEGER:
            return int(Fraction(number) * unit)
    raise ValueError("is not a time")


def as_count(value: Any) -> int:
    """A whole number of tokens >= 0, as text or int.

    Raises
    ------
    ValueError
        Not such a number, or more than a request can have; the message says which.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        # Nearly every cell there is.
        return int(value)
    text = _text(value)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("is not a whole number")
    if text != digits:
        raise ValueError("is negative")
    if len(digits) > 20 or int(digits) > LARGEST_TOKEN_COUNT:
        raise ValueError(f"is above {LARGEST_TOKEN_COUNT}")
    return int(digits)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return str(value)
    return ""

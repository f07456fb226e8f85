"""A window of an Azure LLM inference trace (2023) as an instance.

The files have the columns ``TIMESTAMP,ContextTokens,GeneratedTokens``. The rule, in order:

1. The window is ``start_seconds <= time - time of the first row < start_seconds +
   duration_seconds``, cut to its first ``max_requests`` rows.
2. Token counts are divided by ``token_scale`` and rounded up; so a scaled round is
   ``token_scale`` tokens long, and ``memory_limit`` counts scaled tokens.
3. A request arriving ``x`` seconds into the window can first start at round
   ceil(x / ``round_seconds``): decisions happen at round boundaries only.
4. A row with no prompt or no output token is dropped. A request with s + o > M is dropped, or
   with ``too_long="clip"`` its output is cut to M - s (and dropped where s >= M).

`read_azure_workload` leaves out rules 2 and 3: tokens are tokens and arrivals seconds.

Every row dropped or clipped is counted in `TraceReport`, which also travels in the metadata of
the instance or workload.
"""

from __future__ import annotations

import csv
import math
import os
from dataclasses import asdict, dataclass
from datetime import datetime
from fractions import Fraction
from typing import Literal

from .errors import FileFormatError, InvalidTypeError, InvalidValueError
from .instance import Instance
from .request import Request
from .validation import LARGEST_TOKEN_COUNT, as_integer
from .workload import Workload

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


@dataclass(frozen=True)
class TraceReport:
    """What became of the rows of a trace window.

    Attributes
    ----------
    source : the file's name.
    rows_in_window : rows the window holds, before anything is dropped.
    kept : requests of the instance.
    dropped_empty : rows without a prompt or an output token.
    dropped_too_long : requests with s + o > M left out.
    clipped : requests whose output was cut to M - s.
    round_seconds, token_scale, start_seconds, duration_seconds : the rule applied;
        ``round_seconds`` is None where arrivals are in seconds.
    """

    source: str
    rows_in_window: int
    kept: int
    dropped_empty: int
    dropped_too_long: int
    clipped: int
    round_seconds: float | None
    token_scale: int
    start_seconds: float
    duration_seconds: float | None

    def __str__(self) -> str:
        unit = (
            "arrivals in seconds"
            if self.round_seconds is None
            else f"a round is {self.round_seconds:g} s and {self.token_scale} token(s)"
        )
        return (
            f"{self.source}: {self.kept} of {self.rows_in_window} rows kept "
            f"({self.dropped_empty} empty, {self.dropped_too_long} too long, "
            f"{self.clipped} clipped); {unit}"
        )


def read_azure_trace(
    path: str | os.PathLike[str],
    *,
    memory_limit: int,
    round_seconds: float = 0.05,
    token_scale: int = 1,
    start_seconds: float = 0.0,
    duration_seconds: float | None = None,
    max_requests: int | None = None,
    too_long: Literal["drop", "clip"] = "drop",
) -> tuple[Instance, TraceReport]:
    """Read a window of an Azure trace by the rule of this module.

    Parameters
    ----------
    path : CSV with the columns ``TIMESTAMP,ContextTokens,GeneratedTokens``.
    memory_limit : M, in scaled tokens.
    round_seconds : seconds a round lasts, > 0.
    token_scale : tokens per scaled token, >= 1.
    start_seconds, duration_seconds : the window, from the first row; None runs to the end.
    max_requests : rows the window holds at most, before anything is dropped; None for all.
    too_long : what happens to a request with s + o > M.

    Raises
    ------
    OSError: the file cannot be read.
    FileFormatError: a missing column, a malformed row (with its number), or an empty window.
    InvalidValueError, InvalidTypeError: a parameter out of range.
    """
    round_seconds = _as_seconds(round_seconds, "round_seconds", positive=True)
    rows, report = _requests(
        path,
        memory_limit,
        round_seconds,
        token_scale,
        start_seconds,
        duration_seconds,
        max_requests,
        too_long,
    )
    # Exact rational division: a float quotient can land just above a whole round.
    length = Fraction(str(round_seconds))
    requests = [
        Request(math.ceil(Fraction(seconds) / length), prompt, output, f"row{number}")
        for number, seconds, prompt, output in rows
    ]
    return Instance(requests, memory_limit, _name(report), {"trace": asdict(report)}), report


def read_azure_workload(
    path: str | os.PathLike[str],
    *,
    memory_limit: int,
    start_seconds: float = 0.0,
    duration_seconds: float | None = None,
    max_requests: int | None = None,
    too_long: Literal["drop", "clip"] = "drop",
) -> tuple[Workload, TraceReport]:
    """Read a window of an Azure trace at its own arrival times, in seconds.

    Parameters
    ----------
    path, start_seconds, duration_seconds, max_requests, too_long : as in `read_azure_trace`;
        arrival times count from the window's start.
    memory_limit : M, tokens.

    Raises
    ------
    OSError, FileFormatError, InvalidValueError, InvalidTypeError: as in `read_azure_trace`.
    """
    rows, report = _requests(
        path,
        memory_limit,
        None,
        1,
        start_seconds,
        duration_seconds,
        max_requests,
        too_long,
    )
    numbers, seconds, prompts, outputs = zip(*rows, strict=True)
    workload = Workload(
        [float(second) for second in seconds],
        prompts,
        outputs,
        memory_limit=memory_limit,
        ids=[f"row{number}" for number in numbers],
        name=_name(report),
        metadata={"trace": asdict(report)},
    )
    return workload, report


def _name(report: TraceReport) -> str:
    return f"{report.source.removesuffix('.csv')}[{report.start_seconds:g}s+{report.kept}]"


def _requests(
    path: str | os.PathLike[str],
    memory_limit: int,
    round_seconds: float | None,
    token_scale: int,
    start_seconds: float,
    duration_seconds: float | None,
    max_requests: int | None,
    too_long: str,
) -> tuple[list[tuple[int, Fraction, int, int]], TraceReport]:
    """What is left of the window as (file row, seconds, prompt, output), and what was done."""
    start_seconds = _as_seconds(start_seconds, "start_seconds")
    if duration_seconds is not None:
        duration_seconds = _as_seconds(duration_seconds, "duration_seconds", positive=True)
    token_scale = as_integer(token_scale, None, "token_scale", minimum=1)
    memory_limit = as_integer(
        memory_limit, None, "memory_limit", minimum=1, maximum=LARGEST_TOKEN_COUNT
    )
    if max_requests is not None:
        max_requests = as_integer(max_requests, None, "max_requests", minimum=1)
    if too_long not in ("drop", "clip"):
        raise InvalidValueError(None, "too_long", too_long, "is neither 'drop' nor 'clip'")

    rows = _window(path, start_seconds, duration_seconds, max_requests)
    kept: list[tuple[int, Fraction, int, int]] = []
    dropped_empty = dropped_too_long = clipped = 0
    for number, seconds, context, generated in rows:
        prompt = -(-context // token_scale)
        output = -(-generated // token_scale)
        if prompt == 0 or output == 0:
            dropped_empty += 1
            continue
        if prompt + output > memory_limit:
            if too_long == "drop" or prompt >= memory_limit:
                dropped_too_long += 1
                continue
            output = memory_limit - prompt
            clipped += 1
        kept.append((number, seconds, prompt, output))
    if not kept:
        raise FileFormatError(
            path,
            f"no request is left of the {len(rows)} rows in the window "
            f"({dropped_empty} empty, {dropped_too_long} longer than memory_limit)",
        )
    report = TraceReport(
        os.path.basename(os.fspath(path)),
        len(rows),
        len(kept),
        dropped_empty,
        dropped_too_long,
        clipped,
        round_seconds,
        token_scale,
        start_seconds,
        duration_seconds,
    )
    return kept, report


def _window(
    path: str | os.PathLike[str],
    start_seconds: float,
    duration_seconds: float | None,
    max_requests: int | None,
) -> list[tuple[int, Fraction, int, int]]:
    """Rows of the window as (file row, seconds since the window's start, prompt, output)."""
    start = Fraction(str(start_seconds))
    end = None if duration_seconds is None else start + Fraction(str(duration_seconds))
    window: list[tuple[int, Fraction, int, int]] = []
    with open(path, newline="", encoding="utf-8-sig") as stream:
        reader = csv.DictReader(stream)
        try:
            header = reader.fieldnames or []
            for column in COLUMNS:
                if column not in header:
                    raise FileFormatError(
                        path, f"column {column!r} is missing (found: {', '.join(header) or 'none'})"
                    )
            origin: Fraction | None = None
            previous: Fraction | None = None
            for row in reader:
                number = reader.line_num
                if None in row:
                    raise FileFormatError(path, "has more cells than the header", row=number)
                moment = _timestamp(row["TIMESTAMP"], path, number)
                context = _count(row["ContextTokens"], "ContextTokens", path, number)
                generated = _count(row["GeneratedTokens"], "GeneratedTokens", path, number)
                if origin is None:
                    origin = moment
                if previous is not None and moment < previous:
                    raise FileFormatError(path, "TIMESTAMP goes back in time", row=number)
                previous = moment
                elapsed = moment - origin
                if elapsed < start:
                    continue
                if end is not None and elapsed >= end:
                    break
                window.append((number, elapsed - start, context, generated))
                if max_requests is not None and len(window) == max_requests:
                    break
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(path, f"not a CSV file: {error}") from error
    if not window:
        raise FileFormatError(path, "the window holds no rows")
    return window


def _timestamp(text: str | None, path: str | os.PathLike[str], row: int) -> Fraction:
    """Seconds since an arbitrary origin, exact to the trace's seven digits."""
    try:
        whole, _, digits = (text or "").strip().partition(".")
        moment = datetime.fromisoformat(whole)
        if digits and not (digits.isascii() and digits.isdigit()):
            raise ValueError
        if moment.tzinfo is not None:
            # The traces carry no zone; one in a single row would shift it against the others.
            raise ValueError
    except ValueError as error:
        raise FileFormatError(path, f"TIMESTAMP {text!r} is not a time", row=row) from error
    seconds = (moment - datetime(1970, 1, 1)).total_seconds()
    return Fraction(int(seconds)) + (Fraction(int(digits), 10 ** len(digits)) if digits else 0)


def _count(text: str | None, column: str, path: str | os.PathLike[str], row: int) -> int:
    cell = (text or "").strip()
    digits = cell.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise FileFormatError(path, f"{column} {text!r} is not a whole number", row=row)
    if cell != digits:
        raise FileFormatError(path, f"{column} {cell} is negative", row=row)
    return int(digits)


def _as_seconds(value: float, field: str, *, positive: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidTypeError(None, field, value, "is not a number of seconds")
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        raise InvalidValueError(
            None, field, value, "is not above 0" if positive else "is not a finite time >= 0"
        )
    return float(value)

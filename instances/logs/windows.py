"""A window of a log as an instance.

The rule, in order:

0. Rows are put in order of time; how many went back in time is in the report.
1. The window is ``start_seconds <= time - time of the first row < start_seconds +
   duration_seconds``, cut to its first ``max_requests`` rows.
2. Token counts are divided by ``token_scale`` and rounded up; so a scaled round is
   ``token_scale`` tokens long, and ``memory_limit`` counts scaled tokens.
3. A request arriving ``x`` seconds into the window can first start at round
   ceil(x / ``round_seconds``): decisions happen at round boundaries only. In a file without
   arrival times every request arrives at round 0.
4. A row with no prompt or no output token is dropped. A request with s + o > M is dropped, or
   with ``too_long="clip"`` its output is cut to M - s (and dropped where s >= M).

A row that cannot be read is an error, or with ``bad_rows="skip"`` none of these rules sees it.
Every row skipped, dropped or clipped is counted in `TraceReport`, which also travels in the
instance's metadata. Windows in seconds leave out rules 2 and 3: tokens are tokens, and arrivals
are seconds.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from instances.errors import FileFormatError, InvalidValueError
from instances.problem.instance import Instance
from instances.problem.memory_rule import TOKENS, MemoryRule, as_memory_rule
from instances.problem.request import Request
from instances.problem.workload import Workload
from instances.validation import LARGEST_TOKEN_COUNT, check_ranges, ranged

from .cells import TICKS_PER_SECOND, SkippedRows
from .formats import wanted_format
from .reading import OnBadRows, Rows, check_bad_rows, read_rows
from .request_log import arrivals_note, name_of

SUFFIXES = (".gz", ".csv", ".jsonl", ".json", ".yaml")
OF_ROUNDS = ("round_seconds", "token_scale")
OF_FILE = ("format", "has_arrival_times", "failed", "out_of_order", "left_out", "time_unit", "note")


@dataclass(frozen=True)
class TraceReport:
    """Report on the reading of a window: rules applied, rows kept, and rows left out.

    Attributes
    ----------
    source : str
        The file's name.
    format : str
        What it was read as.
    has_arrival_times : bool
        False for a file of lengths only.
    rows_in_window : int
        Rows the window holds, before anything is dropped.
    kept : int
        Requests of the instance.
    dropped_empty : int
        Rows without a prompt or an output token.
    dropped_too_long : int
        Requests with s + o > M left out.
    clipped : int
        Requests whose output was cut to M - s.
    round_seconds, token_scale, start_seconds, duration_seconds
        The rule applied; ``round_seconds`` is None where arrivals are in seconds.
    columns : Mapping[str, str] or None
        Which column held what, where the user said so.
    out_of_order : int
        Rows that arrived before the row above them.
    failed : int
        Failed requests of the log; they do not count as rows.
    left_out : Mapping[str, int]
        Rows that are not requests to be served for another reason, by reason.
    time_unit : str or None
        Unit in which the file has arrivals, or ``"dates"``; None where it has none.
    span_seconds : float
        From the first to the last arrival in the window.
    note : str or None
        What had to be assumed in reading the file.
    skipped : SkippedRows or None
        Rows of the file that cannot be read, by reason; None where there are none.
    """

    source: str
    format: str
    has_arrival_times: bool
    rows_in_window: int
    kept: int
    dropped_empty: int
    dropped_too_long: int
    clipped: int
    round_seconds: float | None
    token_scale: int
    start_seconds: float
    duration_seconds: float | None
    columns: Mapping[str, str] | None = None
    out_of_order: int = 0
    failed: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    time_unit: str | None = None
    span_seconds: float = 0.0
    note: str | None = None
    skipped: SkippedRows | None = None

    def __str__(self) -> str:
        unit, origin = "arrivals in seconds", "second 0"
        if self.round_seconds is not None:
            unit = f"a round is {self.round_seconds:g} s and {self.token_scale} token(s)"
            origin = "round 0"
        kept = (
            f"{self.source}: {self.kept} of {self.rows_in_window} rows kept "
            f"({self.dropped_empty} empty, {self.dropped_too_long} too long, "
            f"{self.clipped} clipped)"
        )
        parts = [
            kept,
            unit,
            arrivals_note(self.time_unit, self.span_seconds, origin),
            *[f"sorted, {self.out_of_order} out of order"] * bool(self.out_of_order),
            *[f"{self.failed} failed and left out"] * bool(self.failed),
            *[f"{count} {why} and left out" for why, count in self.left_out.items()],
            *[str(one) for one in (self.note, self.skipped) if one is not None],
        ]
        return "; ".join(parts)


@dataclass(frozen=True, kw_only=True)
class TraceRule:
    """Rule for reading windows of a file and making requests of their rows.

    Attributes
    ----------
    memory_limit : int
        M, in scaled tokens.
    format, columns, bad_rows : str or None, Mapping[str, str] or None, str
        As in `read_log`.
    round_seconds : float, default 0.05
        Seconds a round lasts, > 0.
    token_scale : int, default 1
        Tokens per scaled token, >= 1.
    start_seconds, duration_seconds : float, float or None
        The window, from the first row; None runs to the end.
    max_requests : int or None, default None
        Rows the window holds at most, before anything is dropped; None for all.
    too_long : {"drop", "clip"}, default "drop"
        What happens to a request with s + o > M, or what the memory rule makes of it.
    memory_rule : MemoryRule, default TOKENS
        How memory is counted.
    windows : int, default 1
        How many there are; the k-th starts k ``duration_seconds`` after the first.

    Raises
    ------
    UnknownNameError, InvalidValueError, InvalidTypeError
        A field out of range.
    """

    memory_limit: int = ranged(minimum=1, maximum=LARGEST_TOKEN_COUNT)
    format: str | None = None
    columns: Mapping[str, str] | None = None
    round_seconds: float = ranged(0.05, above=0)
    token_scale: int = ranged(1, minimum=1)
    start_seconds: float = ranged(0.0, minimum=0)
    duration_seconds: float | None = ranged(None, above=0)
    max_requests: int | None = ranged(None, minimum=1)
    too_long: Literal["drop", "clip"] = "drop"
    memory_rule: MemoryRule = TOKENS
    bad_rows: OnBadRows = "refuse"
    windows: int = ranged(1, minimum=1)

    def __post_init__(self) -> None:
        wanted_format(self.format, self.columns)
        check_bad_rows(self.bad_rows)
        check_ranges(self, None)
        as_memory_rule(self.memory_rule, None)
        if self.too_long not in ("drop", "clip"):
            raise InvalidValueError(None, "too_long", self.too_long, "is neither 'drop' nor 'clip'")
        if self.windows > 1 and self.duration_seconds is None:
            reason = "is more than one: how long is each?"
            raise InvalidValueError(None, "windows", self.windows, reason)

    def start_of(self, window: int) -> Fraction:
        """Return the seconds from the first row to the start of a window, numbered from 0."""
        # str, because 0.1 is meant to be a tenth.
        start = Fraction(str(self.start_seconds))
        return start + window * Fraction(str(self.duration_seconds or 0))


def read_trace(path: str | os.PathLike[str], **options: Any) -> tuple[Instance, TraceReport]:
    """Read a window of a trace by the rule of this module.

    Parameters
    ----------
    path : str or os.PathLike
        Any file that `read_log` reads.
    **options : Any
        Fields of `TraceRule` but ``windows``; ``memory_limit`` is needed.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        As in `read_log`, an empty window, or a window in a file without arrival times.
    UnknownNameError, InvalidValueError, InvalidTypeError
        An option out of range.
    """
    (window,) = trace_windows(path, windows=1, **options)
    return window


def read_workload(path: str | os.PathLike[str], **options: Any) -> tuple[Workload, TraceReport]:
    """Read a window of a trace at its own arrival times, in seconds from the window's start.

    Parameters and errors are those of `read_trace`; there are no rounds and no scaled tokens.
    """
    (window,) = trace_windows(path, windows=1, in_seconds=True, **options)
    return window


def trace_windows(
    path: str | os.PathLike[str], *, windows: int = 1, in_seconds: bool = False, **options: Any
) -> Iterator[tuple[Any, TraceReport]]:
    """Read consecutive windows of equal length.

    Other parameters and errors are those of `read_trace`; options are checked at once, the file is
    read when the first window is asked for.

    Parameters
    ----------
    path : str | os.PathLike[str]
        A file.
    windows : int, default 1
        How many; the k-th starts k ``duration_seconds`` after the first.
    in_seconds : bool, default False
        Whether windows are workloads, as `read_workload` reads them.
    """
    window = f"a window in {'seconds' if in_seconds else 'rounds'}"
    known = [one.name for one in fields(TraceRule) if one.name != "windows"]
    known = [one for one in known if not in_seconds or one not in OF_ROUNDS]
    for name in options.keys() - {*known}:
        if name in OF_ROUNDS:
            reason = "is for windows in rounds: in seconds nothing is rounded"
            raise InvalidValueError(None, name, options[name], reason)
        raise TypeError(f"{window} has no {name}; known: {', '.join(known)}")
    if "memory_limit" not in options:
        raise TypeError(f"{window} needs memory_limit")
    rule = TraceRule(windows=windows, **options)
    return _windows(path, rule, in_seconds)


def _windows(
    path: str | os.PathLike[str], rule: TraceRule, in_seconds: bool
) -> Iterator[tuple[Any, TraceReport]]:
    rows = read_rows(path, rule.format, rule.columns, bad_rows=rule.bad_rows)
    if not rows.facts["has_arrival_times"] and (rule.start_seconds or rule.duration_seconds):
        reason = f"has no arrival times (column {rows.arrival!r}): no window can be cut out of it "
        raise FileFormatError(path, reason + "by start_seconds or duration_seconds")
    elapsed = [one - rows.ticks[0] for one in rows.ticks]
    for index in range(rule.windows):
        start, end = (math.ceil(rule.start_of(k) * TICKS_PER_SECOND) for k in (index, index + 1))
        first, last = bisect_left(elapsed, start), len(elapsed)
        if rule.duration_seconds is not None:
            last = bisect_left(elapsed, end)
        if rule.max_requests is not None:
            last = min(last, first + rule.max_requests)
        arrays = {name: column[first:last] for name, column in rows.arrays.items()}
        window = rows._replace(ticks=elapsed[first:last], arrays=arrays)
        yield _window(path, rule, window, rule.start_of(index), in_seconds)


def _window(
    path: str | os.PathLike[str], rule: TraceRule, rows: Rows, start: Fraction, in_seconds: bool
) -> tuple[Any, TraceReport]:
    """Make a problem of the rows of a window, whose times are ticks since the first of the file."""
    facts, count = rows.facts, len(rows.ticks)
    skipped = facts["skipped"] or None
    if not count:
        reason = f"the window holds no rows{f'; {skipped}' if skipped else ''}"
        raise FileFormatError(path, reason)
    lengths = (rows.arrays["prompt_lengths"], rows.arrays["output_lengths"])
    prompts, outputs = (-(-one // rule.token_scale) for one in lengths)
    is_empty = (prompts == 0) | (outputs == 0)
    room = rule.memory_rule.limit(rule.memory_limit) + rule.memory_rule.unstored - prompts
    is_long = ~is_empty & (outputs > room)
    is_clipped = is_long & (room > 0) & (rule.too_long == "clip")
    outputs = np.where(is_clipped, room, outputs)
    kept = np.flatnonzero(~is_empty & (is_clipped | ~is_long))
    empty, too_long, clipped = (int(one.sum()) for one in (is_empty, is_long, is_clipped))
    too_long -= clipped
    if not len(kept):
        raise FileFormatError(
            path,
            f"no request is left of the {count} rows in the window "
            f"({empty} empty, {too_long} longer than memory_limit)",
        )
    report = TraceReport(
        source=name_of(path),
        rows_in_window=count,
        kept=len(kept),
        dropped_empty=empty,
        dropped_too_long=too_long,
        clipped=clipped,
        round_seconds=None if in_seconds else rule.round_seconds,
        token_scale=rule.token_scale,
        start_seconds=float(start),
        duration_seconds=rule.duration_seconds,
        columns=None if rule.columns is None else dict(rule.columns),
        span_seconds=(rows.ticks[-1] - rows.ticks[0]) / TICKS_PER_SECOND,
        skipped=skipped,
        **{name: facts[name] for name in OF_FILE},
    )
    stem = report.source
    for suffix in SUFFIXES:
        stem = stem.removesuffix(suffix)
    told: dict[str, Any] = {
        "memory_limit": rule.memory_limit,
        "name": f"{stem}[{report.start_seconds:g}s+{report.kept}]",
        "metadata": {"trace": asdict(report)},
        "memory_rule": rule.memory_rule,
    }
    # Exact rational division: a float quotient can land just above a whole round.
    step = Fraction(1 if in_seconds else str(rule.round_seconds)) * TICKS_PER_SECOND
    begin = math.ceil(start * TICKS_PER_SECOND) if facts["has_arrival_times"] else 0
    ids = [f"row{one}" for one in rows.arrays["row_numbers"][kept].tolist()]
    columns = [prompts[kept].tolist(), outputs[kept].tolist()]
    since = [rows.ticks[k] - begin for k in kept.tolist()]
    if in_seconds:
        seconds = [one / TICKS_PER_SECOND for one in since]
        return Workload(seconds, *columns, ids=ids, **told), report
    top, bottom = step.denominator, step.numerator
    arrivals = [-(-one * top // bottom) for one in since]
    requests = [Request(*one) for one in zip(arrivals, *columns, ids, strict=True)]
    return Instance(requests, **told), report

"""A window of a trace as an instance.

The rule, in order:

0. Rows are taken in the order of the file, which must be that of their times, or in order of time
   where they are sorted: logs, columns named by the user, and all with ``sort``.
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
instance's metadata. Rows are read one at a time: only the requests of one window are held, unless
the file has to be sorted.

`read_workload` leaves out rules 2 and 3: tokens are tokens, and arrivals are seconds.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any, Literal, Required, TypedDict, Unpack

from instances.errors import FileFormatError, InvalidValueError, printable
from instances.problem.instance import Instance
from instances.problem.memory_rule import TOKENS, MemoryRule, as_memory_rule
from instances.problem.request import Request
from instances.problem.workload import Workload
from instances.validation import LARGEST_TOKEN_COUNT, as_flag, check_ranges, ranged

from .detection import wanted_format
from .reading import TraceReader
from .request_log import arrivals_note
from .row import TICKS_PER_SECOND, OnBadRows, SkippedRows, TraceRow, check_bad_rows

COUNTS = ("rows_in_window", "dropped_empty", "dropped_too_long", "clipped")
"""Fields of `TraceReport` that count rows while a window is read."""

SUFFIXES = (".gz", ".csv", ".jsonl", ".json", ".yaml")


@dataclass(frozen=True)
class TraceReport:
    """Report on the reading of a trace window: rules applied, rows kept, and rows left out.

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
    out_of_order : int or None
        Rows that arrived before the row above them in a file that was sorted; None if the file
        was not sorted.
    failed : int
        Failed requests of the log up to the window's end; they do not count as rows.
    left_out : Mapping[str, int]
        Rows that are not requests to be served for another reason, by reason.
    time_unit : str or None
        Unit in which the file has arrivals, or ``"dates"``; None where it has none.
    span_seconds : float
        From the first to the last arrival in the window.
    note : str or None
        What had to be assumed in reading the file.
    skipped : SkippedRows or None
        Rows up to the window's end that cannot be read, by reason; None where there are none.
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
    out_of_order: int | None = None
    failed: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    time_unit: str | None = None
    span_seconds: float = 0.0
    note: str | None = None
    skipped: SkippedRows | None = None

    def __str__(self) -> str:
        if self.round_seconds is None:
            unit, origin = "arrivals in seconds", "second 0"
        else:
            unit = f"a round is {self.round_seconds:g} s and {self.token_scale} token(s)"
            origin = "round 0"
        return (
            f"{self.source}: {self.kept} of {self.rows_in_window} rows kept "
            f"({self.dropped_empty} empty, {self.dropped_too_long} too long, "
            f"{self.clipped} clipped); {unit}"
            f"; {arrivals_note(self.time_unit, self.span_seconds, origin)}"
            f"{'' if self.out_of_order is None else f'; sorted, {self.out_of_order} out of order'}"
            f"{f'; {self.failed} failed and left out' if self.failed else ''}"
            f"{''.join(f'; {count} {why} and left out' for why, count in self.left_out.items())}"
            f"{'' if self.note is None else f'; {self.note}'}"
            f"{'' if self.skipped is None else f'; {self.skipped}'}"
        )


@dataclass(frozen=True, kw_only=True)
class TraceRule:
    """Rule for reading windows of a file and making requests of their rows.

    Attributes
    ----------
    memory_limit : int
        M, in scaled tokens.
    format : str or None, default None
        A name in `FORMATS`, such as ``"azure"`` or ``"vllm-bench"``; None tells it from the file.
    columns, sort : Mapping[str, str] or None, bool or None
        Which column holds what in any other file, and whether rows are put in order of arrival
        first, as in `open_trace`.
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
    bad_rows : {"refuse", "skip"}, default "refuse"
        What becomes of rows that cannot be read, as in `open_trace`.
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
    sort: bool | None = None
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
        if self.sort is not None:
            as_flag(self.sort, None, "sort")
        check_ranges(self, None)
        as_memory_rule(self.memory_rule, None)
        check_bad_rows(self.bad_rows)
        if self.too_long not in ("drop", "clip"):
            raise InvalidValueError(None, "too_long", self.too_long, "is neither 'drop' nor 'clip'")
        if self.windows > 1 and self.duration_seconds is None:
            reason = "is more than one: how long is each?"
            raise InvalidValueError(None, "windows", self.windows, reason)

    @property
    def longest(self) -> int:
        """Prompt and output tokens, together, that a request may have."""
        return self.memory_rule.limit(self.memory_limit) + self.memory_rule.unstored

    def start_of(self, window: int) -> Fraction:
        """Return the seconds from the first row to the start of a window, numbered from 0."""
        # str, because 0.1 is meant to be a tenth.
        start = Fraction(str(self.start_seconds))
        return start + window * Fraction(str(self.duration_seconds)) if window else start

    def ends(self) -> list[int] | None:
        """First tick after each window; None where the only one runs to the end."""
        if self.duration_seconds is None:
            return None
        return [_first_tick(self.start_of(k + 1)) for k in range(self.windows)]


class WindowOptions(TypedDict, total=False):
    """Fields of `TraceRule` for a window in seconds, as keywords."""

    memory_limit: Required[int]
    format: str | None
    columns: Mapping[str, str] | None
    sort: bool | None
    start_seconds: float
    duration_seconds: float | None
    max_requests: int | None
    too_long: Literal["drop", "clip"]
    memory_rule: MemoryRule
    bad_rows: OnBadRows


class RoundOptions(WindowOptions, total=False):
    """Fields of `TraceRule` for a window in rounds, as keywords."""

    round_seconds: float
    token_scale: int


def read_trace(
    path: str | os.PathLike[str], **options: Unpack[RoundOptions]
) -> tuple[Instance, TraceReport]:
    """Read a window of a trace by the rule of this module.

    Parameters
    ----------
    path : str or os.PathLike
        CSV or JSON lines, as text or compressed with gzip; a pipe too.
    **options : Unpack[RoundOptions]
        Fields of `TraceRule`; ``memory_limit`` is needed.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        No format fits, a missing column, a malformed row (with its number), an empty window, or a
        window in a file without arrival times.
    UnknownNameError, InvalidValueError, InvalidTypeError
        An option out of range.
    """
    (window,) = trace_windows(path, windows=1, **options)
    return window


def read_workload(
    path: str | os.PathLike[str], **options: Unpack[WindowOptions]
) -> tuple[Workload, TraceReport]:
    """Read a window of a trace at its own arrival times, in seconds from the window's start.

    Parameters and errors are those of `read_trace`; there are no rounds and no scaled tokens.
    """
    (window,) = workload_windows(path, windows=1, **options)
    return window


def trace_windows(
    path: str | os.PathLike[str], *, windows: int = 1, **options: Unpack[RoundOptions]
) -> Iterator[tuple[Instance, TraceReport]]:
    """Read consecutive windows of equal length in one pass, each as `read_trace` reads it.

    Other parameters and errors are those of `read_trace`; options are checked at once, the file is
    read as windows are asked for.

    Parameters
    ----------
    path : str | os.PathLike[str]
        A file.
    windows : int, default 1
        How many; the k-th starts k ``duration_seconds`` after the first.
    """
    rule = _rule(windows, options, in_seconds=False)
    return ((one.instance(), one.report()) for one in _read_windows(path, rule, in_seconds=False))


def workload_windows(
    path: str | os.PathLike[str], *, windows: int = 1, **options: Unpack[WindowOptions]
) -> Iterator[tuple[Workload, TraceReport]]:
    """Read consecutive windows of equal length in one pass, each as `read_workload` reads it.

    Parameters and errors are those of `trace_windows`, without rounds and scaled tokens.
    """
    rule = _rule(windows, options, in_seconds=True)
    return ((one.workload(), one.report()) for one in _read_windows(path, rule, in_seconds=True))


def _rule(windows: int, options: Mapping[str, Any], *, in_seconds: bool) -> TraceRule:
    known = (WindowOptions if in_seconds else RoundOptions).__annotations__
    window = f"a window in {'seconds' if in_seconds else 'rounds'}"
    for name in options.keys() - known.keys():
        if name in RoundOptions.__annotations__:
            reason = "is for windows in rounds: in seconds nothing is rounded"
            raise InvalidValueError(None, name, options[name], reason)
        raise TypeError(f"{window} has no {name}; known: {', '.join(known)}")
    if "memory_limit" not in options:
        raise TypeError(f"{window} needs memory_limit")
    return TraceRule(windows=windows, **options)


def _first_tick(seconds: Fraction) -> int:
    first: int = math.ceil(seconds * TICKS_PER_SECOND)
    return first


def _read_windows(
    path: str | os.PathLike[str], rule: TraceRule, *, in_seconds: bool
) -> Iterator[_Window]:
    with TraceReader(
        path, rule.format, columns=rule.columns, sort=rule.sort, bad_rows=rule.bad_rows
    ) as reader:
        if not reader.has_arrival_times and (rule.start_seconds or rule.duration_seconds):
            raise FileFormatError(
                path,
                f"has no arrival times (column {reader.format.time or 'arrival'!r}): no window can "
                "be cut out of it by start_seconds or duration_seconds",
            )
        opened = (_Window(reader, rule, k, in_seconds=in_seconds) for k in range(rule.windows))
        start, ends = _first_tick(rule.start_of(0)), rule.ends()
        index, window = 0, next(opened)
        origin: int | None = None
        for row in reader:
            if origin is None:
                origin = row.ticks
            elapsed = row.ticks - origin
            if elapsed < start:
                continue
            while ends is not None and elapsed >= ends[index]:
                yield window
                index += 1
                if index == rule.windows:
                    return
                window = next(opened)
            if not window.is_full:
                window.add(row, Fraction(elapsed, TICKS_PER_SECOND))
                if window.is_full and index == rule.windows - 1:
                    break
        yield window
        yield from opened


class _Window:
    """The requests of one window so far, and what became of its rows."""

    def __init__(
        self, reader: TraceReader, rule: TraceRule, index: int, *, in_seconds: bool
    ) -> None:
        self._reader = reader
        self._rule = rule
        self._start = rule.start_of(index)
        self._round = None if in_seconds else Fraction(str(rule.round_seconds))
        self._requests: list[Request] = []
        self._seconds: list[float] = []
        self._counts = dict.fromkeys(COUNTS, 0)
        self._first = self._last = Fraction(0)

    @property
    def is_full(self) -> bool:
        """True once ``max_requests`` rows have been taken."""
        return self._counts["rows_in_window"] == self._rule.max_requests

    def add(self, row: TraceRow, elapsed: Fraction) -> None:
        """Take a row, ``elapsed`` seconds after the first of the file."""
        rule, counts = self._rule, self._counts
        self._last = elapsed
        if not counts["rows_in_window"]:
            self._first = elapsed
        counts["rows_in_window"] += 1
        prompt = -(-row.prompt_tokens // rule.token_scale)
        output = -(-row.output_tokens // rule.token_scale)
        if prompt == 0 or output == 0:
            counts["dropped_empty"] += 1
            return
        if prompt + output > rule.longest:
            if rule.too_long == "drop" or prompt >= rule.longest:
                counts["dropped_too_long"] += 1
                return
            output = rule.longest - prompt
            counts["clipped"] += 1
        arrival = 0
        seconds = elapsed - self._start if self._reader.has_arrival_times else Fraction(0)
        if self._round is None:
            self._seconds.append(float(seconds))
        else:
            # Exact rational division: a float quotient can land just above a whole round.
            arrival = math.ceil(seconds / self._round)
        self._requests.append(Request(arrival, prompt, output, f"row{row.number}"))

    def instance(self) -> Instance:
        """The requests in rounds, once every row of the window is in."""
        report = self.report()
        return Instance(
            self._requests,
            self._rule.memory_limit,
            self._name(report),
            {"trace": asdict(report)},
            memory_rule=self._rule.memory_rule,
        )

    def workload(self) -> Workload:
        """The requests in seconds, once every row of the window is in."""
        report = self.report()
        return Workload(
            self._seconds,
            [request.prompt_length for request in self._requests],
            [request.output_length for request in self._requests],
            memory_limit=self._rule.memory_limit,
            ids=[request.id for request in self._requests if request.id is not None],
            name=self._name(report),
            metadata={"trace": asdict(report)},
            memory_rule=self._rule.memory_rule,
        )

    def report(self) -> TraceReport:
        """Report what became of the rows; refuse a window without requests."""
        path, rule, skipped = self._reader.path, self._rule, self._reader.skipped
        rows, empty, too_long, _ = self._counts.values()
        if not rows:
            reason = f"the window holds no rows{f'; {skipped}' if skipped else ''}"
            raise FileFormatError(path, reason)
        if not self._requests:
            raise FileFormatError(
                path,
                f"no request is left of the {rows} rows in the window "
                f"({empty} empty, {too_long} longer than memory_limit)",
            )
        return TraceReport(
            source=printable(os.path.basename(os.fsdecode(path))),
            format=self._reader.format.name,
            has_arrival_times=self._reader.has_arrival_times,
            kept=len(self._requests),
            **self._counts,
            round_seconds=None if self._round is None else rule.round_seconds,
            token_scale=rule.token_scale,
            start_seconds=float(self._start),
            duration_seconds=rule.duration_seconds,
            columns=None if rule.columns is None else dict(rule.columns),
            out_of_order=self._reader.out_of_order if self._reader.sorts else None,
            failed=self._reader.failed,
            left_out=dict(+self._reader.left_out),
            time_unit=self._reader.time_unit,
            span_seconds=float(self._last - self._first),
            note=self._reader.note,
            skipped=deepcopy(skipped) if skipped else None,
        )

    @staticmethod
    def _name(report: TraceReport) -> str:
        stem = report.source
        for suffix in SUFFIXES:
            stem = stem.removesuffix(suffix)
        return f"{stem}[{report.start_seconds:g}s+{report.kept}]"

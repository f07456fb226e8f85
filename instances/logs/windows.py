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

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from instances.errors import FileFormatError, InvalidValueError
from instances.problem.batches import BatchTime, check_batch_time
from instances.problem.instance import Instance
from instances.problem.memory_rule import TOKENS, MemoryRule, as_memory_rule
from instances.problem.request import Request
from instances.problem.workload import Workload
from instances.validation import LARGEST_TOKEN_COUNT, check_ranges, chosen, decimal, ranged

from .cells import PER_SECOND, nanoseconds, seconds_since
from .formats import OnBadRows, wanted_format
from .reading import read_rows
from .request_log import LogFacts, RequestLog

OF_ROUNDS, OF_SECONDS = ("round_seconds", "token_scale"), ("batch_time",)


@dataclass(frozen=True, kw_only=True)
class TraceReport(LogFacts):
    """Report on the reading of a window: rules applied, rows kept, and rows left out.

    Attributes
    ----------
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
    span_seconds : float
        From the first to the last arrival in the window.
    """

    rows_in_window: int
    kept: int
    dropped_empty: int
    dropped_too_long: int
    clipped: int
    round_seconds: float | None
    token_scale: int
    start_seconds: float
    duration_seconds: float | None
    columns: Mapping[str, str] | None
    span_seconds: float

    def __str__(self) -> str:
        counts = f"{self.dropped_empty} empty, {self.dropped_too_long} too long"
        counts += f", {self.clipped} clipped"
        unit = "arrivals in seconds"
        if self.round_seconds is not None:
            unit = f"a round is {self.round_seconds:g} s and {self.token_scale} token(s)"
        parts = [
            f"{self.source}: {self.kept} of {self.rows_in_window} rows kept ({counts})",
            unit,
            self.arrivals_note(self.span_seconds),
            *[f"sorted, {self.out_of_order} out of order"] * bool(self.out_of_order),
            *[f"{count} {why} and left out" for why, count in self.left_out.items()],
            *[str(one) for one in (self.note, self.skipped) if one],
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
    batch_time : BatchTime or None, default None
        Batch time of a workload.
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
    too_long: str = chosen("drop", "clip")
    memory_rule: MemoryRule = TOKENS
    batch_time: BatchTime | None = None
    bad_rows: OnBadRows = "refuse"
    windows: int = ranged(1, minimum=1)

    def __post_init__(self) -> None:
        wanted_format(self.format, self.columns, self.bad_rows)
        check_ranges(self, None)
        as_memory_rule(self.memory_rule, None)
        if self.batch_time is not None:
            check_batch_time(self.batch_time)
        if self.windows > 1 and self.duration_seconds is None:
            reason = "is more than one: how long is each?"
            raise InvalidValueError(None, "windows", self.windows, reason)


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
    for name in options.keys() & {*(OF_ROUNDS if in_seconds else OF_SECONDS)}:
        reason = f"is not for windows in {'seconds' if in_seconds else 'rounds'}"
        raise InvalidValueError(None, name, options[name], reason)
    rule = TraceRule(windows=windows, **options)
    return _windows(path, rule, in_seconds)


def _windows(
    path: str | os.PathLike[str], rule: TraceRule, in_seconds: bool
) -> Iterator[tuple[Any, TraceReport]]:
    log = read_rows(path, rule.format, rule.columns, bad_rows=rule.bad_rows)
    if not log.has_arrival_times and (rule.start_seconds or rule.duration_seconds):
        reason = "has no arrival times: no window can be cut out of it by start_seconds or duration"
        raise FileFormatError(path, reason)
    for index in range(rule.windows):
        length = decimal(rule.duration_seconds or 0)
        start = float(decimal(rule.start_seconds) + index * length)
        window = log.window(start, rule.duration_seconds, rule.max_requests)
        yield _problem(path, rule, window, start, in_seconds)


def _problem(
    path: object, rule: TraceRule, log: RequestLog, start: float, in_seconds: bool
) -> tuple[Any, TraceReport]:
    """Make a problem of the rows of a window."""
    lengths = (log.prompt_lengths, log.output_lengths)
    prompts, outputs = (-(-one // rule.token_scale) for one in lengths)
    is_empty = (prompts == 0) | (outputs == 0)
    room = rule.memory_rule.limit(rule.memory_limit) + rule.memory_rule.unstored - prompts
    is_long = ~is_empty & (outputs > room)
    is_clipped = is_long & (room > 0) & (rule.too_long == "clip")
    is_kept = ~is_empty & (is_clipped | ~is_long)
    if not is_kept.any():
        counts = f"{is_empty.sum()} empty, {is_long.sum()} longer than memory_limit"
        skipped = f"; {log.skipped}" if log.skipped else ""
        reason = f"no request is left of the {len(log)} rows in the window ({counts}){skipped}"
        raise FileFormatError(path, reason)
    times = log.arrival_times
    report = TraceReport(
        **{one.name: getattr(log, one.name) for one in fields(LogFacts)},
        rows_in_window=len(log),
        kept=int(is_kept.sum()),
        dropped_empty=int(is_empty.sum()),
        dropped_too_long=int((is_long & ~is_clipped).sum()),
        clipped=int(is_clipped.sum()),
        round_seconds=None if in_seconds else rule.round_seconds,
        token_scale=rule.token_scale,
        start_seconds=start,
        duration_seconds=rule.duration_seconds,
        columns=None if rule.columns is None else dict(rule.columns),
        span_seconds=float(seconds_since(times[-1:], times[0])[0]),
    )
    stem = re.sub(r"(\.(gz|csv|jsonl|json))+$", "", report.source)
    more: dict[str, Any] = {
        "memory_limit": rule.memory_limit,
        "name": f"{stem}[{start:g}s+{report.kept}]",
        "metadata": {"trace": asdict(report)},
        "memory_rule": rule.memory_rule,
    }
    kept = log.select(is_kept)
    columns = [prompts[is_kept].tolist(), np.where(is_clipped, room, outputs)[is_kept].tolist()]
    if in_seconds:
        seconds = seconds_since(kept.arrival_times, start)
        return Workload(seconds, *columns, ids=kept.ids, batch_time=rule.batch_time, **more), report
    # Exact division: a float quotient can land just above a whole round.
    step = decimal(rule.round_seconds) * PER_SECOND
    since = nanoseconds(kept.arrival_times) - nanoseconds(np.array([start]))
    arrivals = [-(-one * step.denominator // step.numerator) for one in since.tolist()]
    requests = [Request(*one) for one in zip(arrivals, *columns, kept.ids, strict=True)]
    return Instance(requests, **more), report

"""Make an instance from a window of a log: the requests that arrive between two times.

The steps, in order, with memory M, prompt length s and output length o:

0. Rows are sorted by arrival time. The report counts the rows that were out of order.
1. The window is ``start_seconds <= time - time of the first row < start_seconds +
   duration_seconds``, cut to its first ``max_requests`` rows.
2. Token counts are divided by ``token_scale`` and rounded up. So a round generates ``token_scale``
   tokens of a request, and ``memory_limit`` counts scaled tokens.
3. A request that arrives ``x`` seconds into the window can first start at round
   ceil(x / ``round_seconds``), as decisions happen at round boundaries only. In a file without
   arrival times every request arrives at round 0.
4. A row with no prompt or no output token is dropped. A request with s + o > M is dropped. With
   ``too_long="clip"`` its output is cut to M - s instead, and the request is dropped only if
   s >= M.

A row that cannot be read is an error. With ``bad_rows="skip"`` it is skipped before all steps.
`TraceReport` counts every row skipped, dropped or clipped, and is also part of the instance's
metadata. Windows in seconds leave out steps 2 and 3: tokens are not scaled, and arrivals are in
seconds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
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
from .formats import wanted_format
from .reading import read_rows
from .request_log import LogFacts, RequestLog

OF_ROUNDS, OF_SECONDS = ("round_seconds", "token_scale"), ("batch_time",)


@dataclass(frozen=True, kw_only=True)
class TraceReport(LogFacts):
    """Report on the conversion of a window of a log to an instance: options, and counts of rows.

    Attributes
    ----------
    rows_in_window : int
        Number of rows of the log in the window, before any is dropped.
    kept : int
        Number of requests of the instance.
    dropped_empty : int
        Number of rows dropped because they have no prompt token or no output token.
    dropped_too_long : int
        Number of requests dropped because they alone exceed the memory.
    clipped : int
        Number of requests whose output was cut so that they fit into memory.
    round_seconds, token_scale, start_seconds, duration_seconds
        Options of `TraceRule` that were used. ``round_seconds`` is None if arrivals are in seconds.
    columns : Mapping[str, str] or None
        The user's choice of columns, as in `read_log`. None if there was none.
    span_seconds : float
        Seconds from the first to the last arrival in the window.
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
        kept = f"{self.source}: {self.kept} of {self.rows_in_window} rows kept"
        counts = f"{self.dropped_empty} empty, {self.dropped_too_long} too long"
        unit, round_seconds = "arrivals in seconds", self.round_seconds
        if round_seconds is not None:
            unit = f"a round is {round_seconds:g} s and {self.token_scale} token(s)"
        parts = [f"{kept} ({counts}, {self.clipped} clipped)", unit]
        parts.append(self.arrivals_note(self.span_seconds))
        parts += [f"{count} {why} and left out" for why, count in self.left_out.items()]
        return "; ".join([*parts, *filter(None, [self.note])])


@dataclass(frozen=True, kw_only=True)
class TraceRule:
    """Options for cutting windows out of a log and turning their rows into requests.

    Attributes
    ----------
    memory_limit : int
        M, in scaled tokens.
    format, columns, bad_rows : str or None, Mapping[str, str] or None, str
        As in `read_log`.
    round_seconds : float, default 0.05
        Seconds that a round lasts, > 0.
    token_scale : int, default 1
        Number of tokens of the log per token of the instance, >= 1.
    start_seconds, duration_seconds : float, float or None
        Start of the window, in seconds after the first row, and its length. None: the window ends
        with the log.
    max_requests : int or None, default None
        Largest number of rows in the window, before any is dropped. None for no limit.
    too_long : {"drop", "clip"}, default "drop"
        Whether a request too large for the memory (prompt + output length above M, or by the memory
        rule) is dropped, or its output is cut so that it fits.
    memory_rule : MemoryRule, default TOKENS
        How the memory of a request is counted, such as in tokens or in blocks.
    batch_time : BatchTime or None, default None
        Seconds that a batch takes, for workloads with arrivals in seconds only.
    windows : int, default 1
        Number of windows; the k-th (from 0) starts k * ``duration_seconds`` after the first.

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
    bad_rows: str = "refuse"
    windows: int = ranged(1, minimum=1)

    def __post_init__(self) -> None:
        wanted_format(self.format, self.columns, self.bad_rows)
        check_ranges(self, None)
        as_memory_rule(self.memory_rule, None)
        if self.batch_time is not None:
            check_batch_time(self.batch_time)
        if self.windows > 1 and self.duration_seconds is None:
            reason = "is more than one: give duration_seconds, the length of each"
            raise InvalidValueError(None, "windows", self.windows, reason)


def read_trace(path: str | os.PathLike[str], **options: Any) -> tuple[Instance, TraceReport]:
    """Read the requests of a log that arrive in a window of time, as an instance in rounds.

    Parameters
    ----------
    path : str or os.PathLike
        Any file that `read_log` reads.
    **options : Any
        Fields of `TraceRule` except ``windows``; ``memory_limit`` is required.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        The file has an error named in `read_log`, the window is empty, or the options set a window
        but the file has no arrival times.
    UnknownNameError, InvalidValueError, InvalidTypeError
        An option out of range.
    """
    (window,) = trace_windows(path, windows=1, **options)
    return window


def read_workload(path: str | os.PathLike[str], **options: Any) -> tuple[Workload, TraceReport]:
    """Read the requests of a log that arrive in a window of time, as a workload in seconds.

    Arrivals are in seconds since the start of the window. Parameters and errors are those of
    `read_trace`, without ``round_seconds`` and ``token_scale``.
    """
    (window,) = trace_windows(path, windows=1, in_seconds=True, **options)
    return window


def trace_windows(
    path: str | os.PathLike[str], *, windows: int = 1, in_seconds: bool = False, **options: Any
) -> list[tuple[Any, TraceReport]]:
    """Read consecutive windows of equal length from a log, each as an instance or a workload.

    Other parameters and errors are those of `read_trace`.

    Parameters
    ----------
    path : str | os.PathLike[str]
        Any file that `read_log` reads.
    windows : int, default 1
        Number of windows; the k-th (from 0) starts k * ``duration_seconds`` after the first.
    in_seconds : bool, default False
        True for workloads with arrivals in seconds, as `read_workload` reads them; False for
        instances in rounds.
    """
    for name in options.keys() & {*(OF_ROUNDS if in_seconds else OF_SECONDS)}:
        reason = f"is not for windows in {'seconds' if in_seconds else 'rounds'}"
        raise InvalidValueError(None, name, options[name], reason)
    rule = TraceRule(windows=windows, **options)
    log = read_rows(path, rule.format, rule.columns, rule.bad_rows)
    length = rule.duration_seconds
    if not log.has_arrival_times and (rule.start_seconds or length):
        reason = "has no arrival times: no window can be cut out of it by start_seconds or duration"
        raise FileFormatError(path, reason)
    found = []
    for k in range(windows):
        start = float(decimal(rule.start_seconds) + k * decimal(length or 0))
        part = log.window(start, length, rule.max_requests)
        found.append(_problem(path, rule, part, start, in_seconds))
    return found


def _problem(
    path: object, rule: TraceRule, log: RequestLog, start: float, in_seconds: bool
) -> tuple[Any, TraceReport]:
    """Turn the rows of a window, which starts at ``start`` seconds, into a problem and its report.

    The problem is a `Workload` if ``in_seconds``, else an `Instance`.
    """
    lengths = (log.prompt_lengths, log.output_lengths)
    prompts, outputs = (-(-one // rule.token_scale) for one in lengths)
    is_empty = (prompts == 0) | (outputs == 0)
    room = rule.memory_rule.limit(rule.memory_limit) + rule.memory_rule.unstored - prompts
    is_long = ~is_empty & (outputs > room)
    is_clipped = is_long & (room > 0) & (rule.too_long == "clip")
    is_kept = ~is_empty & (is_clipped | ~is_long)
    if not is_kept.any():
        counts = f"{is_empty.sum()} empty, {is_long.sum()} longer than memory_limit"
        before = f"; left out before: {log.dropped}" if log.left_out else ""
        reason = f"no request is left of the {len(log)} rows in the window ({counts}){before}"
        raise FileFormatError(path, reason)
    times = log.arrival_times
    report = TraceReport(
        **{one.name: getattr(log, one.name) for one in fields(LogFacts)},
        **{name: getattr(rule, name) for name in ("token_scale", "duration_seconds", "columns")},
        rows_in_window=len(log),
        kept=int(is_kept.sum()),
        dropped_empty=int(is_empty.sum()),
        dropped_too_long=int((is_long & ~is_clipped).sum()),
        clipped=int(is_clipped.sum()),
        round_seconds=None if in_seconds else rule.round_seconds,
        start_seconds=start,
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
    # Divide exactly by the length of a round. A float quotient such as 3.0000001 instead of 3 would
    # be rounded up to the next round.
    step = decimal(rule.round_seconds) * PER_SECOND
    since = nanoseconds(kept.arrival_times) - nanoseconds(np.array([start]))
    arrivals = [-(-one * step.denominator // step.numerator) for one in since.tolist()]
    requests = [Request(*one) for one in zip(arrivals, *columns, kept.ids, strict=True)]
    return Instance(requests, **more), report

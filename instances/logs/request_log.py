"""A request log as arrays or a data frame: requests in order of arrival, with their latencies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray, IntArray
from instances.validation import as_integer, as_number, decimal

from .cells import DATES

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False, kw_only=True)
class LogFacts:
    """Facts about a log file: its format, its unit of time, and counts of rows left out.

    Attributes
    ----------
    source : str
        Name of the file, without its folder.
    format : str
        Name of the format as which the file was read, a key of `FORMATS` or ``"columns"``.
    has_arrival_times : bool
        False for a file without arrival times; all its requests arrive at 0.
    left_out : Mapping[str, int]
        Number of requests left out, by reason: failed or broken off, without output length, sent to
        warm the server up, a span whose tokens another span also counts, skipped because
        unreadable, or empty (without prompt or output token). Windows count empty requests in
        `TraceReport.dropped_empty` instead.
    out_of_order : int
        Number of requests that arrived before a request on an earlier line.
    time_unit : str or None
        Unit of the arrival times in the file, or ``"dates"``; None if it has none.
    note : str or None
        Assumptions made in reading the file, as a sentence for the user.
    """

    source: str
    format: str
    has_arrival_times: bool = True
    left_out: Mapping[str, int] = field(default_factory=dict)
    out_of_order: int = 0
    time_unit: str | None = None
    note: str | None = None

    def arrivals_note(self, span: float) -> str:
        """Return a text about the arrival times of the file: their unit and ``span`` in seconds."""
        if self.time_unit is None:
            return "no arrival times, all requests at 0"
        sorted_note = f"; sorted, {self.out_of_order} out of order" if self.out_of_order else ""
        unit = DATES if self.time_unit == DATES else f"in {self.time_unit}"
        return f"arrivals are {unit} and span {span:,.6g} s{sorted_note}"


@dataclass(frozen=True, eq=False, kw_only=True)
class RequestLog(LogFacts):
    """Requests of a log or trace in order of arrival, with the latencies that the log measured.

    Attributes
    ----------
    arrival_times : float64 array, shape (n,)
        Seconds since the first request, to the nanosecond.
    prompt_lengths, output_lengths : int64 array, shape (n,)
        Prompt and output tokens of each request, >= 1.
    latencies, times_to_first_token, mean_inter_token_times : float64 array, shape (n,)
        Seconds, as the log measured them; NaN where it did not. The mean inter-token time is
        (latency - time to first token) / (output tokens - 1), or the sum of the inter-token times
        divided by output tokens - 1.
    inter_token_times : object array of float32 arrays, shape (n,)
        Seconds between consecutive tokens of each request, or between consecutive chunks of a
        stream; empty for a request without such times.
    row_numbers : int64 array, shape (n,)
        Line of each request in the file, or its position in a JSON document, counted from 1.
    rows : int
        Number of all requests in the file, including those left out.
    workers : object array of str or None, shape (n,), or None
        Label of the replica that served each request, or None if its row names no replica. The
        whole attribute is None if no row names one.
    shared_tokens : int64 array, shape (n,), or None
        Largest number of tokens at the beginning of each prompt that a prefix cache could reuse
        from another request. None if the log lacks the hashes of some prompts, or was read without
        ``shared_prefixes``. `instances.logs.prefixes` explains their use in bounds.
    settings : Mapping[str, Any]
        Settings of the serving engine that the file states, by the engine's names for them.
    """

    arrival_times: FloatArray
    prompt_lengths: IntArray
    output_lengths: IntArray
    latencies: FloatArray
    times_to_first_token: FloatArray
    mean_inter_token_times: FloatArray
    inter_token_times: npt.NDArray[np.object_]
    row_numbers: IntArray
    rows: int
    workers: npt.NDArray[np.object_] | None = None
    shared_tokens: IntArray | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.arrival_times)

    @property
    def ids(self) -> list[str]:
        """Labels of the requests by row number, such as ``row7``, as instances of the log use."""
        return [f"row{number}" for number in self.row_numbers.tolist()]

    @property
    def dropped(self) -> str:
        """Counts of the rows left out, by reason, as text such as ``3 failed, 1 empty``."""
        return ", ".join(f"{count} {why}" for why, count in self.left_out.items())

    def _columns(self) -> dict[str, Any]:
        """Collect, by attribute name, the arrays that have one entry per request."""
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: one for name, one in columns.items() if isinstance(one, np.ndarray)}

    @property
    def frame(self) -> pandas.DataFrame:
        """Return the log as a data frame, with a row per request and a column per array."""
        import pandas

        return pandas.DataFrame(self._columns())

    def select(self, kept: npt.NDArray[np.bool_] | IntArray) -> RequestLog:
        """Return a log with some of the requests only.

        The counts ``rows``, ``left_out`` and ``out_of_order`` remain those of the whole file.

        Parameters
        ----------
        kept : bool array of shape (n,) or int64 array
            Requests to keep, as a mask or as positions.
        """
        return replace(self, **{name: one[kept] for name, one in self._columns().items()})

    def window(
        self,
        start_seconds: float = 0.0,
        duration_seconds: float | None = None,
        max_requests: int | None = None,
    ) -> RequestLog:
        """Return a log with only the requests that arrive in a window of time.

        Their arrival times remain in seconds since the first request of the whole log.

        Parameters
        ----------
        start_seconds, duration_seconds : float, float or None
            Start of the window, in seconds after the first request of the log, and its length. The
            start belongs to the window, the end does not. A length of None means no end.
        max_requests : int or None, default None
            Largest number of requests in the window. The first ones are kept. None keeps all.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            A number out of range.
        """
        start, end = as_number(start_seconds, None, "start_seconds", minimum=0), np.inf
        if duration_seconds is not None:
            length = as_number(duration_seconds, None, "duration_seconds", above=0)
            end = float(decimal(start) + decimal(length))
        if max_requests is not None:
            as_integer(max_requests, None, "max_requests", minimum=1)
        first, last = np.searchsorted(self.arrival_times, [start, end])
        return self.select(np.arange(len(self))[first:last][:max_requests])

    def __str__(self) -> str:
        parts = [f"{self.source} ({self.format}): {len(self)} of {self.rows} requests kept"]
        if self.dropped:
            parts[0] += f" ({self.dropped})"
        parts.append(self.arrivals_note(float(self.arrival_times[-1])))
        counts = {
            "latency": np.isfinite(self.latencies).sum(),
            "time to first token": np.isfinite(self.times_to_first_token).sum(),
            "times between tokens": np.count_nonzero([*map(len, self.inter_token_times)]),
            "mean time between tokens": np.isfinite(self.mean_inter_token_times).sum(),
        }
        measured = [f"{name} of {count}" for name, count in counts.items() if count]
        if measured:
            parts.append(f"measured: {', '.join(measured)}")
        if self.workers is not None:
            parts.append(f"{len({*self.workers.tolist()} - {None})} workers named")
        return "; ".join([*parts, *filter(None, [self.note])])

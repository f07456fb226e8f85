"""Runs of vLLM's and SGLang's serving benchmarks: one object of lists, an entry a request.

``vllm bench serve --save-result --save-detailed`` and SGLang's ``bench_serving --output-details``
agree but for the start times, which SGLang does not write: its requests arrive at the run's rate,
evenly, or all at once where that is unlimited. Latency is the time to the first token and those
between tokens, as the benchmarks have it themselves. An entry in ``errors`` means that the request
has failed.

Settings of the engine are read where a run has them: SGLang's has the server's answer in
``server_info``, and vLLM's what was said with ``--metadata max_num_seqs=64 ...``.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError, shown
from instances.settings import parse_value
from instances.validation import as_number

from .row import (
    FAILED,
    MOST_INTER_TOKEN_TIMES,
    BadRow,
    Cells,
    Measured,
    as_count,
    as_duration,
    as_durations,
    bad_cell,
)
from .streams import JsonStream

SUMMARY = "request_throughput"
"""A key of every run, also of those that were saved without their requests."""


OF_VLLM = (
    "async_scheduling block_size enable_chunked_prefill enable_prefix_caching "
    "long_prefill_token_threshold long_prefill_token_threshold_adaptive max_num_batched_tokens "
    "max_num_seqs num_gpu_blocks prefill_schedule_interval scheduler_reserve_full_isl watermark"
)
OF_SGLANG = (
    "chunked_prefill_size max_concurrency max_prefill_tokens max_running_requests "
    "max_total_num_tokens schedule_conservativeness"
)
ENGINE_SETTINGS = frozenset(f"{OF_VLLM} {OF_SGLANG}".split())
"""Settings of vLLM and SGLang, as the engines call them, that decide what is scheduled."""


class BenchmarkRun:
    """The lists of a run as they are read, held as arrays; of ``itls`` the lengths and the sums.

    Parameters
    ----------
    path : object
        What errors call the file.
    """

    def __init__(self, path: object) -> None:
        self._path = path
        self._columns: dict[str, array[Any]] = {}
        self._between, self._sums = array("f"), array("d")
        self._rate: Any = None
        self._bad: dict[int, BadRow] = {}
        self.seen: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.is_cut = False

    @property
    def has_requests(self) -> bool:
        """True if there are requests, not totals only."""
        return "input_lens" in self.seen or "output_lens" in self.seen

    @property
    def has_start_times(self) -> bool:
        """True if it says when each request was sent."""
        return "start_times" in self.seen

    @property
    def rate(self) -> float | None:
        """Requests a second, where they were sent at a rate."""
        try:
            return as_number(self._rate, "run", "request_rate", above=0)
        except (InvalidTypeError, InvalidValueError):
            return None

    def take(self, key: str, stream: JsonStream) -> None:
        """Read the member that comes next, if it says something of requests.

        Raises
        ------
        FileFormatError
            What it holds is not what it should be.
        """
        if key in self._columns:
            raise FileFormatError(self._path, f"key {key!r} is there twice")
        self.seen[key] = None
        if key == "request_rate":
            self._rate = stream.value()
        elif key in ENGINE_SETTINGS or key == "server_info":
            self._take_settings(key, stream.value())
        elif key not in _COLUMNS:
            self.seen[key] = stream.skip()
        elif stream.opening() != "[":
            raise FileFormatError(self._path, f"{key} {shown(stream.value())} is not a list")
        else:
            self._take_list(key, stream)

    def _take_settings(self, key: str, value: Any) -> None:
        given = {key: value} if key in ENGINE_SETTINGS else value
        for name, one in given.items() if isinstance(given, dict) else ():
            number = parse_value(one) if isinstance(one, str) else one
            # Text is not kept: every setting is a number or a truth value.
            if name in ENGINE_SETTINGS and isinstance(number, bool | int | float):
                self.settings[name] = number

    def _take_list(self, key: str, stream: JsonStream) -> None:
        code, read = _COLUMNS[key]
        column = self._columns[key] = array(code)
        for row, _ in enumerate(stream.items(), 1):
            value = stream.value()
            try:
                found = read(value)
            except (TypeError, ValueError) as error:
                reason = getattr(error, "reason", str(error))
                self._bad.setdefault(row, bad_cell(key, value, reason))
                found = read(None) if key == "itls" else 0
            column.append(self._hold(found) if key == "itls" else found)

    def _hold(self, times: Any) -> int:
        """Hold the times between a request's tokens, all or none, and return how many there are."""
        self._sums.append(float(times.sum()))
        self.is_cut = self.is_cut or len(self._between) + len(times) > MOST_INTER_TOKEN_TIMES
        if not self.is_cut:
            self._between.frombytes(times.astype(np.float32).tobytes())
        return len(times)

    def check(self) -> None:
        """Refuse lists that do not go together.

        Raises
        ------
        FileFormatError
            There are no output lengths, or lists of another length.
        """
        for key in ("input_lens", "output_lens"):
            if key not in self._columns:
                raise FileFormatError(
                    self._path, f"has no {key}: every request needs its tokens, in and out"
                )
        count = len(self._columns["input_lens"])
        for key, column in self._columns.items():
            if len(column) != count:
                raise FileFormatError(
                    self._path, f"{key} has {len(column)} entries and input_lens {count}"
                )

    def cells(self) -> Iterator[tuple[int, Cells | BadRow]]:
        """Yield the requests with their numbers, the first being 1."""
        columns = self._columns
        between = np.frombuffer(self._between, np.float32) if self._between else np.zeros(0)
        failed, starts, counts = (columns.get(key) for key in ("errors", "start_times", "itls"))
        begin = 0
        for k, (prompt, output) in enumerate(
            zip(columns["input_lens"], columns["output_lens"], strict=True)
        ):
            end = begin + (counts[k] if counts else 0)
            if k + 1 in self._bad:
                yield k + 1, self._bad[k + 1]
            elif failed is not None and failed[k]:
                yield k + 1, FAILED
            else:
                time = starts[k] if starts is not None else k / (self.rate or math.inf)
                # Those that are not held begin beyond the end of those that are.
                held = between[begin:end] if end <= len(between) else between[:0]
                yield k + 1, Cells(time, prompt, output, self._measured(k, end - begin, held))
            begin = end

    def _measured(self, k: int, count: int, held: Any) -> Measured:
        first, *latencies = (self._number(key, k) for key in ("ttfts", "latencies", "e2els"))
        latency = next((one for one in latencies if one is not None), None)
        is_derived = latency is None and (count or self._columns["output_lens"][k] == 1)
        if is_derived and first is not None:
            latency = first + (self._sums[k] if count else 0.0)
        mean = self._sums[k] / max(1, self._columns["output_lens"][k] - 1) if count else None
        return Measured(latency, first, held if len(held) else None, mean)

    def _number(self, key: str, k: int) -> float | None:
        column = self._columns.get(key)
        return None if column is None or math.isnan(column[k]) else column[k]


def _duration(value: Any) -> float:
    return math.nan if value is None else as_duration(value, "duration")


_COLUMNS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "input_lens": ("i", as_count),
    "output_lens": ("i", as_count),
    "start_times": ("d", lambda value: as_number(value, None, "start", minimum=0)),
    "ttfts": ("d", _duration),
    "latencies": ("d", _duration),
    "e2els": ("d", _duration),
    "itls": ("q", lambda value: as_durations([] if value is None else value, "itls")),
    "errors": ("b", lambda value: int(bool(value))),
}
"""Lists that say something of requests: how they are held, and how an entry is read."""

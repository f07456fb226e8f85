"""Runs of vLLM's and SGLang's serving benchmarks: one object of lists, an entry a request.

``vllm bench serve --save-result --save-detailed`` (read in ``vllm/benchmarks/serve.py``) and
SGLang's ``bench_serving --output-details`` (``sglang/bench_serving.py``) agree but for the start
times, which SGLang does not write: its requests arrive at the run's rate, evenly, or all at once
where that is unlimited. Latency is the time to the first token and those between tokens, as the
benchmarks have it themselves. An entry in ``errors`` means that the request has failed.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError, shown
from instances.validation import as_number

from .bad_rows import BadRow, bad_cell
from .document import Document
from .held_rows import MOST_INTER_TOKEN_TIMES
from .row import FAILED, Cells, Measured, as_count, seconds_clock
from .trace_format import LONGEST_DURATION, TraceFormat, as_durations

VLLM_BENCH = TraceFormat(
    name="vllm-bench",
    source="vllm bench serve --save-result --save-detailed",
    container="document",
    time="start_times",
    prompt="input_lens",
    output="output_lens",
    new_clock=seconds_clock,
    marks=("input_lens", "output_lens", "start_times"),
    is_in_order=False,
)

SGLANG_BENCH = TraceFormat(
    name="sglang-bench",
    source="sglang bench_serving --output-details",
    container="document",
    time=None,
    prompt="input_lens",
    output="output_lens",
    new_clock=seconds_clock,
    marks=("input_lens", "output_lens"),
    is_in_order=False,
)

SUMMARY = "request_throughput"
"""A key of every run, also of those that were saved without their requests."""


class BenchmarkRun:
    """The lists of a run as they are read, held as arrays.

    Parameters
    ----------
    path : object
        What errors call the file.
    """

    def __init__(self, path: object) -> None:
        self._path = path
        self._columns: dict[str, array[Any]] = {}
        self._between = array("f")
        self._ends, self._sums, self._counts = array("q"), array("d"), array("q")
        self._rate: Any = None
        self._seen: set[str] = set()
        self._bad: dict[int, BadRow] = {}
        self.is_cut = False

    @property
    def is_one(self) -> bool:
        """Whether there are requests."""
        return bool(self._seen & {"input_lens", "output_lens"})

    @property
    def is_summary(self) -> bool:
        """Whether it is a run that was saved without its requests."""
        return SUMMARY in self._seen

    @property
    def has_start_times(self) -> bool:
        """Whether it says when each request was sent."""
        return "start_times" in self._seen

    @property
    def rate(self) -> float | None:
        """Requests a second, where they were sent at a rate."""
        try:
            return as_number(self._rate, "run", "request_rate", above=0)
        except (InvalidTypeError, InvalidValueError):
            return None

    def take(self, key: str, stream: Document) -> None:
        """Read the member that comes next, if it says something of requests.

        Raises
        ------
        FileFormatError
            What it holds is not what it should be.
        """
        kind = _KINDS.get(key)
        if key in self._seen and (kind or key == "itls"):
            raise FileFormatError(self._path, f"key {key!r} is there twice")
        self._seen.add(key)
        if key == "request_rate":
            self._rate = stream.value()
        elif kind is None and key != "itls":
            stream.skip()
        elif stream.opening() != "[":
            raise FileFormatError(self._path, f"{key} {shown(stream.value())} is not a list")
        elif kind is None:
            self._take_inter_token_times(stream)
        else:
            code, read = kind
            column = self._columns[key] = array(code)
            for _ in stream.items():
                value = stream.value()
                try:
                    column.append(read(value))
                except (TypeError, ValueError) as error:
                    column.append(0)
                    self._note_bad(len(column), key, value, error)

    def _take_inter_token_times(self, stream: Document) -> None:
        for _ in stream.items():
            value = stream.value()
            try:
                times = as_durations([] if value is None else value, "itls")
            except (InvalidTypeError, InvalidValueError) as error:
                times = np.zeros(0)
                self._note_bad(len(self._ends) + 1, "itls", value, error)
            self._sums.append(float(times.sum()))
            self._counts.append(len(times))
            if len(self._between) + len(times) > MOST_INTER_TOKEN_TIMES:
                self.is_cut = True
            if not self.is_cut:
                self._between.frombytes(times.astype(np.float32).tobytes())
            self._ends.append(len(self._between))

    def _note_bad(self, row: int, key: str, value: Any, error: TypeError | ValueError) -> None:
        reason = getattr(error, "reason", str(error))
        self._bad.setdefault(row, bad_cell(key, value, reason))

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
        lengths = {key: len(column) for key, column in self._columns.items()}
        if "itls" in self._seen:
            lengths["itls"] = len(self._ends)
        for key, length in lengths.items():
            if length != lengths["input_lens"]:
                raise FileFormatError(
                    self._path,
                    f"{key} has {length} entries and input_lens {lengths['input_lens']}",
                )

    def cells(self) -> Iterator[tuple[int, Cells | BadRow]]:
        """Its requests, the first being 1."""
        columns = self._columns
        between = np.frombuffer(self._between, np.float32) if self._between else np.zeros(0)
        failed, starts = columns.get("errors"), columns.get("start_times")
        begin = 0
        for k, (prompt, output) in enumerate(
            zip(columns["input_lens"], columns["output_lens"], strict=True)
        ):
            end = self._ends[k] if self._ends else 0
            if k + 1 in self._bad:
                yield k + 1, self._bad[k + 1]
            elif failed is not None and failed[k]:
                yield k + 1, FAILED
            else:
                time = starts[k] if starts is not None else k / (self.rate or math.inf)
                yield k + 1, Cells(time, prompt, output, self._measured(k, between[begin:end]))
            begin = end

    def _measured(self, k: int, held: Any) -> Measured:
        first = self._number("ttfts", k)
        latency = self._number("latencies", k)
        if latency is None:
            latency = self._number("e2els", k)
        count = self._counts[k] if self._counts else 0
        if (
            latency is None
            and first is not None
            and (count or self._columns["output_lens"][k] == 1)
        ):
            latency = first + (self._sums[k] if count else 0.0)
        mean = self._sums[k] / count if count else None
        return Measured(latency, first, held if len(held) else None, mean)

    def _number(self, key: str, k: int) -> float | None:
        column = self._columns.get(key)
        return None if column is None or math.isnan(column[k]) else column[k]


def _duration(value: Any) -> float:
    if value is None:
        return math.nan
    return as_number(value, None, "duration", minimum=0, maximum=LONGEST_DURATION)


def _start(value: Any) -> float:
    return as_number(value, None, "start", minimum=0)


def _has_failed(value: Any) -> int:
    return int(bool(value))


_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "input_lens": ("i", as_count),
    "output_lens": ("i", as_count),
    "start_times": ("d", _start),
    "ttfts": ("d", _duration),
    "latencies": ("d", _duration),
    "e2els": ("d", _duration),
    "errors": ("b", _has_failed),
}

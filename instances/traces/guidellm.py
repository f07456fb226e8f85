"""GuideLLM: requests inside ``benchmarks[].requests``, Unix seconds; a JSON or YAML document.

Read in ``schemas/base/request_stats.py`` of GuideLLM 0.8. ``errored`` and ``incomplete`` requests
have failed. Several benchmarks of a file are one log: their clock is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .document import Document
from .row import FAILED, Cells, seconds_clock
from .trace_format import TraceFormat, duration, lookup, measured

MILLISECOND = 1e-3


def benchmark_requests(stream: Document) -> Iterator[dict[str, Any] | None]:
    """The requests of a list of benchmarks; None for one that has failed."""
    for _ in stream.items():
        for key in stream.members():
            if key != "requests":
                stream.skip()
                continue
            for outcome in stream.members():
                if stream.opening() != "[":
                    stream.skip()
                    continue
                for _ in stream.items():
                    record = stream.value()
                    yield record if outcome == "successful" else None


def _cells(record: dict[str, Any]) -> Cells:
    if record is None:
        return FAILED
    return Cells(
        lookup(record, "request_start_time"),
        lookup(record, "prompt_tokens"),
        lookup(record, "output_tokens"),
        measured(
            duration(record, "request_latency"),
            duration(record, "time_to_first_token_ms", seconds=MILLISECOND),
            None,
            duration(record, "inter_token_latency_ms", seconds=MILLISECOND),
        ),
    )


GUIDELLM = TraceFormat(
    name="guidellm",
    source="GuideLLM, benchmarks.json or .yaml",
    container="document",
    time="request_start_time",
    prompt="prompt_tokens",
    output="output_tokens",
    new_clock=seconds_clock,
    marks=("benchmarks",),
    cells=_cells,
    is_in_order=False,
)

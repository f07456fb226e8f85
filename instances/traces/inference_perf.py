"""inference-perf: ``per_request_lifecycle_metrics.json``, a list of requests, times in seconds.

Read in ``inference_perf/apis/base.py``; earlier releases have counts and token times in ``info``
itself. The clock is one that starts anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from instances.errors import InvalidValueError

from .row import FAILED, Cells, seconds_clock
from .trace_format import TraceFormat, as_durations, duration, lookup, measured

_TOKENS = ("info.response_metrics.output_token_times", "info.output_token_times")


def _cells(record: dict[str, Any]) -> Cells:
    if lookup(record, "error"):
        return FAILED
    start, end = duration(record, "start_time"), duration(record, "end_time")
    latency = first = None
    between = None
    if start is not None and end is not None:
        latency = _later(end, start, "end_time")
    stamps = as_durations(lookup(record, *_TOKENS) or [], _TOKENS[0])
    if start is not None and len(stamps):
        first = _later(float(stamps[0]), start, _TOKENS[0])
        between = np.diff(stamps)
        if (between < 0).any():
            raise InvalidValueError(None, _TOKENS[0], stamps.tolist(), "goes back in time")
    return Cells(
        lookup(record, "start_time"),
        lookup(record, "info.request_metrics.text.input_tokens", INFERENCE_PERF.prompt),
        lookup(record, INFERENCE_PERF.output, "info.output_tokens"),
        measured(latency, first, between),
    )


def _later(end: float, start: float, field: str) -> float:
    if end < start:
        raise InvalidValueError(None, field, end, "is before start_time")
    return end - start


INFERENCE_PERF = TraceFormat(
    name="inference-perf",
    source="inference-perf, per_request_lifecycle_metrics.json",
    container="json",
    time="start_time",
    prompt="info.input_tokens",
    output="info.response_metrics.output_tokens",
    new_clock=seconds_clock,
    marks=("start_time", "end_time", "info"),
    cells=_cells,
    is_in_order=False,
)

"""Processed traces of the simulator Vidur; those that are lengths only have no arrivals."""

from __future__ import annotations

from .row import seconds_clock
from .trace_format import TraceFormat

VIDUR = TraceFormat(
    name="vidur",
    source="Vidur, processed traces",
    container="csv",
    time="arrived_at",
    prompt="num_prefill_tokens",
    output="num_decode_tokens",
    new_clock=seconds_clock,
    time_is_optional=True,
)

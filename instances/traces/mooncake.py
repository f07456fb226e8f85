"""Mooncake traces: one JSON object a line, times in milliseconds.

``hash_ids`` tells which blocks of a prompt are shared with other requests; here every request
holds its whole prompt, so it is passed over.
"""

from __future__ import annotations

from .row import clock_of
from .trace_format import TraceFormat

MOONCAKE = TraceFormat(
    name="mooncake",
    source="Mooncake",
    container="json",
    time="timestamp",
    prompt="input_length",
    output="output_length",
    new_clock=clock_of(10**3),
)

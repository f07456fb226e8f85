"""Mooncake traces: one JSON object a line, times in milliseconds.

``hash_ids`` tells which blocks of a prompt are shared with other requests; here every request
holds its whole prompt, so it is passed over.
"""

from __future__ import annotations

from typing import Any

from .row import TICKS_PER_SECOND, Clock, TraceFormat, as_ticks


def _new_clock() -> Clock:
    def ticks(value: Any) -> int:
        return as_ticks(value, TICKS_PER_SECOND // 1000)

    return ticks


MOONCAKE = TraceFormat(
    name="mooncake",
    source="Mooncake",
    container="jsonl",
    time="timestamp",
    prompt="input_length",
    output="output_length",
    new_clock=_new_clock,
)

"""BurstGPT: ChatGPT and GPT-4 calls, in seconds since midnight of the first day.

A failed call has no response tokens and is dropped as a row without output. Later releases have
the columns ``Session ID`` and ``Elapsed time`` too; they are passed over like ``Model``,
``Total tokens`` and ``Log Type``.
"""

from __future__ import annotations

from .row import seconds_clock
from .trace_format import TraceFormat

BURSTGPT = TraceFormat(
    name="burstgpt",
    source="BurstGPT",
    container="csv",
    time="Timestamp",
    prompt="Request tokens",
    output="Response tokens",
    new_clock=seconds_clock,
)

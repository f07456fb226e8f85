"""Azure LLM inference traces (AzurePublicDataset), 2023 and 2024.

The 2023 files carry no time zone, those of 2024 do, and none mixes.
"""

from __future__ import annotations

from .row import date_clock
from .trace_format import TraceFormat

AZURE = TraceFormat(
    name="azure",
    source="Azure LLM Inference Dataset 2023 and 2024",
    container="csv",
    time="TIMESTAMP",
    prompt="ContextTokens",
    output="GeneratedTokens",
    new_clock=date_clock,
)

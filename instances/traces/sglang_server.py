"""An SGLang server's ``--export-metrics-to-file``: one finished request a line, Unix seconds.

Read in ``srt/managers/request_metrics_exporter.py`` of SGLang 0.5.23: a line is the request's
``meta_info``. An aborted request has failed.
"""

from __future__ import annotations

from typing import Any

from .row import FAILED, Cells, seconds_clock
from .trace_format import TraceFormat, duration, lookup, measured


def _cells(record: dict[str, Any]) -> Cells:
    if lookup(record, "finish_reason.type") == "abort":
        return FAILED
    return Cells(
        lookup(record, "request_received_ts"),
        lookup(record, "prompt_tokens"),
        lookup(record, "completion_tokens"),
        measured(duration(record, "e2e_latency"), duration(record, "first_token_latency")),
    )


SGLANG_SERVER = TraceFormat(
    name="sglang-server",
    source="SGLang server, --export-metrics-to-file",
    container="json",
    time="request_received_ts",
    prompt="prompt_tokens",
    output="completion_tokens",
    new_clock=seconds_clock,
    marks=("request_received_ts", "prompt_tokens"),
    cells=_cells,
    is_in_order=False,
)

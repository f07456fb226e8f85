"""Responses of an OpenAI-style API kept as JSON lines: when they were made, and their usage.

The output of a batch, where the response is in ``response.body``, is read alike. ``created`` is in
whole seconds. A record with an ``error`` has failed.
"""

from __future__ import annotations

from typing import Any

from .row import FAILED, Cells, any_clock
from .trace_format import TraceFormat, lookup


def _cells(record: dict[str, Any]) -> Cells:
    status = lookup(record, "response.status_code")
    if lookup(record, "error") or (isinstance(status, int) and status >= 400):
        return FAILED
    body = lookup(record, "response.body", missing=record)
    return Cells(
        lookup(body, "created", "created_at"),
        lookup(body, "usage.prompt_tokens", "usage.input_tokens"),
        lookup(body, "usage.completion_tokens", "usage.output_tokens"),
    )


OPENAI_USAGE = TraceFormat(
    name="openai-usage",
    source="OpenAI-style API, records with usage",
    container="json",
    time="created",
    prompt="usage.prompt_tokens",
    output="usage.completion_tokens",
    new_clock=any_clock,
    marks=("usage|response",),
    cells=_cells,
    is_in_order=False,
)

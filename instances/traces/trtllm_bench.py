"""``trtllm-bench --request_json`` of TensorRT-LLM: a list of requests, times in nanoseconds.

Read in ``tensorrt_llm/bench/dataclasses/statistics.py`` (``RequestRecord``) and ``reporting.py``
(``get_request_info``). A time of -1 was never taken.
"""

from __future__ import annotations

from typing import Any

from instances.errors import InvalidValueError

from .row import FAILED, Cells, clock_of
from .trace_format import TraceFormat, lookup, measured

NANOSECOND = 1e-9


def _cells(record: dict[str, Any]) -> Cells:
    start = lookup(record, "start_timestamp")
    if lookup(record, "error_tokens") or start == -1 or lookup(record, "end_timestamp") == -1:
        return FAILED
    return Cells(
        start,
        lookup(record, TRTLLM_BENCH.prompt),
        lookup(record, TRTLLM_BENCH.output, "num_output_tokens"),
        measured(
            _since(record, start, "end_timestamp"), _since(record, start, "first_token_timestamp")
        ),
    )


def _since(record: dict[str, Any], start: Any, field: str) -> float | None:
    """Seconds from the start to a stamp; None where it was never taken."""
    stamp = lookup(record, field)
    if stamp is None or stamp == -1 or type(start) is not int:
        return None
    if type(stamp) is not int or not start <= stamp < 2**63:
        raise InvalidValueError(None, field, stamp, "is no time after start_timestamp")
    return (stamp - start) * NANOSECOND


TRTLLM_BENCH = TraceFormat(
    name="trtllm-bench",
    source="trtllm-bench --request_json",
    container="json",
    time="start_timestamp",
    prompt="num_input_tokens",
    output="output_tokens",
    new_clock=clock_of(10**9),
    marks=("start_timestamp", "num_input_tokens"),
    cells=_cells,
    is_in_order=False,
)

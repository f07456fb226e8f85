"""AIPerf: ``profile_export.jsonl``, one request a line, times in nanoseconds since 1970.

Read in the documents of AIPerf 0.13 (``docs/tutorials/working-with-profile-exports.md``). A metric
is a value and its unit.
"""

from __future__ import annotations

from typing import Any

from instances.errors import InvalidValueError

from .row import FAILED, Cells, clock_of
from .trace_format import TraceFormat, duration, durations, lookup, measured

SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}

NANOSECOND = 1e-9


def _cells(record: dict[str, Any]) -> Cells:
    if lookup(record, "error") or lookup(record, "metadata.was_cancelled"):
        return FAILED
    start, end = lookup(record, "metadata.request_start_ns"), lookup(record, _LATENCY)
    if end is None:
        end = lookup(record, "metadata.request_end_ns")
        whole = isinstance(start, int) and isinstance(end, int) and start <= end < 2**63
        latency = (end - start) * NANOSECOND if whole else None
    else:
        latency = duration(record, _LATENCY, seconds=_unit(record, "request_latency"))
    return Cells(
        start,
        lookup(record, AIPERF.prompt),
        lookup(record, AIPERF.output, "metrics.output_token_count.value"),
        measured(
            latency,
            duration(
                record,
                "metrics.time_to_first_token.value",
                seconds=_unit(record, "time_to_first_token"),
            ),
            durations(
                record,
                "metrics.inter_chunk_latency.value",
                seconds=_unit(record, "inter_chunk_latency"),
            ),
            duration(
                record,
                "metrics.inter_token_latency.value",
                seconds=_unit(record, "inter_token_latency"),
            ),
        ),
    )


def _unit(record: dict[str, Any], tag: str) -> float:
    """Seconds in the unit of a metric."""
    unit = lookup(record, f"metrics.{tag}.unit", missing="ms")
    if not isinstance(unit, str) or unit not in SECONDS:
        known = ", ".join(SECONDS)
        raise InvalidValueError(None, f"metrics.{tag}.unit", unit, f"is no unit (known: {known})")
    return SECONDS[unit]


_LATENCY = "metrics.request_latency.value"

AIPERF = TraceFormat(
    name="aiperf",
    source="AIPerf, profile_export.jsonl",
    container="json",
    time="metadata.request_start_ns",
    prompt="metrics.input_sequence_length.value",
    output="metrics.output_sequence_length.value",
    new_clock=clock_of(10**9),
    marks=("metadata.request_start_ns", "metrics"),
    cells=_cells,
    is_in_order=False,
)

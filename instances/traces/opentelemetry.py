"""OTLP JSON: the spans that vLLM and SGLang export, a document or one a line, in nanoseconds.

Attribute names were read in ``vllm/tracing/utils.py``; those of today's semantic conventions,
``gen_ai.usage.input_tokens`` and ``.output_tokens``, are read too. A span without either count is
no request: there are many inside one. A span whose status is an error has failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .document import Document
from .row import FAILED, Cells, clock_of
from .trace_format import TraceFormat, duration, lookup, measured

NANOSECOND = 1e-9
ERROR = (2, "STATUS_CODE_ERROR")
VALUES = ("intValue", "doubleValue", "stringValue")
USAGE = "gen_ai.usage."


def spans(stream: Document) -> Iterator[Any]:
    """The spans of a list of resources."""
    for _ in stream.items():
        for key in stream.members():
            if key not in ("scopeSpans", "instrumentationLibrarySpans"):
                stream.skip()
                continue
            for _ in stream.items():
                for inner in stream.members():
                    if inner != "spans":
                        stream.skip()
                        continue
                    for _ in stream.items():
                        yield stream.value()


def _cells(record: dict[str, Any]) -> Cells | None:
    found = _attributes(lookup(record, "attributes"))
    prompt = found.get(USAGE + "prompt_tokens", found.get(USAGE + "input_tokens"))
    output = found.get(USAGE + "completion_tokens", found.get(USAGE + "output_tokens"))
    if prompt is None and output is None:
        return None
    if lookup(record, "status.code") in ERROR:
        return FAILED
    start, end = lookup(record, "startTimeUnixNano"), lookup(record, "endTimeUnixNano")
    latency = duration(found, "gen_ai.latency.e2e")
    if latency is None:
        begin, finish = _whole(start), _whole(end)
        if begin is not None and finish is not None and finish >= begin:
            latency = (finish - begin) * NANOSECOND
    return Cells(
        start,
        prompt,
        output,
        measured(latency, duration(found, "gen_ai.latency.time_to_first_token")),
    )


def _whole(value: Any) -> int | None:
    """A number of nanoseconds, which OTLP writes as text."""
    text = str(value)
    return int(text) if len(text) < 25 and text.isascii() and text.isdigit() else None


def _attributes(listed: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in listed if isinstance(listed, list) else ():
        key, value = lookup(one, "key"), lookup(one, *(f"value.{kind}" for kind in VALUES))
        if isinstance(key, str):
            found[key] = value
    return found


OPENTELEMETRY = TraceFormat(
    name="otlp",
    source="OpenTelemetry spans, OTLP JSON",
    container="document",
    time="startTimeUnixNano",
    prompt="gen_ai.usage.prompt_tokens",
    output="gen_ai.usage.completion_tokens",
    new_clock=clock_of(10**9),
    marks=("resourceSpans",),
    cells=_cells,
    is_in_order=False,
)

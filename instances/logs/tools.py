"""Convert records that benchmarks and engines write to rows, each with one request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .cells import NO_LIST, BadRow, as_list, bad_cell, column, inside, lookup

LONGEST_ATTRIBUTE = 256
"""Longest attribute of a span that is kept, in characters. Some attributes are whole prompts."""

FAILED, OUTER_SPAN = "failed", "counted by another span"

Row = dict[str, Any] | str | BadRow
"""A request as a dict by column; a reason (str) to leave it out; or a `BadRow` if unreadable."""

_LENGTHS = ("input_lens", "output_lens")
_LISTS = (*_LENGTHS, "start_times", "ttfts", "itls", "latencies", "e2els", "errors")


def _run(run: dict[str, Any]) -> Iterator[Row]:
    """Yield the requests of a benchmark run of vLLM or SGLang.

    The run is an object of lists, each with one entry per request. SGLang does not write start
    times: arrivals are then evenly spaced at the run's request rate, or left empty (all requests at
    once) if the rate is unlimited.
    """
    lists: dict[str, Any] = {key: run.get(key) for key in _LISTS if key in {*run, *_LENGTHS}}
    sizes = {key: len(one) if isinstance(one, list) else None for key, one in lists.items()}
    if None in sizes.values() or len({*sizes.values()}) > 1:
        yield BadRow(f"needs lists of one length, with an entry per request; it has {sizes}")
        return
    rate = rate_of(run)
    for k, entries in enumerate(zip(*lists.values(), strict=True)):
        row = dict(zip(lists, entries, strict=True))
        yield FAILED if row.get("errors") else {"arrival": rate and k / rate, **row}


def rate_of(run: Any) -> float | None:
    """Return the request rate of a benchmark run, in requests per second; None if unlimited."""
    rate = lookup(run, "request_rate")
    return float(rate) if type(rate) in (int, float) and 0 < rate < float("inf") else None


def _guidellm(document: dict[str, Any]) -> Iterator[Row]:
    """Yield the requests of all benchmarks in a document of GuideLLM.

    Requests that it does not list as successful count as failed. The arrival times of all
    benchmarks are on the same clock.
    """
    for requests in inside(document, ("benchmarks", "requests")):
        for outcome in requests if isinstance(requests, dict) else ():
            for one in inside(requests[outcome] or [], ()):
                yield one if outcome == "successful" else FAILED


def _inference_perf(record: dict[str, Any]) -> Iterator[Row]:
    name = "info.response_metrics.output_token_times"
    stamps = lookup(record, name, "info.output_token_times") or []
    gaps = None if as_list(stamps) is None else np.diff(stamps)
    if gaps is None or (gaps < 0).any():
        yield bad_cell(name, stamps, NO_LIST if gaps is None else "goes back in time")
    else:
        yield {**record, name: gaps.tolist(), "first_token": stamps[0] if stamps else None}


def _trtllm(record: dict[str, Any]) -> Iterator[Row]:
    """Yield the request of a TensorRT-LLM record, without timestamps of -1, which mean "not set".

    A request without a start or an end has failed.
    """
    stamps = ("first_token_timestamp", "start_timestamp", "end_timestamp")
    found = {key: value for key, value in record.items() if key not in stamps or value != -1}
    yield FAILED if -1 in (record.get(stamps[1]), record.get(stamps[2])) else found


_VALUES = ("value.intValue", "value.doubleValue", "value.stringValue")
_SPAN = ("traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano")


def _attributes(record: Any) -> dict[str, Any]:
    pairs = [(lookup(one, "key"), lookup(one, *_VALUES)) for one in inside(record, ("attributes",))]
    return {str(key): value for key, value in pairs if len(str(value)) < LONGEST_ATTRIBUTE}


def _spans(document: dict[str, Any]) -> Iterator[Row]:
    """Yield the spans of an OpenTelemetry document as dicts.

    Each has the span's identity and times, its attributes, and those of its resource.
    """
    for resource in inside(document, ("resourceSpans",)):
        common = _attributes(lookup(resource, "resource"))
        for span in inside(resource, ("scopeSpans", "spans")):
            if isinstance(span, dict):
                own = {key: span[key] for key in _SPAN if key in span}
                own["error"] = lookup(span, "status.code") in (2, "STATUS_CODE_ERROR")
                span = {**common, **_attributes(span), **own}
            yield span


def innermost(
    chunks: Iterable[tuple[Sequence[int], list[Any]]], columns: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[list[int], list[Any]]]:
    """Select spans of OpenTelemetry so that every request counts once.

    A client, its library and the engine may each write a span with the tokens of the same request.
    An agent writes a span with the tokens of all its calls. So of nested spans with token counts
    only the innermost counts as a request. The others are replaced by `OUTER_SPAN`, the reason to
    leave them out. A span that was sent twice is kept once.
    """
    rows = [one for chunk in chunks for one in zip(*chunk, strict=True)]
    spans = [span for _, span in rows]
    names = [[str(one or "") for one in column(spans, name)] for name in _SPAN[:3]]
    # A span without a span id gets the identity None, and is not nested in any other span.
    places = [(trace, own) if own else None for trace, own, _ in zip(*names, strict=True)]
    above = [(trace, parent) for trace, _, parent in zip(*names, strict=True)]
    parents = {own: one for own, one in zip(places, above, strict=True) if own != one}
    prompts, outputs = (column(spans, *columns[role]) for role in ("prompt", "output"))
    outer: set[Any] = set()
    for place, output in zip(places, outputs, strict=True):
        while output is not None and (place := parents.get(place)) and place not in outer:
            outer.add(place)
    kept = []
    for (number, span), place, *counts in zip(rows, places, prompts, outputs, strict=True):
        if counts != [None, None] or not isinstance(span, dict):
            kept.append((number, OUTER_SPAN if place in outer else span))
            outer |= {place} - {None}
    yield [number for number, _ in kept], [span for _, span in kept]


def _dynamo(record: dict[str, Any]) -> Iterator[Row]:
    """Yield the request of a Dynamo record of type ``request_end``, with the label of its worker.

    Dynamo's trace files nest the record under the key ``event``; the log of the process does not. A
    request with ``output_tokens`` of 0 was dropped before its first token, and has failed.
    """
    event = record.get("event", record)
    if lookup(event, "event_type") == "request_end" and isinstance(event.get("request"), dict):
        found = event["request"]
        parts = [lookup(found, f"worker.decode_{name}") for name in ("worker_id", "dp_rank")]
        label = ":".join(str(one) for one in parts if one is not None)
        yield FAILED if found.get("output_tokens") == 0 else {**found, "decode_worker": label}


def _response(record: dict[str, Any]) -> Iterator[Row]:
    """Yield a record if it is a whole response, or the last chunk of a streamed response.

    Earlier chunks of a stream are not requests, although they may have token counts.
    """
    choices = [one for one in inside(record, ("choices",)) if isinstance(one, dict)]
    if not choices or any(one.get("finish_reason", "") is not None for one in choices):
        yield record


ROWS: dict[str, Callable[[dict[str, Any]], Iterable[Row]]] = {
    "vllm-bench": _run,
    "sglang-bench": _run,
    "guidellm": _guidellm,
    "inference-perf": _inference_perf,
    "trtllm-bench": _trtllm,
    "otlp": _spans,
    "dynamo": _dynamo,
    "openai-usage": _response,
}
"""For each format whose records are not requests, a function from a record to its requests."""

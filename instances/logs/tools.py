"""Rows of records as tools write them: one request each, with its times and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from instances.errors import InvalidValueError, shown

from .cells import as_durations
from .paths import inside, lookup

LONGEST_ATTRIBUTE = 256
"""Characters of an attribute of a span that is held: some have whole prompts."""

FAILED, WARM_UP, OUTER_SPAN = "failed", "warm-up", "counted by another span"
PHASES = {"phase", "benchmark_phase", "credit_phase", "is_warmup", "warmup", "is_warm_up"}
"""Keys, at the top of a record or in its metadata, that say whether it is of a warm-up."""

Row = dict[str, Any] | str
"""A record whose columns are read, or the reason why it is left out."""

_RUN_LISTS = (
    *("input_lens", "output_lens", "start_times"),
    *("ttfts", "itls", "latencies", "e2els", "errors"),
)


def _run(run: dict[str, Any]) -> Iterator[Row]:
    """Requests of a run of vLLM's or SGLang's benchmark: an object of lists, an entry a request.

    Both agree but for the start times, which SGLang does not write: its requests arrive at the
    run's rate, evenly, or all at once where that is unlimited.
    """
    lists = {key: run[key] for key in _RUN_LISTS if key in run}
    for key in _RUN_LISTS[:2]:
        if key not in lists:
            raise ValueError(f"has no {key}: every request needs its tokens, in and out")
    for key, entries in lists.items():
        if not isinstance(entries, list):
            raise ValueError(f"{key} {shown(entries)} is not a list")
        if len(entries) != len(lists["input_lens"]):
            count = len(lists["input_lens"])
            raise ValueError(f"{key} has {len(entries)} entries and input_lens {count}")
    rate = rate_of(run)
    for k, entries in enumerate(zip(*lists.values(), strict=True)):
        row = dict(zip(lists, entries, strict=True))
        yield FAILED if row.get("errors") else {"arrival": rate and k / rate, **row}


def rate_of(run: Any) -> float | None:
    """Requests per second of a run of a benchmark, where they were sent at a rate."""
    rate = lookup(run, "request_rate")
    return float(rate) if type(rate) in (int, float) and 0 < rate < float("inf") else None


def _guidellm(document: dict[str, Any]) -> Iterator[Row]:
    """Requests below ``benchmarks``, whose clock is the same: only the successful have ended."""
    for requests in inside(document, ("benchmarks", "requests")):
        for outcome in requests if isinstance(requests, dict) else ():
            for one in inside(requests[outcome] or [], ()):
                yield one if outcome == "successful" else FAILED


def _aiperf(record: dict[str, Any]) -> Iterator[Row]:
    """Refuse durations in other units than AIPerf's milliseconds."""
    kinds = ("request_latency", "time_to_first_token", "inter_token_latency", "inter_chunk_latency")
    for name in kinds:
        unit = lookup(record, f"metrics.{name}.unit", missing="ms")
        if unit != "ms":
            raise InvalidValueError(None, f"metrics.{name}.unit", unit, "is not ms")
    yield record


def _inference_perf(record: dict[str, Any]) -> Iterator[Row]:
    name = "info.response_metrics.output_token_times"
    stamps = lookup(record, name, "info.output_token_times") or []
    try:
        gaps = np.diff(as_durations(stamps))
        if (gaps < 0).any():
            raise ValueError("goes back in time")
    except ValueError as error:
        raise InvalidValueError(None, name, stamps, str(error)) from None
    yield {**record, name: gaps.tolist(), "first_token": stamps[0] if stamps else None}


def _trtllm(record: dict[str, Any]) -> Iterator[Row]:
    """Leave out times of -1, which were never taken."""
    stamps = ("first_token_timestamp", "start_timestamp", "end_timestamp")
    found = {key: value for key, value in record.items() if key not in stamps or value != -1}
    yield FAILED if -1 in (record.get(stamps[1]), record.get(stamps[2])) else found


_VALUES = ("value.intValue", "value.doubleValue", "value.stringValue")
_SPAN = ("traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano")


def _attributes(record: Any) -> dict[str, Any]:
    listed = inside(record, ("attributes",))
    pairs = [(lookup(one, "key"), lookup(one, *_VALUES)) for one in listed]
    short = [(key, value) for key, value in pairs if len(str(value)) < LONGEST_ATTRIBUTE]
    return {key: value for key, value in short if isinstance(key, str)}


def _spans(document: dict[str, Any]) -> Iterator[Row]:
    """Spans with their attributes and those of their resource."""
    for resource in inside(document, ("resourceSpans",)):
        common = _attributes(lookup(resource, "resource"))
        for scopes in ("scopeSpans", "instrumentationLibrarySpans"):
            for span in inside(resource, (scopes, "spans")):
                if isinstance(span, dict):
                    own = {key: span[key] for key in _SPAN if key in span}
                    own["error"] = lookup(span, "status.code") in (2, "STATUS_CODE_ERROR")
                    span = {**common, **_attributes(span), **own}
                yield span


def innermost(
    spans: Iterable[tuple[int, Any]], columns: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[int, Any]]:
    """Yield the spans that count tokens; of spans inside one another the innermost is a request.

    A client, its library and the engine each count the tokens of a request, and an agent counts
    those of all its calls; of spans that were sent twice the first is kept.
    """
    parents: dict[Any, Any] = {}
    requests, counting, outer = [], [], set()
    for number, span in spans:
        place, counts = None, [True, False]
        if isinstance(span, dict):
            trace, own, parent = (str(span.get(name) or "") for name in _SPAN[:3])
            # Without an identity a span is inside nothing.
            if own:
                place = trace, own
                parents[place] = (trace, parent) if parent != own else None
            counts = [lookup(span, *columns[one]) is not None for one in ("prompt", "output")]
        if any(counts):
            counting.append((number, place, span))
        if counts[1]:
            requests.append(place)
    for place in requests:
        while (place := parents.get(place)) is not None and place not in outer:
            outer.add(place)
    for number, place, span in counting:
        yield number, OUTER_SPAN if place in outer else span
        if place is not None:
            outer.add(place)


def _dynamo(record: dict[str, Any]) -> Iterator[Row]:
    """Measurements of a finished request, with its worker.

    Files hold each record below ``event``, the log of the process holds it bare. A request that
    was dropped before its first token has ``output_tokens`` of 0.
    """
    event = record.get("event", record)
    found = lookup(event, "request")
    found = found if isinstance(found, dict) else {}
    if lookup(event, "event_type") == "request_end":
        parts = [lookup(found, f"worker.decode_{name}") for name in ("worker_id", "dp_rank")]
        label = ":".join(str(one) for one in parts if one is not None)
        yield FAILED if found.get("output_tokens") == 0 else {**found, "decode_worker": label}


def _response(record: dict[str, Any]) -> Iterator[Row]:
    """A record of a batch's output with what its response holds, or a response as it is.

    A piece of a stream before its last is no request, though it may count tokens too.
    """
    body = lookup(record, "response.body")
    reasons = [lookup(one, "finish_reason", missing="") for one in record.get("choices") or ()]
    if not reasons or any(reason is not None for reason in reasons):
        yield body | record if isinstance(body, dict) else record


ROWS: dict[str, Callable[[dict[str, Any]], Iterable[Row]]] = {
    "vllm-bench": _run,
    "sglang-bench": _run,
    "guidellm": _guidellm,
    "aiperf": _aiperf,
    "inference-perf": _inference_perf,
    "trtllm-bench": _trtllm,
    "otlp": _spans,
    "dynamo": _dynamo,
    "openai-usage": _response,
}
"""From a record to its requests, by format."""


def is_warm_up(record: dict[str, Any]) -> bool:
    """Return True if a record says that its request was sent to warm the server up, or to cool it.

    Benchmarks measure none of these, and their requests were not sent at the benchmark's times.
    """
    for where in (record, record.get("metadata")):
        known = where if isinstance(where, dict) else {}
        for key in PHASES & known.keys():
            value = "".join(one for one in str(known[key]).lower() if one.isalnum())
            is_flag = "warm" in key and value in ("true", "1", "yes")
            if is_flag or value.startswith(("warm", "cooldown")):
                return True
    return False

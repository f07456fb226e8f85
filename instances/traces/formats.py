"""Formats of traces and logs: one table, and the functions that read cells of records.

Where a tool's log is described by its source code, the comment at its entry names the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from instances.errors import InvalidValueError

from .plausibility import MOONCAKE_BLOCK, QWEN_BLOCK
from .row import (
    DATES,
    MILLISECONDS,
    OUTER_SPAN,
    Cells,
    Measured,
    as_count,
    as_duration,
    as_durations,
)
from .streams import JsonStream
from .trace_format import TraceFormat, duration, durations, lookup

MILLISECOND, MICROSECOND, NANOSECOND = 1e-3, 1e-6, 1e-9

LONGEST_ATTRIBUTE = 256
"""Characters of an attribute of a span that is held."""

LATEST_STAMP = 1e19
"""Microseconds beyond which a stamp is none."""

# --- GuideLLM -----------------------------------------------------------------------------------


def _guidellm_requests(stream: JsonStream) -> Iterator[Any]:
    """Requests below ``benchmarks``: errored and incomplete ones have failed.

    Several benchmarks of a file are one log: their clock is the same.
    """
    for _ in stream.inside([], ["requests"]):
        for outcome in stream.members():
            if stream.opening() != "[":
                stream.skip()
                continue
            for _ in stream.items():
                record = stream.value()
                yield record if outcome == "successful" else None


# --- AIPerf -------------------------------------------------------------------------------------

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}


def _metric(record: dict[str, Any], tag: str) -> Any:
    """A metric of AIPerf, which is a value and its unit, or values and their unit, in seconds."""
    value = lookup(record, f"metrics.{tag}.value")
    if value is None:
        return None
    unit = lookup(record, f"metrics.{tag}.unit", missing="ms")
    if not isinstance(unit, str) or unit not in _SECONDS:
        reason = f"is no unit (known: {', '.join(_SECONDS)})"
        raise InvalidValueError(None, f"metrics.{tag}.unit", unit, reason)
    read = as_durations if tag == "inter_chunk_latency" else as_duration
    return read(value, f"metrics.{tag}.value") * _SECONDS[unit]


def _aiperf_measured(record: dict[str, Any]) -> Measured:
    latency = _metric(record, "request_latency")
    start, end = (lookup(record, f"metadata.request_{one}_ns") for one in ("start", "end"))
    is_whole = isinstance(start, int) and isinstance(end, int)
    if latency is None and is_whole and start <= end < 2**63:
        latency = (end - start) * NANOSECOND
    return Measured(
        latency,
        _metric(record, "time_to_first_token"),
        _metric(record, "inter_chunk_latency"),
        _metric(record, "inter_token_latency"),
    )


# --- inference-perf -----------------------------------------------------------------------------

_TOKEN_TIMES = "info.response_metrics.output_token_times"


def _inference_perf_measured(record: dict[str, Any]) -> Measured:
    start, end = duration(record, "start_time"), duration(record, "end_time")
    latency = first = between = None
    if start is not None and end is not None:
        latency = _later(end, start, "end_time")
    listed = lookup(record, _TOKEN_TIMES, "info.output_token_times")
    stamps = as_durations(listed or [], _TOKEN_TIMES)
    if start is not None and len(stamps):
        first = _later(float(stamps[0]), start, _TOKEN_TIMES)
        between = np.diff(stamps)
        if (between < 0).any():
            raise InvalidValueError(None, _TOKEN_TIMES, stamps.tolist(), "goes back in time")
    return Measured(latency, first, between)


def _later(end: float, start: float, column: str) -> float:
    if end < start:
        raise InvalidValueError(None, column, end, "is before start_time")
    return end - start


# --- trtllm-bench -------------------------------------------------------------------------------


def _trtllm_failed(record: dict[str, Any]) -> bool:
    """Tell whether there are tokens of errors, or a time of -1, which was never taken."""
    stamps = [lookup(record, name) for name in ("start_timestamp", "end_timestamp")]
    return bool(lookup(record, "error_tokens")) or -1 in stamps


def _trtllm_since(record: dict[str, Any], column: str) -> float | None:
    """Seconds from the start to a stamp; None where it was never taken."""
    start, stamp = lookup(record, "start_timestamp"), lookup(record, column)
    if stamp is None or stamp == -1 or type(start) is not int:
        return None
    if type(stamp) is not int or not start <= stamp < 2**63:
        raise InvalidValueError(None, column, stamp, "is no time after start_timestamp")
    return (stamp - start) * NANOSECOND


# --- OpenTelemetry ------------------------------------------------------------------------------

_PROMPTS = ("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens")
_OUTPUTS = ("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens")
_VALUES = ("value.intValue", "value.doubleValue", "value.stringValue")
_SPAN_IDS = ("traceId", "spanId", "parentSpanId")
_SPAN_TIMES = ("startTimeUnixNano", "endTimeUnixNano", "status")
_WORKERS = ("service.instance.id", "k8s.pod.name", "host.name")


def _spans(stream: JsonStream) -> Iterator[Any]:
    """Spans, each with the resource that it came from, which stands before them."""
    for _ in stream.items():
        resource = None
        for key in stream.members():
            if key in ("scopeSpans", "instrumentationLibrarySpans"):
                for _ in stream.inside([], ["spans"], []):
                    span = stream.value()
                    yield {**span, "resource": resource} if isinstance(span, dict) else span
            elif key == "resource":
                resource = stream.value()
            else:
                stream.skip()


def _attributes(record: Any) -> dict[str, Any]:
    listed = lookup(record, "attributes")
    pairs = [
        (lookup(one, "key"), lookup(one, *_VALUES))
        for one in (listed if isinstance(listed, list) else ())
    ]
    return {key: value for key, value in pairs if isinstance(key, str)}


def _innermost(spans: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield the spans that count tokens, as their attributes, times and those of their resource.

    A client, its library and the engine each count the tokens of a request, and an agent counts
    those of all its calls: of spans inside one another the innermost is kept, and of spans that
    were sent twice the first. All are held, because a span may be before or after those inside it.
    """
    parents: dict[Any, Any] = {}
    counting: list[tuple[int, Any, Any]] = []
    for number, span in spans:
        record, place = span, None
        if isinstance(span, dict):
            trace, own, parent = (str(span.get(name) or "") for name in _SPAN_IDS)
            # Without an identity a span is inside nothing.
            if own:
                place = trace, own
                parents[place] = (trace, parent) if parent != own else None
            record = _attributes(span)
            if all(lookup(record, *columns) is None for columns in (_PROMPTS, _OUTPUTS)):
                continue
            record = _attributes(span.get("resource")) | record
            # Some have whole prompts among their attributes.
            record = {key: one for key, one in record.items() if len(str(one)) < LONGEST_ATTRIBUTE}
            record |= {name: span.get(name) for name in _SPAN_TIMES}
        counting.append((number, place, record))
    outer = set()
    for _, place, record in counting:
        around = parents.get(place)
        has_output = isinstance(record, dict) and lookup(record, *_OUTPUTS) is not None
        while has_output and around is not None and around not in outer:
            outer.add(around)
            around = parents.get(around)
    for number, place, record in counting:
        yield number, {OUTER_SPAN: True} if place in outer else record
        if place is not None:
            outer.add(place)


def _span_measured(record: dict[str, Any]) -> Measured:
    latency = duration(record, "gen_ai.latency.e2e")
    if latency is None:
        # OTLP writes nanoseconds as text.
        start, end = str(record["startTimeUnixNano"]), str(record["endTimeUnixNano"])
        is_whole = all(len(one) < 25 and one.isascii() and one.isdigit() for one in (start, end))
        if is_whole and int(end) >= int(start):
            latency = (int(end) - int(start)) * NANOSECOND
    return Measured(latency, duration(record, "gen_ai.latency.time_to_first_token"))


# --- Dynamo -------------------------------------------------------------------------------------


def _dynamo_request(record: dict[str, Any]) -> dict[str, Any] | None:
    """The measurements of a finished request, with its worker; None for another event.

    Files hold each record below ``event``, the log of the process holds it bare.
    """
    event = record.get("event", record)
    if lookup(event, "event_type") != "request_end":
        return None
    found = lookup(event, "request")
    found = found if isinstance(found, dict) else {}
    parts = [lookup(found, f"worker.decode_{name}") for name in ("worker_id", "dp_rank")]
    return {**found, "decode_worker": ":".join(str(one) for one in parts if one is not None)}


# --- BLIS ---------------------------------------------------------------------------------------


def _blis_request(record: dict[str, Any]) -> dict[str, Any]:
    """A row with the whole prompt, as the server counted it if it did, and the time of sending.

    Prompts are written without the prefix of their group; arrivals as they were planned.
    """
    counts = {}
    for name in ("input_tokens", "prefix_length", "server_input_tokens"):
        value = record.get(name, 0)
        try:
            counts[name] = as_count(value)
        except ValueError as error:
            raise InvalidValueError(None, name, value, str(error)) from None
    prompt = counts["server_input_tokens"] or counts["input_tokens"] + counts["prefix_length"]
    sent = record.get("send_time_us")
    time = sent if _microseconds(sent) else record.get("arrival_time_us")
    return {**record, "input_tokens": prompt, "arrival_time_us": time}


def _microseconds(stamp: Any) -> float:
    """Read a stamp, 0 where there is none; tables that were written again have it as 1.0."""
    try:
        number = float(stamp)
    except (TypeError, ValueError):
        return 0.0
    return number if 0 < number < LATEST_STAMP else 0.0


def _blis_measured(record: dict[str, Any]) -> Measured:
    names = ("arrival", "first_chunk", "last_chunk")
    start, first, last = (_microseconds(record.get(f"{name}_time_us")) for name in names)
    is_streamed = str(record.get("streaming")).lower() != "false"
    return Measured(
        (last - start) * MICROSECOND if last and last >= start else None,
        (first - start) * MICROSECOND if is_streamed and first and first >= start else None,
    )


# --- OpenAI-style APIs --------------------------------------------------------------------------


def _response(record: dict[str, Any]) -> dict[str, Any] | None:
    """A record of a batch's output with what its response holds, or a response as it is.

    None for a piece of a stream before its last, which may count tokens too.
    """
    body = lookup(record, "response.body")
    choices = record.get("choices")
    if isinstance(choices, list) and choices:
        reasons = [lookup(one, "finish_reason", missing="") for one in choices]
        if all(reason is None for reason in reasons):
            return None
    return body | record if isinstance(body, dict) else record


def _response_failed(record: dict[str, Any]) -> bool:
    status = lookup(record, "response.status_code")
    return bool(lookup(record, "error")) or (isinstance(status, int) and status >= 400)


# --- the table ----------------------------------------------------------------------------------

_TABLE = (
    # Files of 2023 carry no time zone, those of 2024 do, and none mixes.
    TraceFormat(
        "azure",
        "Azure LLM Inference Dataset 2023 and 2024",
        "csv",
        time="TIMESTAMP",
        prompt="ContextTokens",
        output="GeneratedTokens",
        unit=DATES,
        is_in_order=True,
    ),
    # ChatGPT and GPT-4 calls, in seconds since midnight of the first day. A failed call has no
    # response tokens and is dropped as a row without output. Other columns are passed over: Session
    # ID and Elapsed time of later releases, Model, Total tokens and Log Type.
    TraceFormat(
        "burstgpt",
        "BurstGPT",
        "csv",
        time="Timestamp",
        prompt="Request tokens",
        output="Response tokens",
        is_in_order=True,
    ),
    # hash_ids tells which blocks of a prompt are shared with other requests; a request holds its
    # whole prompt unless the log is asked for prompts without what is shared.
    TraceFormat(
        "mooncake",
        "Mooncake",
        "json",
        time="timestamp",
        prompt="input_length",
        output="output_length",
        unit=MILLISECONDS,
        blocks=lambda record: (MOONCAKE_BLOCK, record.get("hash_ids")),
        is_in_order=True,
    ),
    # The same columns in seconds; `detection` says which of both a file is.
    TraceFormat(
        "qwen-bailian",
        "Qwen traces of Alibaba Cloud Bailian",
        "json",
        time="timestamp",
        prompt="input_length",
        output="output_length",
        blocks=lambda record: (QWEN_BLOCK, record.get("hash_ids")),
        is_in_order=True,
    ),
    # Processed traces of the simulator; those that are lengths only have no arrivals.
    TraceFormat(
        "vidur",
        "Vidur, processed traces",
        "csv",
        time="arrived_at",
        prompt="num_prefill_tokens",
        output="num_decode_tokens",
        time_is_optional=True,
        is_in_order=True,
    ),
    # vllm/benchmarks/serve.py
    TraceFormat(
        "vllm-bench",
        "vllm bench serve --save-result --save-detailed",
        "document",
        time="start_times",
        prompt="input_lens",
        output="output_lens",
        marks=("input_lens", "output_lens", "start_times"),
    ),
    # sglang/bench_serving.py
    TraceFormat(
        "sglang-bench",
        "sglang bench_serving --output-details",
        "document",
        time=None,
        prompt="input_lens",
        output="output_lens",
        marks=("input_lens", "output_lens"),
    ),
    # srt/managers/request_metrics_exporter.py of SGLang 0.5.23: a line is a finished request's
    # meta_info, in Unix seconds.
    TraceFormat(
        "sglang-server",
        "SGLang server, --export-metrics-to-file",
        "json",
        time="request_received_ts",
        prompt="prompt_tokens",
        output="completion_tokens",
        marks=("request_received_ts", "prompt_tokens"),
        has_failed=lambda record: lookup(record, "finish_reason.type") == "abort",
        measured=durations(
            latency=("e2e_latency", 1.0), time_to_first_token=("first_token_latency", 1.0)
        ),
    ),
    # schemas/base/request_stats.py of GuideLLM 0.8: a JSON or YAML document, in Unix seconds.
    TraceFormat(
        "guidellm",
        "GuideLLM, benchmarks.json or .yaml",
        "document",
        time="request_start_time",
        prompt="prompt_tokens",
        output="output_tokens",
        marks=("benchmarks",),
        requests=_guidellm_requests,
        measured=durations(
            latency=("request_latency", 1.0),
            time_to_first_token=("time_to_first_token_ms", MILLISECOND),
            mean_inter_token_time=("inter_token_latency_ms", MILLISECOND),
        ),
    ),
    # docs/tutorials/working-with-profile-exports.md of AIPerf 0.13: nanoseconds since 1970.
    TraceFormat(
        "aiperf",
        "AIPerf, profile_export.jsonl",
        "json",
        time="metadata.request_start_ns",
        prompt="metrics.input_sequence_length.value",
        output="metrics.output_sequence_length.value",
        unit="nanoseconds",
        marks=("metadata.request_start_ns", "metrics"),
        names={
            "metrics.output_sequence_length.value": (
                "metrics.output_sequence_length.value",
                "metrics.output_token_count.value",
            )
        },
        has_failed=lambda record: (
            lookup(record, "error") or lookup(record, "metadata.was_cancelled")
        ),
        measured=_aiperf_measured,
    ),
    # inference_perf/apis/base.py; earlier releases have counts and token times in info itself.
    # Seconds of a clock that starts anywhere.
    TraceFormat(
        "inference-perf",
        "inference-perf, per_request_lifecycle_metrics.json",
        "json",
        time="start_time",
        prompt="info.input_tokens",
        output="info.response_metrics.output_tokens",
        marks=("start_time", "end_time", "info"),
        names={
            "info.input_tokens": ("info.request_metrics.text.input_tokens", "info.input_tokens"),
            "info.response_metrics.output_tokens": (
                "info.response_metrics.output_tokens",
                "info.output_tokens",
            ),
        },
        has_failed=lambda record: lookup(record, "error"),
        measured=_inference_perf_measured,
    ),
    # tensorrt_llm/bench/dataclasses/statistics.py (RequestRecord) and reporting.py
    # (get_request_info): nanoseconds.
    TraceFormat(
        "trtllm-bench",
        "trtllm-bench --request_json",
        "json",
        time="start_timestamp",
        prompt="num_input_tokens",
        output="output_tokens",
        unit="nanoseconds",
        marks=("start_timestamp", "num_input_tokens"),
        names={"output_tokens": ("output_tokens", "num_output_tokens")},
        has_failed=_trtllm_failed,
        measured=lambda record: Measured(
            _trtllm_since(record, "end_timestamp"), _trtllm_since(record, "first_token_timestamp")
        ),
    ),
    # vllm/tracing/utils.py, and the names of today's semantic conventions. A span without either
    # count is no request: there are many inside one.
    TraceFormat(
        "otlp",
        "OpenTelemetry spans, OTLP JSON",
        "document",
        time="startTimeUnixNano",
        prompt=_PROMPTS[0],
        output=_OUTPUTS[0],
        unit="nanoseconds",
        marks=("resourceSpans",),
        names={_PROMPTS[0]: _PROMPTS, _OUTPUTS[0]: _OUTPUTS, _WORKERS[0]: _WORKERS},
        worker=_WORKERS[0],
        requests=_spans,
        request=lambda record: Cells(left_out=OUTER_SPAN) if OUTER_SPAN in record else record,
        among=_innermost,
        has_failed=lambda record: lookup(record, "status.code") in (2, "STATUS_CODE_ERROR"),
        measured=_span_measured,
    ),
    # lib/llm/src/request_trace/types.rs of Dynamo, schema dynamo.request.trace.v1, in Unix
    # milliseconds. A request without a session has no input_tokens; one that was dropped before its
    # first token has output_tokens of 0.
    TraceFormat(
        "dynamo",
        "Dynamo, request traces (DYN_REQUEST_TRACE=1)",
        "json",
        time="request_received_ms",
        prompt="input_tokens",
        output="output_tokens",
        unit=MILLISECONDS,
        marks=("event.schema|schema", "event.event_type|event_type"),
        names={"input_tokens": ("input_tokens", "replay.input_length")},
        worker="decode_worker",
        blocks=lambda record: (
            lookup(record, "replay.trace_block_size"),
            lookup(record, "replay.input_sequence_hashes"),
        ),
        request=_dynamo_request,
        has_failed=lambda record: lookup(record, "output_tokens") == 0,
        measured=durations(
            latency=("total_time_ms", MILLISECOND),
            time_to_first_token=("ttft_ms", MILLISECOND),
            mean_inter_token_time=("avg_itl_ms", MILLISECOND),
        ),
    ),
    # sim/workload/tracev2.go of inference-sim (BLIS), the data file; its header file is not read.
    # Microseconds; first_chunk and last_chunk are 0 where there was none.
    TraceFormat(
        "blis",
        "BLIS (inference-sim), data file of a TraceV2",
        "csv",
        time="arrival_time_us",
        prompt="input_tokens",
        output="output_tokens",
        unit="microseconds",
        marks=("arrival_time_us", "first_chunk_time_us", "input_tokens", "output_tokens"),
        request=_blis_request,
        has_failed=lambda record: str(record.get("status") or "ok").strip().lower() != "ok",
        measured=_blis_measured,
    ),
    # Responses kept as lines, or the output of a batch, where they are in response.body unless
    # they failed. "created" is in whole seconds.
    TraceFormat(
        "openai-usage",
        "OpenAI-style API, records with usage",
        "json",
        time="created",
        prompt="usage.prompt_tokens",
        output="usage.completion_tokens",
        unit=None,
        marks=("usage|response.body|custom_id",),
        names={
            "created": ("created", "created_at"),
            "usage.prompt_tokens": ("usage.prompt_tokens", "usage.input_tokens"),
            "usage.completion_tokens": ("usage.completion_tokens", "usage.output_tokens"),
        },
        request=_response,
        has_failed=_response_failed,
    ),
)

FORMATS: dict[str, TraceFormat] = {one.name: one for one in _TABLE}

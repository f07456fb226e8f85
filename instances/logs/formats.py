"""Formats of traces and logs: one table of where each tool writes what.

Where a tool's log is described by its source code, the comment at its entry names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from instances.errors import InvalidValueError, shown

from .cells import DATES, MILLISECONDS, SECONDS, Clock, as_count, as_durations
from .paths import ABSENT, inside, lookup, named_unit

MILLISECOND, MICROSECOND = 1e-3, 1e-6

MOONCAKE_BLOCK, QWEN_BLOCK = 512, 16
"""Tokens of a block in the traces of Mooncake, and in those of Qwen's service."""

LONGEST_ATTRIBUTE = 256
"""Characters of an attribute of a span that is held: some have whole prompts."""

OUTER_SPAN = "counted by another span"

Row = dict[str, Any] | str | None
"""A record whose columns are read, the reason why it is left out, or None where it failed."""


class Format(NamedTuple):
    """Description of what a tool or a dataset writes where.

    Attributes
    ----------
    name : str
        What ``format=`` calls it.
    columns : Mapping[str, str or tuple[str, ...]]
        By what they hold the columns, or paths to keys, that are looked up in turn: ``arrival``,
        ``prompt``, ``output``, ``latency``, ``time_to_first_token``, ``inter_token_time`` (the
        mean), ``inter_token_times``, ``end`` and ``first_token`` (times of day), ``worker``,
        ``hashes``. A name with ``_unit`` is that of a column with the unit of another.
    unit : str or None
        Unit of ``arrival``, as in `Clock`.
    seconds : Mapping[str, float]
        Seconds in the unit of a duration; others are in seconds.
    marks : tuple[str, ...]
        Columns by which a tool's log is told, ``a|b`` where either will do and ``-a`` where it must
        not be there; those of datasets are the columns that are read.
    rows : Callable[[dict[str, Any]], Iterable[Row]] or None
        From a record to its requests.
    among : Callable[[list[tuple[int, Any]]], Iterable[tuple[int, Any]]] or None
        From all numbered rows to those that may be requests.
    is_document : bool
        Whether a record holds many requests, so that these are numbered.
    failed : Callable[[dict[str, Any]], Any] or None
        Whether the request of a row failed or was broken off.
    block_size : int or str
        Tokens of a block of ``hashes``, or the column that has it.
    optional_arrival : bool
        Whether there are files without arrivals.
    note : str or None
        What was assumed of the columns.
    """

    name: str
    columns: Mapping[str, str | tuple[str, ...]]
    unit: str | None = SECONDS
    seconds: Mapping[str, float] = {}
    marks: tuple[str, ...] = ()
    rows: Callable[[dict[str, Any]], Iterable[Row]] | None = None
    among: Callable[[list[tuple[int, Any]]], Iterable[tuple[int, Any]]] | None = None
    is_document: bool = False
    failed: Callable[[dict[str, Any]], Any] | None = None
    block_size: int | str = 0
    optional_arrival: bool = False
    note: str | None = None

    def names(self, role: str) -> tuple[str, ...]:
        """Where a cell may be, looked up in turn."""
        names = self.columns.get(role, ())
        return (names,) if isinstance(names, str) else names

    def name_of(self, role: str) -> str:
        """The column of a role, as errors call it."""
        return next(iter(self.names(role)), role)

    @property
    def is_log(self) -> bool:
        """True for logs of a tool, which may not know the output of a request."""
        return bool(self.marks)

    @property
    def is_in_order(self) -> bool:
        """True where rows promise to be in order of time; others are sorted unless told."""
        return not self.marks and self.name != "columns"

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that no file of this format is without."""
        optional = {"hashes", *["arrival"] * self.optional_arrival}
        return self.marks or tuple(
            name for role in self.columns if role not in optional for name in self.names(role)
        )

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Tell whether a record has every column that this format requires."""
        return not any(self.lacks(mark, [record]) for mark in self.required)

    def lacks(self, mark: str, records: Iterable[Mapping[str, Any]]) -> bool:
        """Tell whether none of the records has a column, or one has what must not be there."""
        names = mark.removeprefix("-").split("|")
        is_there = any(lookup(one, *names, missing=ABSENT) is not ABSENT for one in records)
        return is_there == mark.startswith("-")

    def clock(self) -> Clock:
        """Return a clock that reads the arrivals of one file."""
        return Clock(self.unit, named_unit(self.name_of("arrival")) or SECONDS)


# --- rows of records ----------------------------------------------------------------------------

RUN_LISTS = (
    "input_lens",
    "output_lens",
    "start_times",
    "ttfts",
    "itls",
    "latencies",
    "e2els",
    "errors",
)


def _run(run: dict[str, Any]) -> Iterator[Row]:
    """Requests of a run of vLLM's or SGLang's benchmark: an object of lists, an entry a request.

    Both agree but for the start times, which SGLang does not write: its requests arrive at the
    run's rate, evenly, or all at once where that is unlimited.
    """
    lists = {key: run[key] for key in RUN_LISTS if key in run}
    for key in RUN_LISTS[:2]:
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
        yield None if row.get("errors") else {"arrival": rate and k / rate, **row}


def rate_of(run: Mapping[str, Any]) -> float | None:
    """Requests a second of a run of a benchmark, where they were sent at a rate."""
    rate: Any = run.get("request_rate")
    return float(rate) if type(rate) in (int, float) and 0 < rate < float("inf") else None


def _guidellm(document: dict[str, Any]) -> Iterator[Row]:
    """Requests below ``benchmarks``, whose clock is the same: only the successful have ended."""
    for requests in inside(document, ("benchmarks", "requests")):
        for outcome, listed in requests.items() if isinstance(requests, dict) else ():
            for one in listed if isinstance(listed, list) else ():
                yield one if outcome == "successful" else None


def _inference_perf(record: dict[str, Any]) -> Iterator[Row]:
    name = "info.response_metrics.output_token_times"
    stamps = lookup(record, name, "info.output_token_times") or []
    try:
        gaps = np.diff(as_durations(stamps))
    except ValueError as error:
        raise InvalidValueError(None, name, stamps, str(error)) from None
    if (gaps < 0).any():
        raise InvalidValueError(None, name, stamps, "goes back in time")
    yield {**record, name: gaps.tolist(), "first_token": stamps[0] if stamps else None}


def _trtllm(record: dict[str, Any]) -> Iterator[Row]:
    """Leave out times of -1, which were never taken."""
    stamps = ("start_timestamp", "first_token_timestamp", "end_timestamp")
    found = {key: value for key, value in record.items() if key not in stamps or value != -1}
    has_failed = record.get("error_tokens") or -1 in (record.get(stamps[0]), record.get(stamps[2]))
    yield None if has_failed else found


_PROMPTS = ("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens")
_OUTPUTS = ("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens")
_VALUES = ("value.intValue", "value.doubleValue", "value.stringValue")
_SPAN = ("traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano", "status")


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
                is_span = isinstance(span, dict)
                own = {key: span[key] for key in _SPAN if key in span} if is_span else {}
                yield {**common, **_attributes(span), **own} if is_span else span


def _innermost(spans: list[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield the spans that count tokens; of spans inside one another the innermost is a request.

    A client, its library and the engine each count the tokens of a request, and an agent counts
    those of all its calls; of spans that were sent twice the first is kept.
    """
    parents: dict[Any, Any] = {}
    counting: list[tuple[int, Any, Any]] = []
    for number, span in spans:
        place = None
        if isinstance(span, dict):
            trace, own, parent = (str(span.get(name) or "") for name in _SPAN[:3])
            # Without an identity a span is inside nothing.
            if own:
                place = trace, own
                parents[place] = (trace, parent) if parent != own else None
            if all(lookup(span, *names) is None for names in (_PROMPTS, _OUTPUTS)):
                continue
        counting.append((number, place, span))
    outer = set()
    for _, place, span in counting:
        around = parents.get(place)
        has_output = isinstance(span, dict) and lookup(span, *_OUTPUTS) is not None
        while has_output and around is not None and around not in outer:
            outer.add(around)
            around = parents.get(around)
    for number, place, span in counting:
        yield number, OUTER_SPAN if place in outer else span
        if place is not None:
            outer.add(place)


def _dynamo(record: dict[str, Any]) -> Iterator[Row]:
    """Measurements of a finished request, with its worker.

    Files hold each record below ``event``, the log of the process holds it bare.
    """
    event = record.get("event", record)
    found = lookup(event, "request")
    if lookup(event, "event_type") == "request_end":
        parts = [lookup(found, f"worker.decode_{name}") for name in ("worker_id", "dp_rank")]
        label = ":".join(str(one) for one in parts if one is not None)
        yield {**(found if isinstance(found, dict) else {}), "decode_worker": label}


def _blis(record: dict[str, Any]) -> Iterator[Row]:
    """A row with the whole prompt, as the server counted it if it did, and the time of sending.

    Prompts are written without the prefix of their group; arrivals as they were planned. A stamp
    of 0 was never taken.
    """
    counts = {}
    for name in ("input_tokens", "prefix_length", "server_input_tokens"):
        value = record.get(name, 0)
        try:
            counts[name] = as_count(value)
        except ValueError as error:
            raise InvalidValueError(None, name, value, str(error)) from None
    stamps = {key: value for key, value in record.items() if key.endswith("_time_us")}
    taken = {key: value for key, value in stamps.items() if str(value).strip("0.")}
    if str(record.get("streaming")).lower() == "false":
        taken.pop("first_chunk_time_us", None)
    prompt = counts["server_input_tokens"] or counts["input_tokens"] + counts["prefix_length"]
    planned = taken.get("send_time_us", record.get("arrival_time_us"))
    rest = {key: value for key, value in record.items() if key not in stamps}
    yield {**rest, **taken, "arrival_time_us": planned, "input_tokens": prompt}


def _response(record: dict[str, Any]) -> Iterator[Row]:
    """A record of a batch's output with what its response holds, or a response as it is.

    A piece of a stream before its last is no request, though it may count tokens too.
    """
    body = lookup(record, "response.body")
    reasons = [lookup(one, "finish_reason", missing="") for one in record.get("choices") or ()]
    if not reasons or any(reason is not None for reason in reasons):
        yield body | record if isinstance(body, dict) else record


def _response_failed(record: dict[str, Any]) -> bool:
    status = lookup(record, "response.status_code")
    return bool(record.get("error")) or (type(status) is int and status >= 400)


# --- the table ----------------------------------------------------------------------------------

_PROMPTS_AND_OUTPUTS = {"prompt": "input_length", "output": "output_length", "hashes": "hash_ids"}
_RUN: dict[str, str | tuple[str, ...]] = {
    "prompt": "input_lens",
    "output": "output_lens",
    "latency": ("latencies", "e2els"),
    "time_to_first_token": "ttfts",
    "inter_token_times": "itls",
}
_TABLE = (
    # Files of 2023 carry no time zone, those of 2024 do, and none mixes.
    Format(
        "azure",
        {"arrival": "TIMESTAMP", "prompt": "ContextTokens", "output": "GeneratedTokens"},
        unit=DATES,
    ),
    # ChatGPT and GPT-4 calls, in seconds since midnight of the first day. A failed call has no
    # response tokens and is dropped as a row without output.
    Format(
        "burstgpt",
        {"arrival": "Timestamp", "prompt": "Request tokens", "output": "Response tokens"},
    ),
    Format(
        "mooncake",
        {"arrival": "timestamp", **_PROMPTS_AND_OUTPUTS},
        unit=MILLISECONDS,
        block_size=MOONCAKE_BLOCK,
    ),
    # The same columns in seconds; `units.likely_unit` says which of both a file is.
    Format("qwen-bailian", {"arrival": "timestamp", **_PROMPTS_AND_OUTPUTS}, block_size=QWEN_BLOCK),
    # Processed traces of the simulator; those that are lengths only have no arrivals.
    Format(
        "vidur",
        {"arrival": "arrived_at", "prompt": "num_prefill_tokens", "output": "num_decode_tokens"},
        optional_arrival=True,
    ),
    # vllm/benchmarks/serve.py
    Format(
        "vllm-bench",
        {"arrival": "start_times", **_RUN},
        marks=("input_lens|output_lens", "start_times"),
        rows=_run,
        is_document=True,
    ),
    # sglang/bench_serving.py
    Format(
        "sglang-bench",
        {"arrival": "arrival", **_RUN},
        marks=("input_lens|output_lens", "-start_times"),
        rows=_run,
        is_document=True,
        optional_arrival=True,
    ),
    # srt/managers/request_metrics_exporter.py of SGLang 0.5.23: a line is a finished request's
    # meta_info, in Unix seconds.
    Format(
        "sglang-server",
        {
            "arrival": "request_received_ts",
            "prompt": "prompt_tokens",
            "output": "completion_tokens",
            "latency": "e2e_latency",
            "time_to_first_token": "first_token_latency",
        },
        marks=("request_received_ts", "prompt_tokens"),
        failed=lambda record: lookup(record, "finish_reason.type") == "abort",
    ),
    # schemas/base/request_stats.py of GuideLLM 0.8: a JSON or YAML document, in Unix seconds.
    Format(
        "guidellm",
        {
            "arrival": "request_start_time",
            "prompt": "prompt_tokens",
            "output": "output_tokens",
            "latency": "request_latency",
            "time_to_first_token": "time_to_first_token_ms",
            "inter_token_time": "inter_token_latency_ms",
        },
        seconds={"time_to_first_token": MILLISECOND, "inter_token_time": MILLISECOND},
        marks=("benchmarks",),
        rows=_guidellm,
        is_document=True,
    ),
    # docs/tutorials/working-with-profile-exports.md of AIPerf 0.13: nanoseconds since 1970.
    Format(
        "aiperf",
        {
            "arrival": "metadata.request_start_ns",
            "prompt": "metrics.input_sequence_length.value",
            "output": (
                "metrics.output_sequence_length.value",
                "metrics.output_token_count.value",
            ),
            "latency": "metrics.request_latency.value",
            "latency_unit": "metrics.request_latency.unit",
            "time_to_first_token": "metrics.time_to_first_token.value",
            "time_to_first_token_unit": "metrics.time_to_first_token.unit",
            "inter_token_time": "metrics.inter_token_latency.value",
            "inter_token_time_unit": "metrics.inter_token_latency.unit",
            "inter_token_times": "metrics.inter_chunk_latency.value",
            "inter_token_times_unit": "metrics.inter_chunk_latency.unit",
            "end": "metadata.request_end_ns",
        },
        unit="nanoseconds",
        marks=("metadata.request_start_ns", "metrics"),
        failed=lambda record: record.get("error") or lookup(record, "metadata.was_cancelled"),
    ),
    # inference_perf/apis/base.py; earlier releases have counts and token times in info itself.
    # Seconds of a clock that starts anywhere.
    Format(
        "inference-perf",
        {
            "arrival": "start_time",
            "prompt": ("info.request_metrics.text.input_tokens", "info.input_tokens"),
            "output": ("info.response_metrics.output_tokens", "info.output_tokens"),
            "end": "end_time",
            "first_token": "first_token",
            "inter_token_times": "info.response_metrics.output_token_times",
        },
        marks=("start_time", "end_time", "info"),
        rows=_inference_perf,
        failed=lambda record: record.get("error"),
    ),
    # tensorrt_llm/bench/dataclasses/statistics.py (RequestRecord) and reporting.py
    # (get_request_info): nanoseconds.
    Format(
        "trtllm-bench",
        {
            "arrival": "start_timestamp",
            "prompt": "num_input_tokens",
            "output": ("output_tokens", "num_output_tokens"),
            "end": "end_timestamp",
            "first_token": "first_token_timestamp",
        },
        unit="nanoseconds",
        marks=("start_timestamp", "num_input_tokens"),
        rows=_trtllm,
    ),
    # vllm/tracing/utils.py, and the names of today's semantic conventions. A span without either
    # count is no request: there are many inside one.
    Format(
        "otlp",
        {
            "arrival": "startTimeUnixNano",
            "prompt": _PROMPTS,
            "output": _OUTPUTS,
            "latency": "gen_ai.latency.e2e",
            "time_to_first_token": "gen_ai.latency.time_to_first_token",
            "end": "endTimeUnixNano",
            "worker": ("service.instance.id", "k8s.pod.name", "host.name"),
        },
        unit="nanoseconds",
        marks=("resourceSpans",),
        rows=_spans,
        among=_innermost,
        is_document=True,
        failed=lambda record: lookup(record, "status.code") in (2, "STATUS_CODE_ERROR"),
    ),
    # lib/llm/src/request_trace/types.rs of Dynamo, schema dynamo.request.trace.v1, in Unix
    # milliseconds. A request without a session has no input_tokens; one that was dropped before its
    # first token has output_tokens of 0.
    Format(
        "dynamo",
        {
            "arrival": "request_received_ms",
            "prompt": ("input_tokens", "replay.input_length"),
            "output": "output_tokens",
            "latency": "total_time_ms",
            "time_to_first_token": "ttft_ms",
            "inter_token_time": "avg_itl_ms",
            "worker": "decode_worker",
            "hashes": "replay.input_sequence_hashes",
        },
        unit=MILLISECONDS,
        seconds=dict.fromkeys(("latency", "time_to_first_token", "inter_token_time"), MILLISECOND),
        marks=("event.schema|schema", "event.event_type|event_type"),
        rows=_dynamo,
        failed=lambda record: record.get("output_tokens") == 0,
        block_size="replay.trace_block_size",
    ),
    # sim/workload/tracev2.go of inference-sim (BLIS), the data file; its header file is not read.
    Format(
        "blis",
        {
            "arrival": "arrival_time_us",
            "prompt": "input_tokens",
            "output": "output_tokens",
            "end": "last_chunk_time_us",
            "first_token": "first_chunk_time_us",
        },
        unit="microseconds",
        marks=("arrival_time_us", "first_chunk_time_us", "input_tokens", "output_tokens"),
        rows=_blis,
        failed=lambda record: str(record.get("status") or "ok").strip().lower() != "ok",
    ),
    # Responses kept as lines, or the output of a batch, where they are in response.body unless
    # they failed. "created" is in whole seconds.
    Format(
        "openai-usage",
        {
            "arrival": ("created", "created_at"),
            "prompt": ("usage.prompt_tokens", "usage.input_tokens"),
            "output": ("usage.completion_tokens", "usage.output_tokens"),
        },
        unit=None,
        marks=("usage|response.body|custom_id",),
        rows=_response,
        failed=_response_failed,
    ),
)

FORMATS: dict[str, Format] = {one.name: one for one in _TABLE}

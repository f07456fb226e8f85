"""The same five requests as every tool would log them; numbers are made up.

Sent 0, 0.5, 1.25 and 3 seconds after the first, prompts of 374, 396, 879 and 91 tokens, outputs of
3, 1, 2 and 4; the fifth, sent at 2, failed. They stand in the order in which they ended: 0.5 first.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import yaml


class Logged(NamedTuple):
    """A request, in seconds and tokens; without tokens it has failed."""

    start: float
    prompt: int
    output: int
    first: float
    between: tuple[float, ...]

    @property
    def latency(self) -> float:
        return self.first + sum(self.between)

    @property
    def tokens(self) -> list[float]:
        """When each token came."""
        return [self.start + self.first + sum(self.between[:k]) for k in range(self.output)]


# All numbers are sums of few powers of two, so that differences are exact.
REQUESTS = (
    Logged(0.5, 396, 1, 0.125, ()),
    Logged(0.0, 374, 3, 0.25, (0.5, 0.0625)),
    Logged(2.0, 50, 0, 0.0, ()),
    Logged(1.25, 879, 2, 0.5, (0.03125,)),
    Logged(3.0, 91, 4, 0.125, (0.25, 0.25, 0.125)),
)
FAILED_AT = 2
EPOCH = 1_700_000_000
"""Unix time of the first request."""


def nanoseconds(seconds: float) -> int:
    return round(seconds * 10**9)


def vllm_bench(**changes: Any) -> str:
    run = {
        "date": "20260102-030405",
        "backend": "vllm",
        "num_prompts": 5,
        "request_rate": "inf",
        "burstiness": 1.0,
        "duration": 4.5,
        "completed": 4,
        "request_throughput": 0.9,
        "mean_tpot_ms": float("nan"),
        "input_lens": [one.prompt for one in REQUESTS],
        "output_lens": [one.output for one in REQUESTS],
        "ttfts": [one.first for one in REQUESTS],
        "itls": [list(one.between) for one in REQUESTS],
        "start_times": [1000.0 + one.start for one in REQUESTS],
        "generated_texts": ['a "quoted] text, }' for _ in REQUESTS],
        "errors": ["" if one.output else "Timeout" for one in REQUESTS],
        "max_concurrent_requests": 3,
    }
    run.update(changes)
    return json.dumps({key: value for key, value in run.items() if value is not None})


def sglang_bench(rate: Any = 2.0, **changes: Any) -> str:
    return vllm_bench(start_times=None, request_rate=rate, **changes) + "\n"


def sglang_server() -> str:
    return lines(
        {
            "request_parameters": "{}",
            "id": f"r{k}",
            "finish_reason": {"type": "stop" if one.output else "abort"},
            "prompt_tokens": one.prompt,
            "completion_tokens": one.output,
            "request_received_ts": EPOCH + one.start,
            "queue_time": 0.01,
            "first_token_latency": one.first,
            "e2e_latency": one.latency,
        }
        for k, one in enumerate(REQUESTS)
    )


def guidellm_report() -> dict[str, Any]:
    requests: dict[str, list[Any]] = {"successful": [], "incomplete": [], "errored": []}
    for one in REQUESTS:
        mean = 1000 * sum(one.between) / len(one.between) if one.between else None
        requests["successful" if one.output else "errored"].append(
            {
                "type_": "generative_request_stats",
                "request_start_time": EPOCH + one.start,
                "request_latency": one.latency,
                "prompt_tokens": one.prompt,
                "output_tokens": one.output or None,
                "time_to_first_token_ms": 1000 * one.first,
                "inter_token_latency_ms": mean,
            }
        )
    return {
        "args": {"target": "http://localhost:8000"},
        "benchmarks": [{"config": {"rate": [1, 2]}, "requests": requests, "metrics": {}}],
        "metadata": {"version": 1},
    }


def guidellm() -> str:
    return json.dumps(guidellm_report(), indent=4)


def guidellm_yaml() -> str:
    return str(yaml.safe_dump(guidellm_report()))


def aiperf() -> str:
    def metrics(one: Logged) -> dict[str, Any]:
        if not one.output:
            return {"error_isl": {"value": one.prompt, "unit": "tokens"}}
        found: dict[str, Any] = {
            "input_sequence_length": {"value": one.prompt, "unit": "tokens"},
            "output_sequence_length": {"value": one.output, "unit": "tokens"},
            "time_to_first_token": {"value": 1000 * one.first, "unit": "ms"},
            "request_latency": {"value": 1000 * one.latency, "unit": "ms"},
        }
        if one.between:
            gaps = [1000 * gap for gap in one.between]
            found["inter_chunk_latency"] = {"value": gaps, "unit": "ms"}
        return found

    return lines(
        {
            "metadata": {
                "session_num": k,
                "request_start_ns": EPOCH * 10**9 + nanoseconds(one.start),
                "request_end_ns": EPOCH * 10**9 + nanoseconds(one.start + one.latency),
                "was_cancelled": not one.output,
            },
            "metrics": metrics(one),
            "error": None if one.output else {"code": 499, "type": "RequestCancellationError"},
        }
        for k, one in enumerate(REQUESTS)
    )


def inference_perf() -> str:
    return json.dumps(
        [
            {
                "stage_id": 0,
                "start_time": 500.0 + one.start,
                "end_time": 500.0 + one.start + one.latency,
                "request": '{"prompt": "[{"}',
                "response": '{"choices": []}',
                "info": {
                    "request_metrics": {"text": {"input_tokens": one.prompt}},
                    "input_tokens": one.prompt,
                    "response_metrics": {
                        "output_tokens": one.output,
                        "output_token_times": [500.0 + token for token in one.tokens],
                    }
                    if one.output
                    else None,
                },
                "error": None if one.output else {"error_type": "Timeout", "error_msg": "late"},
            }
            for one in REQUESTS
        ],
        indent=2,
    )


def trtllm_bench() -> str:
    return json.dumps(
        [
            {
                "id": k,
                "num_input_tokens": one.prompt,
                "output_tokens": one.output,
                "error_tokens": 0 if one.output else 1,
                "start_timestamp": 7 * 10**12 + nanoseconds(one.start),
                "first_token_timestamp": 7 * 10**12 + nanoseconds(one.start + one.first),
                "end_timestamp": 7 * 10**12 + nanoseconds(one.start + one.latency),
                "output": "text",
            }
            for k, one in enumerate(REQUESTS)
        ]
    )


def spans(requests: tuple[Logged, ...] = REQUESTS) -> dict[str, Any]:
    def attribute(key: str, kind: str, value: Any) -> dict[str, Any]:
        return {"key": key, "value": {kind: value}}

    found: list[Any] = [{"name": "tokenize", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}]
    found += [
        {
            "name": "llm_request",
            "startTimeUnixNano": str(EPOCH * 10**9 + nanoseconds(one.start)),
            "endTimeUnixNano": str(EPOCH * 10**9 + nanoseconds(one.start + one.latency)),
            "attributes": [
                attribute("gen_ai.response.model", "stringValue", "m"),
                attribute("gen_ai.usage.prompt_tokens", "intValue", str(one.prompt)),
                attribute("gen_ai.usage.completion_tokens", "intValue", str(one.output)),
                attribute("gen_ai.latency.time_to_first_token", "doubleValue", one.first),
                attribute("gen_ai.latency.e2e", "doubleValue", one.latency),
            ],
            "status": {} if one.output else {"code": 2, "message": "aborted"},
        }
        for one in requests
    ]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": found}]}]}


def otlp() -> str:
    return json.dumps(spans(), indent=1)


def otlp_lines() -> str:
    return lines([spans(REQUESTS[:2]), spans(REQUESTS[2:])])


def dynamo() -> str:
    """Five requests with and without a session, and a tool event; two decode workers."""
    records: list[dict[str, Any]] = [{"event_type": "tool_end", "tool": {"tool_call_id": "c"}}]
    for k, one in enumerate(REQUESTS):
        request: dict[str, Any] = {
            "request_id": f"r{k}",
            "request_received_ms": 1000 * EPOCH + round(1000 * one.start),
            "output_tokens": one.output,
            "worker": {"prefill_worker_id": 7, "decode_worker_id": 2**63 + k % 2},
            "replay": {
                "trace_block_size": 64,
                "input_length": one.prompt,
                "input_sequence_hashes": [2**64 - 1 - b for b in range(-(-one.prompt // 64))],
            },
        }
        if k % 2:
            request["worker"]["decode_dp_rank"] = 3
            request["input_tokens"] = one.prompt
        if one.output:
            request |= {"ttft_ms": 1000 * one.first, "total_time_ms": 1000 * one.latency}
        if one.between:
            request["avg_itl_ms"] = 1000 * sum(one.between) / len(one.between)
        records.append({"event_type": "request_end", "request": request})
    return lines(
        {"timestamp": 5, "event": {"schema": "dynamo.request.trace.v1", **record}}
        for record in records
    )


def blis() -> str:
    """A table of all columns that are read: prompts without their prefix, or as counted."""
    rows = ["request_id,prefix_group,prefix_length,streaming,input_tokens,output_tokens"]
    rows[0] += ",server_input_tokens,arrival_time_us,send_time_us,first_chunk_time_us"
    rows[0] += ",last_chunk_time_us,num_chunks,status,error_message"
    for k, one in enumerate(REQUESTS):
        sent, first, last = (
            10**6 * EPOCH + round(10**6 * (one.start + after))
            for after in (0, one.first, one.latency)
        )
        counted, status = (one.prompt if k % 2 else 0), ("ok" if one.output else "timeout")
        rows.append(
            f"{k},g,40,true,{one.prompt - 40},{one.output},{counted},{1000 * k},{sent},{first},"
            f'{last},{one.output},{status},"late, perhaps"'
        )
    return "\n".join(rows) + "\n"


def openai_usage(start: Any = lambda one: EPOCH + one.start) -> str:
    return lines(
        {"id": "x", "error": {"message": "overloaded"}}
        if not one.output
        else {
            "id": "x",
            "object": "chat.completion",
            "created": start(one),
            "usage": {"prompt_tokens": one.prompt, "completion_tokens": one.output},
        }
        for one in REQUESTS
    )


def openai_batch() -> str:
    return lines(
        {
            "id": "x",
            "custom_id": "y",
            "response": {"status_code": 200, "body": json.loads(line)},
            "error": None,
        }
        if "usage" in line
        else {"id": "x", "custom_id": "y", "response": None, "error": {"code": "expired"}}
        for line in openai_usage().splitlines()
    )


def in_order(header: str, row: Any) -> str:
    """A trace: rows in order of time; a call that failed has no output."""
    rows = [row(one) for one in sorted(REQUESTS)]
    return "".join(f"{one}\n" for one in ([header, *rows] if header else rows))


def azure(zone: str = "") -> str:
    return in_order(
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        lambda one: f"2023-11-16 18:15:{46.68059 + one.start:.7f}{zone},{one.prompt},{one.output}",
    )


def burstgpt(sessions: str = "") -> str:
    return in_order(
        f"Timestamp,{sessions}Model,Request tokens,Response tokens,Total tokens,Log Type",
        lambda one: (
            f"{one.start + 5:g},{'8a2f,0.7,' if sessions else ''}ChatGPT,{one.prompt},{one.output},"
            f"{one.prompt + one.output},API log"
        ),
    )


def mooncake() -> str:
    return in_order(
        "",
        lambda one: json.dumps(
            {
                "timestamp": round(1000 * one.start) + 27_482,
                "input_length": one.prompt,
                "output_length": one.output,
                "hash_ids": [0] * -(-one.prompt // 512),
            }
        ),
    )


def vidur() -> str:
    return in_order(
        "arrived_at,num_prefill_tokens,num_decode_tokens",
        lambda one: f"{one.start:g},{one.prompt},{one.output}",
    )


def lines(records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


LOGS: dict[str, str] = {
    "vllm-bench": vllm_bench(),
    "sglang-server": sglang_server(),
    "guidellm": guidellm(),
    "guidellm as YAML": guidellm_yaml(),
    "aiperf": aiperf(),
    "inference-perf": inference_perf(),
    "trtllm-bench": trtllm_bench(),
    "otlp": otlp(),
    "otlp, one a line": otlp_lines(),
    "dynamo": dynamo(),
    "openai-usage": openai_usage(),
    "openai-usage of a batch": openai_batch(),
}
"""All that have start times; the name of the format comes first."""

TRACES: dict[str, str] = {
    "azure": azure(),
    "azure with zones": azure("+00:00"),
    "burstgpt": burstgpt(),
    "burstgpt with sessions": burstgpt("Session ID,Elapsed time,"),
    "mooncake": mooncake(),
    "vidur": vidur(),
}
"""Published traces of the same requests, in order of time and without measurements."""

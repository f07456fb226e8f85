"""The same five requests as every tool would log them, in tests/data/logs; numbers are made up.

Sent 0, 0.5, 1.25 and 3 seconds after the first, prompts of 374, 396, 879 and 91 tokens, outputs of
3, 1, 2 and 4; the fifth, sent at 2, failed. They stand in the order in which they ended: 0.5 first.
All numbers are sums of few powers of two, so that differences are exact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "data" / "logs"


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


REQUESTS = (
    Logged(0.5, 396, 1, 0.125, ()),
    Logged(0.0, 374, 3, 0.25, (0.5, 0.0625)),
    Logged(2.0, 50, 0, 0.0, ()),
    Logged(1.25, 879, 2, 0.5, (0.03125,)),
    Logged(3.0, 91, 4, 0.125, (0.25, 0.25, 0.125)),
)
EPOCH = 1_700_000_000
"""Unix time of the first request."""


def lines(records: Iterable[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def stored(name: str) -> Callable[[], str]:
    """Return a function that reads a file."""
    return lambda: (FOLDER / name).read_text("utf-8")


aiperf, dynamo, sglang_server = map(stored, ("aiperf.jsonl", "dynamo.jsonl", "sglang-server.jsonl"))
guidellm, trtllm_bench = map(stored, ("guidellm.json", "trtllm-bench.json"))


def vllm_bench(**changes: Any) -> str:
    """A run with entries changed, added or, where they are None, left out."""
    run = {**json.loads(stored("vllm-bench.json")()), **changes}
    return json.dumps({key: value for key, value in run.items() if value is not None})


def sglang_bench(rate: Any = 2.0, **changes: Any) -> str:
    return vllm_bench(start_times=None, request_rate=rate, **changes) + "\n"


def guidellm_report() -> dict[str, Any]:
    report: dict[str, Any] = json.loads(guidellm())
    return report


def spans(requests: tuple[Logged, ...]) -> dict[str, Any]:
    """Spans of some of the requests, behind that of another task."""
    document: dict[str, Any] = json.loads(stored("otlp.json")())
    scope = document["resourceSpans"][0]["scopeSpans"][0]
    other, *every = scope["spans"]
    scope["spans"] = [other, *(every[REQUESTS.index(one)] for one in requests)]
    return document


def openai_usage(start: Callable[[Logged], Any] = lambda one: EPOCH + one.start) -> str:
    """Answers created at other times."""
    records = [json.loads(line) for line in stored("openai-usage.jsonl")().splitlines()]
    for record, one in zip(records, REQUESTS, strict=True):
        if "created" in record:
            record["created"] = start(one)
    return lines(records)


LOGS: dict[str, str] = {
    "vllm-bench": vllm_bench(),
    "sglang-server": sglang_server(),
    "guidellm": guidellm(),
    "aiperf": aiperf(),
    "inference-perf": stored("inference-perf.json")(),
    "trtllm-bench": trtllm_bench(),
    "otlp": stored("otlp.json")(),
    "otlp, one a line": lines([spans(REQUESTS[:2]), spans(REQUESTS[2:])]),
    "dynamo": dynamo(),
    "openai-usage": openai_usage(),
    "openai-usage of a batch": stored("openai-batch.jsonl")(),
}
"""All that have start times; the name of the format comes first."""

TRACES: dict[str, str] = {
    "azure": stored("azure.csv")(),
    "azure with zones": stored("azure-zones.csv")(),
    "burstgpt": stored("burstgpt.csv")(),
    "burstgpt with sessions": stored("burstgpt-sessions.csv")(),
    "mooncake": stored("mooncake.jsonl")(),
    "vidur": stored("vidur.csv")(),
}
"""Published traces of the same requests, in order of time and without measurements."""

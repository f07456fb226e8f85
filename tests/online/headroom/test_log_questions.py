"""Questions of logs: what is said of the requests, and settings of the engine that a log states."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from instances import InvalidTypeError, InvalidValueError, MemoryRule, RequestLog, read_log
from online.headroom import Question, question_of_log
from online.headroom.engine_settings import settings_facts, stated_memory, with_settings
from online.policies.j25.mc_sf import MemoryConstrainedShortestFirst
from online.policy_interface.specs import PolicySpec

COLUMNS = {"arrival": "t", "prompt": "p", "output": "o", "latency": "l"}
RUN = {
    "request_throughput": 1.0,
    "start_times": [0.0, 1.0],
    "input_lens": [3, 4],
    "output_lens": [2, 2],
}
# What `vllm bench serve --metadata` writes is text.
METADATA = {"max_num_seqs": "64", "enable_prefix_caching": "false", "watermark": "0.01"}


def asked(log: RequestLog, memory: int = 100, **options: Any) -> Question:
    return question_of_log(log, "affine:0.02,0,0", memory_limit=memory, **options)


def test_shared_tokens_are_those_of_the_requests_kept(tmp_path: Path) -> None:
    path = tmp_path / "moon.jsonl"
    rows = [(0, 600, [1, 2]), (1000, 1100, [1, 3, 4]), (2000, 900, [1, 3]), (3000, 4000, [9] * 8)]
    records = (
        {"timestamp": at, "input_length": s, "output_length": 9, "hash_ids": ids}
        for at, s, ids in rows
    )
    path.write_text("\n".join(map(json.dumps, records)), "utf-8")
    options = {"too_long": "drop", "start_seconds": 1, "memory_rule": MemoryRule(512)}
    # The window leaves out the first request, which supplies a block all the same.
    question = asked(read_log(path, shared_prefixes=True), 2048, **options)
    assert question.workload.prompt_lengths.tolist() == [1100, 900]
    assert question.shared_tokens is not None
    assert question.shared_tokens.tolist() == [512, 512]
    assert question.reused == Fraction(1024, 2000)
    assert asked(read_log(path), 2048, **options).shared_tokens is None


@pytest.mark.parametrize(
    ("latencies", "window", "why_not"),
    [
        ((1, 9, 9.5), {}, None),
        ((1, 9, 9.5), {"start_seconds": 1}, None),
        ((1, 9, ""), {"max_requests": 2}, None),
        ((1, 9, 9.5), {"faster": 2}, "not compared: the log has it of 3 of 3 requests, and arr"),
        ((1, "", 9.5), {}, "not compared: the log has it of 2 of 3 requests"),
        ((0, 0, 0), {}, "not compared: "),
    ],
)
def test_latencies_of_the_log_that_are_not_compared(
    tmp_path: Path, latencies: tuple[Any, ...], window: dict[str, Any], why_not: str | None
) -> None:
    path = tmp_path / "log.csv"
    rows = (f"{at},5,3,{latency}\n" for at, latency in enumerate(latencies))
    path.write_text(f"t,p,o,l\n{''.join(rows)}", "utf-8")
    question = asked(read_log(path, columns=COLUMNS), **window)
    assert (question.measured is None) == (why_not is not None)
    assert question.facts.get("measured latency", "").startswith(why_not or "")


def test_a_log_states_settings(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    answered = {"chunked_prefill_size": 4096, "schedule_policy": "fcfs", "dist": None}
    for members, settings in [
        (METADATA, {"max_num_seqs": 64, "enable_prefix_caching": False, "watermark": 0.01}),
        ({"server_info": answered}, {"chunked_prefill_size": 4096}),
        ({"server_info": None, "max_num_seqs": [1]}, {}),
    ]:
        path.write_text(json.dumps({**members, **RUN}), "utf-8")
        assert read_log(path).settings == settings


VLLM = MemoryRule(16, "next", "chunks")


@pytest.mark.parametrize(
    ("settings", "stated"),
    [
        ({}, (None, None)),
        # One of vLLM's blocks holds nothing.
        ({"block_size": 16, "num_gpu_blocks": 401}, (VLLM, 6400)),
        ({"num_gpu_blocks": 401}, (None, None)),
        ({"max_total_num_tokens": 9000}, (None, 9000)),
        ({"block_size": "x"}, None),
        ({"block_size": 4, "num_gpu_blocks": 1}, None),
    ],
)
def test_memory_that_a_log_states(settings: dict[str, Any], stated: Any) -> None:
    if stated is not None:
        assert stated_memory(settings) == stated
        return
    with pytest.raises((InvalidTypeError, InvalidValueError), match="block"):
        stated_memory(settings)


def test_the_engine_s_policies_take_settings_that_they_were_not_given() -> None:
    stated = {"max_num_seqs": 64, "enable_prefix_caching": False, "block_size": 16, "tp": 4}
    given = PolicySpec("vllm", {"max_num_seqs": 8})
    settled = with_settings(given, "vllm", stated)
    assert settled.params == {"max_num_seqs": 8, "prefix_caching": False}
    settled.make()
    others = [PolicySpec("sarathi"), PolicySpec("vllm", given=MemoryConstrainedShortestFirst)]
    assert [with_settings(one, "vllm", stated) for one in others] == others


def test_what_is_assumed_is_said() -> None:
    stated = {"chunked_prefill_size": 64}
    assert settings_facts(stated, PolicySpec("sglang", stated), "tokens") == {
        "stated in the log": "chunked_prefill_size=64",
        "assumed": "max_prefill_tokens=16384, max_running_requests=2048, "
        "schedule_conservativeness=1.0 (--today 'sglang(...)'); memory in tokens (--rule)",
    }
    assert "memory" not in settings_facts({}, PolicySpec("vllm"))["assumed"]
    assert settings_facts({}, PolicySpec("fcfs")) == {}

"""Settings of an engine that a log states, and those that are assumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instances import InvalidTypeError, InvalidValueError, MemoryRule, read_log
from online.headroom.engine_settings import settings_told, stated_memory, with_settings
from online.policies.j25.mc_sf import MemoryConstrainedShortestFirst
from online.policy_interface.specs import PolicySpec

RUN = {
    "request_throughput": 1.0,
    "start_times": [0.0, 1.0],
    "input_lens": [3, 4],
    "output_lens": [2, 2],
}
# What `vllm bench serve --metadata` writes is text.
METADATA = {"max_num_seqs": "64", "enable_prefix_caching": "false", "watermark": "0.01"}
ANSWER = {"chunked_prefill_size": 4096, "page_size": 1, "schedule_policy": "fcfs", "dist": None}


@pytest.mark.parametrize(
    ("members", "settings"),
    [
        ({}, {}),
        (METADATA, {"max_num_seqs": 64, "enable_prefix_caching": False, "watermark": 0.01}),
        ({"server_info": ANSWER}, {"chunked_prefill_size": 4096}),
        ({"server_info": None, "max_num_seqs": [1]}, {}),
    ],
)
def test_a_log_states_settings(
    tmp_path: Path, members: dict[str, Any], settings: dict[str, Any]
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**members, **RUN}), "utf-8")
    assert read_log(path).settings == settings


@pytest.mark.parametrize(
    ("settings", "rule", "limit"),
    [
        ({}, None, None),
        ({"block_size": 32}, MemoryRule(32, "next", "chunks"), None),
        # One of vLLM's blocks holds nothing.
        ({"block_size": 16, "num_gpu_blocks": 401}, MemoryRule(16, "next", "chunks"), 6400),
        ({"num_gpu_blocks": 401}, None, None),
        ({"max_total_num_tokens": 9000}, None, 9000),
    ],
)
def test_memory_that_a_log_states(
    settings: dict[str, Any], rule: MemoryRule | None, limit: int | None
) -> None:
    assert stated_memory(settings) == (rule, limit)


@pytest.mark.parametrize("settings", [{"block_size": "x"}, {"block_size": 4, "num_gpu_blocks": 1}])
def test_settings_of_memory_that_are_refused(settings: dict[str, Any]) -> None:
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


def test_what_is_assumed_is_told() -> None:
    stated = {"chunked_prefill_size": 64}
    said = settings_told(stated, PolicySpec("sglang", stated), "tokens")
    assert said == {
        "stated in the log": "chunked_prefill_size=64",
        "assumed": "max_prefill_tokens=16384, max_running_requests=2048, "
        "schedule_conservativeness=1.0 (--today 'sglang(...)'); memory in tokens (--rule)",
    }
    assert "memory" not in settings_told({}, PolicySpec("vllm"))["assumed"]
    assert settings_told({}, PolicySpec("fcfs")) == {}

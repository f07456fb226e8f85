"""SGLang's and TensorRT-LLM's schedulers against their rules one round at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from per_round_engines import Key, Memory, Row, Served, serve_sglang, serve_tensorrt_llm

import online
from instances import Workload
from instances.problem.memory_rule import MemoryRule
from online import AffineTime
from online.policy_interface.predictions import (
    ExactPredictions,
    IntervalPredictions,
    PredictionModel,
)
from online.simulation.token_times import token_rounds

CAPACITY = ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"]
KEYS: dict[str, Key | None] = {
    "fcfs": None,
    "shortest-output": lambda one: (one.output, one.number),
    "longest-output": lambda one: (-one.output, one.number),
    "shortest-prompt": lambda one: (one.prompt, one.number),
}


RULES = [
    MemoryRule(),
    MemoryRule(1, "next", "chunks"),
    MemoryRule(4, "next", "chunks"),
    MemoryRule(4, "next", "whole"),
    MemoryRule(3, "now", "chunks"),
]


def named(rule: MemoryRule) -> str:
    return f"{rule.block_size}-{rule.emitted_token}-{rule.prompt_allocation}"


def counted(limit: int, rule: MemoryRule) -> Memory:
    """The rule as the oracle says it."""
    chunks = rule.prompt_allocation == "chunks"
    return Memory(limit, rule.block_size, rule.emitted_token == "now", chunks)


def draw(seed: int) -> tuple[list[Row], int]:
    rng = np.random.default_rng([80, seed])
    # A multiple of every block size.
    limit = 12 * int(rng.integers(1, 6))
    n = int(rng.integers(1, 14))
    times = sorted(float(t) / 4 for t in rng.integers(0, (1, 40, 160)[seed % 3], n))
    rows = []
    for time in times:
        prompt = int(rng.integers(1, max(2, limit // 2)))
        rows.append((time, prompt, int(rng.integers(1, limit - prompt + 1))))
    return rows, limit


def compare(
    rows: list[Row],
    limit: int,
    rule: MemoryRule,
    policy: online.Policy,
    served: Served,
    clock: AffineTime,
    predictions: PredictionModel,
) -> online.Run:
    """The run of the policy is what the oracle served."""
    wanted, memory, ends = served
    source = Workload(*zip(*rows, strict=True), memory_limit=limit, memory_rule=rule)
    run = online.simulate(source, policy, batch_time=clock, predictions=predictions)
    assert run.status == "completed"
    assert run.memory_profile().tolist() == [0, *memory]
    assert run.round_end_times is not None
    assert run.round_end_times.tolist() == ends
    assert run.start_times.tolist() == [one.start for one in wanted]
    assert run.completion_times.tolist() == [one.end for one in wanted]
    assert run.first_token_times.tolist() == [one.tokens[0] for one in wanted]
    assert run.eviction_counts.tolist() == [one.evictions for one in wanted]
    owners, rounds = token_rounds(run)
    emitted = [(i, time) for i, one in enumerate(wanted) for time in one.tokens]
    found = zip(owners.tolist(), run.round_end_times[rounds - 1].tolist(), strict=True)
    assert list(found) == emitted
    return run


def announced(
    seed: int, rows: list[Row], limit: int
) -> tuple[list[int], dict[str, Any], PredictionModel]:
    """Longest outputs, the parameter that says so, and the predictions."""
    if seed % 3 == 0:
        return [output for _, _, output in rows], {}, ExactPredictions()
    if seed % 3 == 1:
        return [limit] * len(rows), {}, IntervalPredictions(1, limit)
    # Too short for most: what was reserved does not suffice.
    longest = limit // 12 + 1
    return [longest] * len(rows), {"max_new_tokens": longest}, ExactPredictions()


def ordered(seed: int) -> tuple[str, Key | None]:
    """An order, and the oracle's key; where all predictions are alike they tell nothing."""
    order = list(KEYS)[seed // 3 % len(KEYS)]
    if seed % 3 == 1 and order.endswith("output"):
        return order, lambda one: (one.number,)
    return order, KEYS[order]


@pytest.mark.parametrize("rule", RULES, ids=named)
def test_sglang_against_one_round_at_a_time(rule: MemoryRule) -> None:
    retracted = chunked = 0
    for seed in range(150):
        rows, limit = draw(seed)
        rng = np.random.default_rng([81, seed])
        chunk = None if seed % 5 == 0 else int(rng.integers(rule.block_size, 25))
        most, slots = int(rng.integers(1, 50)), int(rng.integers(1, 9))
        d0, d1 = 0.5, (0.0, 0.125)[seed // 2 % 2]
        longest, limited, predictions = announced(seed, rows, limit)
        order, key = ordered(seed)
        served = serve_sglang(
            rows,
            counted(limit, rule),
            announced=longest,
            chunk=chunk,
            most=most,
            slots=slots,
            d0=d0,
            d1=d1,
            key=key,
        )
        policy = online.make_policy(
            "sglang",
            chunked_prefill_size=chunk,
            max_prefill_tokens=most,
            max_running_requests=slots,
            order=order,
            **limited,
        )
        run = compare(rows, limit, rule, policy, served, AffineTime(d0, d1), predictions)
        retracted += run.evictions
        chunked += sum(chunk is not None and prompt > chunk for _, prompt, _ in rows)
    assert retracted > 20
    assert chunked > 50


@pytest.mark.parametrize("rule", RULES, ids=named)
@pytest.mark.parametrize("capacity", CAPACITY)
def test_tensorrt_llm_against_one_round_at_a_time(capacity: str, rule: MemoryRule) -> None:
    paused = chunked = 0
    for seed in range(90):
        rows, limit = draw(seed)
        rng = np.random.default_rng([82, seed])
        budget, seqs = int(rng.integers(rule.block_size, 25)), int(rng.integers(1, 9))
        chunks = seed % 2 == 0
        d0, d1 = 0.5, (0.0, 0.125)[seed // 2 % 2]
        longest, limited, predictions = announced(seed, rows, limit)
        order, key = ordered(seed)
        served = serve_tensorrt_llm(
            rows,
            counted(limit, rule),
            announced=longest,
            capacity=capacity,
            seqs=seqs,
            budget=budget,
            chunks=chunks,
            d0=d0,
            d1=d1,
            key=key,
        )
        policy = online.make_policy(
            "tensorrt-llm",
            capacity_scheduler_policy=capacity,
            max_batch_size=seqs,
            max_num_tokens=budget,
            enable_chunked_prefill=chunks,
            order=order,
            **limited,
        )
        run = compare(rows, limit, rule, policy, served, AffineTime(d0, d1), predictions)
        if seed % 3 < 2 and capacity != "MAX_UTILIZATION":
            assert not run.evictions
        paused += run.evictions
        chunked += sum(chunks and prompt > budget for _, prompt, _ in rows)
    assert paused > 10
    assert chunked > 20

"""The schedulers of engines against their rules one round at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from effort import examples
from per_round_engines import Key, Memory, Row, Served, serve_sglang, serve_tensorrt_llm
from per_round_serving import serve

import online
from instances import MemoryRule, Workload
from online import AffineTime, ExactPredictions, IntervalPredictions

CAPACITY = ["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"]
KEYS: dict[str, Key | None] = {
    "fcfs": None,
    "shortest-output": lambda one: (one.output,),
    "longest-output": lambda one: (-one.output,),
    "shortest-prompt": lambda one: (one.prompt,),
}


RULES = [
    MemoryRule(),
    MemoryRule(1, "next", "chunks"),
    MemoryRule(4, "next", "chunks"),
    MemoryRule(4, "next", "whole"),
    MemoryRule(3, "now", "chunks"),
]


def counted(limit: int, rule: MemoryRule) -> Memory:
    """The rule as the oracle says it."""
    chunks = rule.prompt_allocation == "chunks"
    return Memory(limit, rule.block_size, rule.emitted_token == "now", chunks)


def drawn_rows(rng: np.random.Generator, seed: int, limit: int) -> list[Row]:
    n = int(rng.integers(1, 14))
    times = sorted(float(t) / 4 for t in rng.integers(0, (1, 40, 160)[seed % 3], n))
    rows = []
    for time in times:
        prompt = int(rng.integers(1, max(2, limit // 2)))
        rows.append((time, prompt, int(rng.integers(1, limit - prompt + 1))))
    return rows


def draw(seed: int) -> tuple[list[Row], int]:
    rng = np.random.default_rng([80, seed])
    # A multiple of every block size; long requests, too, during which SGLang's ratio falls far.
    limit = 12 * int(rng.integers(1, 6)) * (20 if seed % 10 == 9 else 1)
    return drawn_rows(rng, seed, limit), limit


def clock_of(seed: int) -> tuple[float, float]:
    """Dyadic numbers: sums are exact, so arrivals can fall exactly on the end of a round."""
    return 0.5, (0.0, 0.125)[seed // 2 % 2]


def compare(
    rows: list[Row], machine: Any, policy: online.Policy, served: Served, **options: Any
) -> online.Run:
    """The run of the policy is what the oracle served."""
    wanted, memory, ends = served
    source = Workload(*zip(*rows, strict=True), **machine)
    run = online.simulate(source, policy, **options)
    assert run.status == "completed"
    assert run.memory_profile().tolist() == [0, *memory]
    assert run.round_end_times.tolist() == ends
    assert run.start_times.tolist() == [one.start for one in wanted]
    assert run.completion_times.tolist() == [one.end for one in wanted]
    assert run.first_token_times.tolist() == [one.tokens[0] for one in wanted]
    assert run.eviction_counts.tolist() == [one.evictions for one in wanted]
    owners, rounds = run.token_rounds
    emitted = [(i, time) for i, one in enumerate(wanted) for time in one.tokens]
    found = zip(owners.tolist(), run.round_end_times[rounds - 1].tolist(), strict=True)
    assert list(found) == emitted
    return run


@pytest.mark.parametrize("keep", [False, True], ids=["restart", "recompute"])
@pytest.mark.parametrize("silent", [0, 1])
@pytest.mark.parametrize("rule", ["vllm-v0", "sarathi"])
def test_against_one_round_at_a_time(rule: str, silent: int, keep: bool) -> None:
    evicted = chunked = 0
    seeds = examples(150, 240)
    for seed in range(seeds):
        rng = np.random.default_rng([77, seed])
        limit = int(rng.integers(8, 60))
        rows = drawn_rows(rng, seed, limit)
        rng = np.random.default_rng([78, seed])
        budget, seqs = int(rng.integers(2, 25)), int(rng.integers(1, 9))
        share, (d0, d1) = (0.0, 0.125)[seed % 2], clock_of(seed)
        more = {"budget": budget, "seqs": seqs, "keep": keep, "d0": d0, "d1": d1}
        left = int(share * limit)
        served = serve(rows, limit, rule, watermark=left, prefill=silent, **more)
        cap = "max_num_batched_tokens" if rule == "vllm-v0" else "chunk_size"
        how = {cap: budget, "preemption": "recompute" if keep else "restart"}
        policy = online.make_policy(rule, max_num_seqs=seqs, watermark=share, **how)
        machine = {"memory_limit": limit, "batch_time": AffineTime(d0, d1)}
        run = compare(rows, machine, policy, served, prefill_rounds=silent)
        evicted += run.evictions
        chunked += sum(prompt > budget for _, prompt, _ in rows)
    assert evicted > 50 * seeds / 150
    assert chunked > 50 * seeds / 150


def announced(seed: int, rows: list[Row], limit: int) -> tuple[list[int], dict[str, Any], Any]:
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
        return order, lambda one: ()
    return order, KEYS[order]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_sglang_against_one_round_at_a_time(rule: MemoryRule) -> None:
    retracted = chunked = 0
    seeds = examples(150, 240)
    for seed in range(seeds):
        rows, limit = draw(seed)
        rng = np.random.default_rng([81, seed])
        chunk = None if seed % 5 == 0 else int(rng.integers(rule.block_size, 25 + limit // 4))
        most, slots = int(rng.integers(1, 50 + limit)), int(rng.integers(1, 9))
        d0, d1 = clock_of(seed)
        longest, limited, predictions = announced(seed, rows, limit)
        # Of equal keys the first in the queue, where a retracted request is the last.
        order, key = ordered(seed)
        sizes = {"chunk": chunk, "most": most, "slots": slots, "d0": d0, "d1": d1}
        memory = counted(limit, rule)
        served = serve_sglang(rows, memory, announced=longest, key=key, **sizes)
        own = {"max_prefill_tokens": most, "max_running_requests": slots, **limited}
        policy = online.make_policy("sglang", chunked_prefill_size=chunk, order=order, **own)
        machine = {"memory_limit": limit, "memory_rule": rule, "batch_time": AffineTime(d0, d1)}
        run = compare(rows, machine, policy, served, predictions=predictions)
        retracted += run.evictions
        chunked += sum(chunk is not None and prompt > chunk for _, prompt, _ in rows)
    assert retracted > 20 * seeds / 150
    assert chunked > 50 * seeds / 150


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("capacity", CAPACITY)
def test_tensorrt_llm_against_one_round_at_a_time(capacity: str, rule: MemoryRule) -> None:
    paused = 0
    seeds = examples(120, 320)
    for seed in range(seeds):
        rows, limit = draw(seed)
        rng = np.random.default_rng([82, seed])
        budget, seqs = int(rng.integers(rule.block_size, 25)), int(rng.integers(1, 9))
        d0, d1 = clock_of(seed)
        longest, limited, predictions = announced(seed, rows, limit)
        order, key = ordered(seed)
        sizes = {"seqs": seqs, "budget": budget, "d0": d0, "d1": d1, "capacity": capacity}
        served = serve_tensorrt_llm(rows, counted(limit, rule), announced=longest, key=key, **sizes)
        own = {"max_batch_size": seqs, "max_num_tokens": budget, "order": order, **limited}
        policy = online.make_policy("tensorrt-llm", capacity_scheduler_policy=capacity, **own)
        machine = {"memory_limit": limit, "memory_rule": rule, "batch_time": AffineTime(d0, d1)}
        run = compare(rows, machine, policy, served, predictions=predictions)
        if seed % 3 < 2 and capacity != "MAX_UTILIZATION":
            assert not run.evictions
        paused += run.evictions
    assert paused > 10 * seeds / 120


@pytest.mark.parametrize(("conservativeness", "prompt"), [(1.0, 13_000), (10.0, 11_000)])
def test_sglang_estimates_no_more_than_4096_tokens_of_output(
    conservativeness: float, prompt: int
) -> None:
    # Both may emit thousands of tokens. Free beside the first are 20,000 - 11 - 0.7 x 4,096 =
    # 17,121.8, and the second asks for 13,000 + 4,096 + 1; unclipped, neither would do. However
    # conservative, no more than all is reserved: 15,893 are free, and 11,000 + 4,096 + 1 asked for.
    machine = {"memory_limit": 20_000, "batch_time": AffineTime(1.0)}
    source = Workload([0.0, 0.5], [10, prompt], [40, 2], **machine)
    policy = online.make_policy(
        "sglang", max_new_tokens=10_000, schedule_conservativeness=conservativeness
    )
    run = online.simulate(source, policy)
    assert run.start_times.tolist() == [0.0, 1.0]

"""vLLM's and Sarathi's schedulers against their rules one round at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from per_round_serving import Row, serve

import online
from instances import Workload
from online import PREFILL_ROUND, TOKEN_PER_ROUND, AffineTime, ServiceModel
from online.simulation.token_times import token_rounds


def draw(seed: int) -> tuple[list[Row], int]:
    rng = np.random.default_rng([77, seed])
    limit = int(rng.integers(8, 60))
    n = int(rng.integers(1, 14))
    times = sorted(float(t) / 4 for t in rng.integers(0, (1, 40, 160)[seed % 3], n))
    rows = []
    for time in times:
        prompt = int(rng.integers(1, max(2, limit // 2)))
        rows.append((time, prompt, int(rng.integers(1, limit - prompt + 1))))
    return rows, limit


@pytest.mark.parametrize("keep", [False, True], ids=["restart", "recompute"])
@pytest.mark.parametrize("model", [TOKEN_PER_ROUND, PREFILL_ROUND], ids=lambda m: m.name)
@pytest.mark.parametrize("rule", ["vllm-v0", "sarathi"])
def test_against_one_round_at_a_time(rule: str, model: ServiceModel, keep: bool) -> None:
    evicted = chunked = 0
    for seed in range(150):
        rows, limit = draw(seed)
        rng = np.random.default_rng([78, seed])
        budget, seqs = int(rng.integers(2, 25)), int(rng.integers(1, 9))
        share = (0.0, 0.125)[seed % 2]
        # Dyadic numbers: sums are exact, so arrivals can fall exactly on the end of a round.
        d0, d1 = 0.5, (0.0, 0.125)[seed // 2 % 2]
        wanted, memory, ends = serve(
            rows,
            limit,
            rule,
            budget=budget,
            seqs=seqs,
            watermark=int(share * limit),
            keep=keep,
            prefill=model.prefill_rounds,
            d0=d0,
            d1=d1,
        )
        cap = "max_num_batched_tokens" if rule == "vllm-v0" else "chunk_size"
        policy = online.make_policy(
            rule,
            **{cap: budget},
            max_num_seqs=seqs,
            watermark=share,
            preemption="recompute" if keep else "restart",
        )
        source = Workload(*zip(*rows, strict=True), memory_limit=limit)
        run = online.simulate(source, policy, batch_time=AffineTime(d0, d1), service_model=model)
        assert run.status == "completed"
        assert run.memory_profile().tolist() == [0, *memory], seed
        assert run.round_end_times is not None
        assert run.round_end_times.tolist() == ends, seed
        assert run.start_times.tolist() == [one.start for one in wanted], seed
        assert run.completion_times.tolist() == [one.end for one in wanted], seed
        assert run.first_token_times.tolist() == [one.tokens[0] for one in wanted], seed
        assert run.eviction_counts.tolist() == [one.evictions for one in wanted], seed
        owners, rounds = token_rounds(run)
        emitted = [(i, time) for i, one in enumerate(wanted) for time in one.tokens]
        assert list(
            zip(owners.tolist(), run.round_end_times[rounds - 1].tolist(), strict=True)
        ) == (emitted)
        evicted += run.evictions
        chunked += sum(prompt > budget for _, prompt, _ in rows)
    assert evicted > 50
    assert chunked > 50


def test_chunks_by_hand() -> None:
    # Budget 4. Round 1: 4 of 6 prompt tokens; round 2: the last 2, first token; then decodes.
    source = Workload([0.0], [6], [3], memory_limit=20)
    policy = online.make_policy("sarathi", chunk_size=4)
    run = online.simulate(source, policy, batch_time=AffineTime(1.0, 1.0))
    assert run.round_end_times is not None
    assert np.diff(run.round_end_times, prepend=0.0).tolist() == [5.0, 3.0, 2.0, 2.0]
    # The prompt's memory is held from the first chunk on.
    assert run.memory_profile().tolist() == [0, 6, 7, 8, 9]
    assert run.first_token_times.tolist() == [8.0]


def test_decodes_are_never_delayed_by_prompts_under_sarathi_and_are_under_vllm() -> None:
    source = Workload([0.0, 1.5], [1, 8], [6, 2], memory_limit=100)
    gaps = {}
    for name, params in (("vllm-v0", {}), ("sarathi", {"chunk_size": 4})):
        policy = online.make_policy(name, **params)
        run = online.simulate(source, policy, batch_time=AffineTime(1.0))
        gaps[name] = run.completion_times.tolist()
    # vLLM: round 3 is the second request's prompt alone, request 0 ends a round late.
    assert gaps["vllm-v0"] == [7.0, 4.0]
    # Sarathi: beside the decode 3 + 3 + 2 prompt tokens in rounds 3, 4, 5.
    assert gaps["sarathi"] == [6.0, 6.0]


@pytest.mark.parametrize("name", ["vllm-v0", "sarathi"])
@pytest.mark.parametrize(
    "bad",
    [
        {"max_num_seqs": 0},
        {"watermark": 1.0},
        {"watermark": "0.1"},
        {"preemption": "swap"},
        {"chunk_size": 0, "max_num_batched_tokens": 0},
    ],
)
def test_bad_parameters(name: str, bad: dict[str, Any]) -> None:
    known = online.policy_parameters(name)
    with pytest.raises((ValueError, TypeError), match="policy"):
        online.make_policy(name, **{key: value for key, value in bad.items() if key in known})

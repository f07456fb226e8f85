"""The schedules of vLLM's retired scheduler stay what they were under the name of the engine."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import online
from instances import Instance, Workload

NAME = "vllm-v0"


@pytest.mark.parametrize(
    ("preemption", "timed", "golden"),
    [
        ("restart", False, "7213a516ddfca790"),
        ("restart", True, "3e4d23daa9afe44f"),
        ("recompute", False, "83db791a6f6d9acd"),
        ("recompute", True, "895ea2fe61bc8d9f"),
    ],
)
def test_runs_are_what_they_were(preemption: str, timed: bool, golden: str) -> None:
    digest, evictions = hashlib.sha256(), 0
    for seed in range(20):
        rng = np.random.default_rng([31, seed])
        arrivals = np.sort(rng.integers(0, 60, 40))
        prompts, outputs = rng.integers(1, 40, 40), rng.integers(1, 40, 40)
        source: Instance | Workload
        if timed:
            source = Workload(arrivals / 4, prompts, outputs, memory_limit=160)
        else:
            source = Instance.from_arrays(prompts, outputs, arrivals, memory_limit=160)
        policy = online.make_policy(NAME, preemption=preemption, max_num_batched_tokens=64)
        time = online.AffineTime(0.5, 0.125) if timed else None
        run = online.simulate(source, policy, batch_time=time)
        for column in (run.start_times, run.first_token_times, run.completion_times):
            digest.update(column.tobytes())
        digest.update(run.memory_profile().tobytes())
        evictions += run.evictions
    assert evictions > 20
    assert digest.hexdigest()[:16] == golden


def test_an_eviction_frees_what_is_held_and_the_token_of_the_next_round() -> None:
    """A = (1, 5), B = (3, 3) and C = (1, 4) with M = 10, by hand.

    Round 1 holds 2 + 4 + 2; round 2 would hold 3 + 5 + 3, so C leaves. In round 3 its prompt runs
    again while A and B are held: 3 + 5 + 2. Round 4 would hold 4 + 6 + 3, 3 too many, and C, with 2
    tokens held and one to come, frees just these: B stays and ends in round 4.
    """
    instance = Instance.from_arrays([1, 3, 1], [5, 3, 4], memory_limit=10)
    run = online.simulate(instance, NAME)
    assert run.memory_profile().tolist()[:5] == [0, 8, 8, 10, 10]
    assert run.completion_times.tolist() == [7, 4, 8]

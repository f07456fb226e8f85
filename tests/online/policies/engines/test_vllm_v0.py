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

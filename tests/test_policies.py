"""All decisions of every policy and router on drawn instances, as digests.

A digest shows that some decision changed. Which decision is right is said by the oracles of each
algorithm in tests/online/policies. `make golden WHAT=policies` writes tests/golden/policies.json
again after an intended change.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from golden import check_entry, check_keys

import online
from instances import Instance, MemoryRule, ServiceLevel, Workload

FILE = "policies.json"
NEED_A_SOLVER = {"sorted-lp", "lp-swap"}
"""An optimal vertex of a linear program depends on the version of the solver."""
POLICIES = [name for name in online.policy_names() if name not in NEED_A_SOLVER]
VARIANTS = [
    "a-max:fit=peaks",
    "a-min:overdue=reserve",
    "alpha-protection:alpha=0.3",
    "gba:factor=2.5",
    "gsa:factor=3",
    "sarathi:chunk_size=3,watermark=0",
    "sarathi:chunk_size=4,max_num_seqs=3,preemption=recompute",
    "sarathi:order=shortest-output,ageing=0.5,watermark=0",
    "sglang:chunked_prefill_size=4,order=shortest-job",
    "sglang:max_running_requests=3,max_prefill_tokens=8,schedule_conservativeness=0.3",
    "tensorrt-llm:capacity_scheduler_policy=MAX_UTILIZATION,max_num_tokens=8",
    "tensorrt-llm:capacity_scheduler_policy=STATIC_BATCH,max_batch_size=3",
    "vllm:max_num_batched_tokens=4,asynchronous=false",
    "vllm:order=deadline,policy=priority,asynchronous=false,max_num_seqs=3",
    "vllm:order=shortest-job,ageing=5,long_prefill_token_threshold=2",
    "vllm-v0:preemption=recompute,max_num_batched_tokens=24,watermark=0",
]
"""Settings that their defaults never reach."""
DRAWS = [100, pytest.param(400, marks=pytest.mark.slow)]
PREDICTIONS = {
    "exact": online.ExactPredictions(),
    "interval": online.IntervalPredictions(1, 12),
    "noisy": online.NoisyPredictions(2, wrong=0.2),
}
RULES = [MemoryRule()] * 3 + [MemoryRule(4), MemoryRule(1, "next"), MemoryRule(3, "next", "chunks")]
CLOCK = online.AffineTime(0.5, 0.125, 0.0625)
"""Its seconds are exact in floats."""
LEVEL = ServiceLevel(latency=9, time_per_token=3)
ATTEMPTS = ("request", "start_round", "end_round", "completed", "tokens_kept", "tokens_reused")
TIMES = ("start_times", "first_token_times", "completion_times")


@cache
def drawn(k: int, replicas: int = 1) -> Instance | Workload:
    """Draw an instance; every second one is in seconds, half of them under a special rule."""
    rng = np.random.default_rng([83, k])
    rule, span = RULES[rng.integers(len(RULES))], (1, 9, 40)[rng.integers(3)]
    limit = int(rng.integers(6, 25)) // rule.block_size * rule.block_size
    longest, count = rule.limit(limit), int(rng.integers(2, 13))
    prompts = rng.integers(1, min(8, longest - 1), count, endpoint=True)
    outputs = np.minimum(rng.integers(1, 9, count, endpoint=True), longest - prompts)
    arrivals = rng.integers(0, span, count)
    common: Any = {"memory_limit": limit, "memory_rule": rule, "replicas": replicas}
    if k % 2:
        return Workload(np.sort(arrivals) / 4, prompts, outputs, **common, batch_time=CLOCK)
    return Instance.from_arrays(prompts, outputs, arrivals, **common)


def options(k: int) -> dict[str, Any]:
    """Return the seed, the predictions and the level of a draw."""
    model = list(PREDICTIONS.values())[k // 2 % 3]
    return {"seed": k, "predictions": model, "level": LEVEL}


def kind(k: int) -> str:
    """Return the names of the predictions and of the clock of a draw."""
    return f"{list(PREDICTIONS)[k // 2 % 3]}, {'seconds' if k % 2 else 'rounds'}"


def decisions(run: online.Run) -> str:
    """List every stay in the batch, every time, and the memory of every round."""
    stays = [getattr(run.attempts, name).tolist() for name in ATTEMPTS]
    times = [getattr(run, name).tolist() for name in TIMES]
    return repr((run.status, stays, times, run.memory_profile().tolist()))


def digest(texts: list[str]) -> str:
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("policy", POLICIES + VARIANTS)
def test_decisions_of_policies(policy: str, draws: int) -> None:
    texts: dict[str, list[str]] = {}
    asked: Counter[str] = Counter()
    for k in range(draws):
        try:
            run = online.simulate(drawn(k), policy, **options(k))
        except online.KnowledgeError:
            continue
        texts.setdefault(kind(k), []).append(decisions(run))
        asked[kind(k)] += run.decisions
    found = {key: f"{digest(some)}, asked {asked[key]} times" for key, some in texts.items()}
    check_entry(FILE, f"{policy}, {draws} draws", found)


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("router", online.router_names())
def test_decisions_of_routers(router: str, draws: int) -> None:
    texts: dict[str, list[str]] = {}
    for k in range(draws):
        policy = ("mc-sf", "fcfs-greedy", "vllm-v0")[k % 3]
        fleet = drawn(k, replicas=2 + k // 6 % 3)
        run = online.simulate(fleet, policy, router=router, **options(k))
        columns = [run.status, run.replica.tolist(), run.completion_times.tolist()]
        columns += [decisions(one) for one in run.parts if one is not None]
        texts.setdefault(kind(k), []).append(repr(columns))
    found = {key: digest(some) for key, some in texts.items()}
    check_entry(FILE, f"router {router}, {draws} draws", found)


def test_each_stored_digest_is_compared() -> None:
    names = [*POLICIES, *VARIANTS, *(f"router {name}" for name in online.router_names())]
    check_keys(FILE, [f"{name}, {draws} draws" for name in names for draws in (100, 400)])

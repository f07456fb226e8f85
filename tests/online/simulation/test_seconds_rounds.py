"""`Run.schedule` against a replay in fractions, for every policy."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tiny_problems import replayed

import online
from instances import Instance, Workload
from online import AffineTime, IterationTime, Run, TiledTime

TIME = AffineTime(0.5, 0.0625, 0.0078125)
"""Its seconds, and those of arrivals below, are exact in floats."""


def crowded(seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    s, o = rng.integers(1, 20, 12), rng.integers(1, 12, 12)
    limit = int((s + o).max()) + int(rng.integers(0, 30))
    return Workload(np.sort(rng.integers(0, 64, 12)) / 8, s, o, memory_limit=limit)


def check(run: Run) -> None:
    schedule = run.schedule
    order = np.argsort(run.problem.arrival_times, kind="stable")
    assert schedule.completion_times.tolist() == run.completion_times[order].tolist()
    assert schedule.first_token_times.tolist() == run.first_token_times[order].tolist()
    assert schedule.total_latency == pytest.approx(run.total_latency, rel=1e-12)
    assert schedule.memory_profile().tolist() == run.memory_profile()[1:].tolist()


ENGINES = [
    (name, {"preemption": preemption, **more})
    for name, more in (("vllm-v0", {}), ("sarathi", {"chunk_size": 4}), ("sarathi", {}))
    for preemption in ("restart", "recompute")
]


TILED = TiledTime(
    *([8, 12, 20, 28], [0.3, 0.25, 0.7, 1.1], 4),
    kernel=0.03,
    kv_token=0.0007,
    prompt_square=0.0011,
    prompt_past=0.0013,
)
"""Nothing of it is exact in floats."""


TIMES = [TIME, IterationTime(0.5, 0.0625), TiledTime([2, 9], [0.5, 1.375], kv_token=0.0625), TILED]


@pytest.mark.parametrize("time", TIMES)
def test_chunks_pauses_evictions_and_kept_tokens_are_all_there(time: Any) -> None:
    done = []
    for name, parameters in (*ENGINES, ("nested-wait", {}), ("mc-sf", {})):
        for seed in range(6):
            policy = online.make_policy(name, **parameters)
            run = online.simulate(crowded(seed).with_batch_time(time), policy)
            if run.status == "completed":
                check(run)
                done.append(run)
                if time is TIME:
                    broken, completion = replayed(run.schedule, TIME)
                    assert broken == set()
                    assert completion == [Fraction(one) for one in run.completion_times.tolist()]
    assert any(run.keeps_tokens for run in done)
    assert any(run.evictions and not run.keeps_tokens for run in done)
    chunks = np.concatenate([run.schedule.chunk_tokens for run in done])
    assert set(np.sign(chunks)) == {-1, 0, 1}


def test_long_prompts_in_small_chunks_find_more_before_them_each_round() -> None:
    """More rounds than the 256 that are timed at once."""
    rounds = 256 + 50
    workload = Workload([0.0], [2 * rounds], [2], memory_limit=2 * rounds + 2, batch_time=TILED)
    policy = online.make_policy("sarathi", chunk_size=2)
    run = online.simulate(workload, policy)
    check(run)
    assert run.rounds_run == rounds + 1


def test_a_run_in_seconds_with_prefill_rounds_has_no_schedule() -> None:
    run = online.simulate(crowded(1).with_batch_time(TILED), "mc-sf", prefill_rounds=1)
    with pytest.raises(online.NoScheduleError, match="prefill rounds"):
        _ = run.schedule


def test_an_instance_out_of_order_is_put_into_order() -> None:
    instance = Instance.from_arrays([3, 1, 2], [1, 3, 2], [2, 0, 1], memory_limit=5)
    run = online.simulate(Workload.from_instance(instance, TIME), "mc-sf")
    assert run.schedule.workload.ids == (1, 2, 0)
    check(run)

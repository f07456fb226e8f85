"""Runs in seconds: the clock, and `Run.schedule` against a replay in fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tiny_problems import replayed

import online
from instances import Instance, Workload
from online import AffineTime, Decision, IterationTime, Run, TiledTime

TIME = AffineTime(0.5, 0.0625, 0.0078125)
"""Its seconds, and those of arrivals below, are exact in floats."""

TILED = TiledTime(
    *([8, 12, 20, 28], [0.3, 0.25, 0.7, 1.1], 4),
    kernel=0.03,
    kv_token=0.0007,
    prompt_square=0.0011,
    prompt_past=0.0013,
)
"""Nothing of it is exact in floats."""

TIMES = [TIME, IterationTime(0.5, 0.0625), TiledTime([2, 9], [0.5, 1.375], kv_token=0.0625), TILED]
POLICIES = ["nested-wait", "mc-sf"] + [
    f"{name}preemption={preemption})"
    for name in ("vllm-v0(", "sarathi(", "sarathi(chunk_size=4, ")
    for preemption in ("restart", "recompute")
]


def crowded(seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    s, o = rng.integers(1, 20, 12), rng.integers(1, 12, 12)
    limit = int((s + o).max()) + int(rng.integers(0, 30))
    return Workload(np.sort(rng.integers(0, 64, 12)) / 8, s, o, memory_limit=limit)


def check(run: Run) -> None:
    schedule = run.schedule
    order = run.problem.order_of_arrival
    assert schedule.completion_times.tolist() == run.completion_times[order].tolist()
    assert schedule.first_token_times.tolist() == run.first_token_times[order].tolist()
    assert schedule.total_latency == pytest.approx(run.total_latency, rel=1e-12)
    assert schedule.memory_profile().tolist() == run.memory_profile()[1:].tolist()


@pytest.mark.parametrize("time", TIMES)
def test_chunks_pauses_evictions_and_kept_tokens_are_all_there(time: Any) -> None:
    done = []
    for policy in POLICIES:
        for seed in range(6):
            run = online.simulate(crowded(seed).replaced(batch_time=time), policy)
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


def test_a_long_prompt_in_small_chunks_finds_more_before_it_each_round() -> None:
    """Nor are 12,000 rounds without a token a livelock."""
    workload = Workload([0.0], [24_000], [2], memory_limit=24_002, batch_time=TILED)
    run = online.simulate(workload, "sarathi(chunk_size=2)")
    check(run)
    assert run.rounds_run == 12_001


def test_a_run_in_seconds_with_prefill_rounds_has_no_schedule() -> None:
    run = online.simulate(crowded(1).replaced(batch_time=TILED), "mc-sf", prefill_rounds=1)
    with pytest.raises(online.NoScheduleError, match="prefill rounds"):
        _ = run.schedule


def test_an_instance_out_of_order_is_put_into_order() -> None:
    instance = Instance.from_arrays([3, 1, 2], [1, 3, 2], [2, 0, 1], memory_limit=5)
    run = online.simulate(Workload.from_instance(instance, TIME), "mc-sf")
    assert run.schedule.workload.ids == (1, 2, 0)
    check(run)


class AskedEveryRound(type(online.make_policy("mc-sf"))):  # type: ignore[misc]
    """MC-SF, asked again after every round: the clock must not notice."""

    def decide(self, state: Any) -> Decision:
        return Decision(start=super().decide(state).start, wake=state.round_index + 1)


def test_the_clock_does_not_depend_on_where_stretches_are_cut() -> None:
    """0.7 + 3 * 0.1 is 1.0 or just below it, by the order of the additions."""
    workload = Workload([0.7, 1.0], [1, 1], [10, 1], memory_limit=50, batch_time=AffineTime(0.1))
    seldom, often = (online.simulate(workload, one) for one in ("mc-sf", AskedEveryRound()))
    assert seldom.completion_times.tolist() == often.completion_times.tolist()


@pytest.mark.parametrize("name", ["mc-sf", "mc-benchmark", "sorted-f-swap", "sarathi", "vllm-v0"])
def test_rounds_of_one_second_are_the_round_model_where_nothing_idles(name: str) -> None:
    rng = np.random.default_rng(2)
    source = Instance.from_arrays(rng.integers(1, 9, 30), rng.integers(1, 17, 30), memory_limit=50)
    timed = online.simulate(Workload.from_instance(source, AffineTime(1.0)), name)
    rounds = online.simulate(source, name)
    assert timed.completion_times.tolist() == rounds.completion_rounds.tolist()

"""Runs under memory rules other than the papers': what is held, recorded and timed."""

from __future__ import annotations

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Scripted, start_all
from strategies import instances

import online
from instances import Instance, MemoryRule, ServiceLevel, Workload
from online import AffineTime

RULES = [
    MemoryRule(size, token, prompt)
    for size in (1, 4)
    for token in ("now", "next")
    for prompt in ("whole", "chunks")
]
TIME = AffineTime(0.5, 0.125, 0.0625)
LEVEL = ServiceLevel(latency=9)
NEED_A_SOLVER = {"sorted-lp", "lp-swap"}
VARIANTS = [name for name in online.policy_names() if name not in NEED_A_SOLVER] + [
    f"{name}preemption={preemption})"
    for name in ("sarathi(chunk_size=3, ", "vllm-v0(")
    for preemption in ("restart", "recompute")
]
MAY_BE_CAUGHT = {"alpha-protection", "alpha-beta-clearing"}


@given(
    instance=instances(max_requests=6, max_memory=24, max_arrival=6),
    rule=st.sampled_from(RULES),
    seed=st.integers(0, 9),
)
@settings(max_examples=examples(100, 60))
def test_every_policy_keeps_to_the_rule(instance: Instance, rule: MemoryRule, seed: int) -> None:
    """The checkers of schedules count memory by the rule, with none of the machine's code."""
    limit = instance.memory_limit + rule.block_size - 1
    rows = instance.prompt_lengths, instance.output_lengths
    machine = {"memory_limit": limit, "memory_rule": rule}
    ruled = Instance.from_arrays(*rows, instance.arrival_times, **machine)
    timed = Workload(np.sort(instance.arrival_times / 2), *rows, **machine, batch_time=TIME)
    for name in VARIANTS:
        run = online.simulate(ruled, name, seed=seed, level=LEVEL)
        assert run.status == "completed" or name in MAY_BE_CAUGHT, name
        if run.status == "completed":
            # Checked when it is made.
            assert run.preemptive_schedule.total_latency == run.total_latency
            if not run.pauses and not run.evictions:
                blocks = run.schedule.memory_profile()
                assert (run.memory_profile() <= blocks).all()
        run = online.simulate(timed, name, seed=seed, level=LEVEL)
        if run.status == "completed":
            stored = [one.memory for one in run.schedule.batches()]
            assert stored == run.memory_profile()[1:].tolist(), name


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("size", [1, 4])
def test_requests_whose_last_token_is_never_stored_fit_alone(name: str, size: int) -> None:
    # At its last token each has stored 7 + 1 or 5 + 3 tokens: all there is.
    rule = MemoryRule(size, "next")
    instance = Instance.from_arrays([7, 5, 8], [2, 4, 1], memory_limit=8, memory_rule=rule)
    run = online.simulate(instance, name, level=LEVEL)
    assert run.status == "completed"
    assert run.memory_profile().max() <= 8


def test_a_request_that_fits_alone_is_served_by_policies_that_count_tokens() -> None:
    # 8 tokens at the end, two blocks of 4: with a margin of 3 tokens it would not fit 8.
    rule = MemoryRule(4)
    instance = Instance.from_arrays([5, 5], [3, 3], memory_limit=11, memory_rule=rule)
    run = online.simulate(instance, "mc-sf")
    assert run.completion_rounds.tolist() == [3, 6]
    assert run.memory_profile().tolist() == [0, 6, 7, 8, 6, 7, 8]


@pytest.mark.parametrize("name", ["sorted-lp", "lp-swap", "sorted-f-dp", "mc-sf-total"])
def test_plans_are_made_with_the_memory_of_the_rule(name: str) -> None:
    """Where the last token is never stored, a prompt may fill all of M."""
    rule = MemoryRule(1, "next")
    instance = Instance.from_arrays([4, 3], [1, 1], [0, 0], memory_limit=4, memory_rule=rule)
    run = online.simulate(instance, name, predictions=online.NoisyPredictions(3))
    assert run.completion_rounds.tolist() in ([1, 2], [2, 1])


def test_the_machine_counts_blocks_itself() -> None:
    # The second grows into its third block at its fourth token, and is stopped before.
    rule = MemoryRule(4, "next")
    growing = Instance.from_arrays([5, 1], [1, 4], memory_limit=12, memory_rule=rule)
    assert online.simulate(growing, Scripted(start_all)).completion_rounds.tolist() == [1, 4]

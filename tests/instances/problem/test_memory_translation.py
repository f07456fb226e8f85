"""Problems in tokens below and above one in blocks, and the pooled machine of a fleet."""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

import numpy as np
import pytest
from blocks import drawn, held, usable

from instances import FleetSchedule, Instance, MemoryRule, Schedule, Workload
from instances.problem.memory_translation import pooled, relaxed, restricted

TOKENS = MemoryRule()


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("emitted", ["now", "next"])
def test_instances_in_tokens_above_and_below(block_size: int, emitted: Any) -> None:
    rule = MemoryRule(block_size, emitted)
    rng = np.random.default_rng(block_size)
    for _ in range(40):
        instance = drawn(rng, rule)
        limit = usable(rule, instance.memory_limit)
        below, above = relaxed(instance), restricted(instance)
        assert below.memory_rule == above.memory_rule == TOKENS
        assert below.memory_limit == limit
        # Every mix of rounds at which requests could meet, two or three at a time, or one alone.
        for chosen in np.ndindex(*(request.output_length + 1 for request in instance)):
            true, least, most = 0, 0, 0
            for position, token in enumerate(chosen):
                if token:
                    true += held(rule, instance[position].prompt_length, token)
                    least += below[position].prompt_length + token
                    most += above[position].prompt_length + token
            assert least <= true
            assert true <= limit or most > above.memory_limit
        if block_size == 1:
            assert below == above


def test_lengths_that_meet_no_end_of_a_block_are_rounded_towards_it() -> None:
    # 17 and 18 of 32 tokens stored; 31, 32 and 33; 33 alone.
    rule = MemoryRule(16)
    instance = Instance.from_arrays([16, 30, 32], [2, 3, 1], memory_limit=100, memory_rule=rule)
    assert relaxed(instance).prompt_lengths.tolist() == [30, 30, 47]
    assert restricted(instance).prompt_lengths.tolist() == [31, 45, 47]
    assert restricted(instance).memory_limit == 96 + 15


def test_the_translations_of_a_workload_are_those_of_its_lengths() -> None:
    rule = MemoryRule(16, "next")
    instance = Instance.from_arrays([16, 1, 32], [2, 3, 1], memory_limit=100, memory_rule=rule)
    workload = Workload.from_instance(instance)
    above = restricted(workload)
    assert above.prompt_lengths.tolist() == restricted(instance).prompt_lengths.tolist()
    assert above.memory_limit == restricted(instance).memory_limit
    # A batch time is given what is stored, which is not rounded up to blocks.
    below = relaxed(workload)
    assert below.prompt_lengths.tolist() == [15, 0, 31]
    assert below.memory_limit == relaxed(instance).memory_limit == 96
    assert below.arrival_times.tolist() == workload.arrival_times.tolist()


def test_a_workload_keeps_how_prompts_are_held() -> None:
    chunks = Workload([0.0], [4], [2], memory_limit=9, memory_rule=MemoryRule(2, "next", "chunks"))
    assert relaxed(chunks).memory_rule == MemoryRule(prompt_allocation="chunks")
    again = relaxed(chunks)
    assert relaxed(again) is again
    assert again.digest != relaxed(chunks.replaced(memory_rule=MemoryRule(2, "next"))).digest


def test_translations_keep_replicas() -> None:
    fleet = Instance.from_arrays([2], [4], memory_limit=6, replicas=2)
    for problem in (fleet, Workload.from_instance(fleet)):
        assert relaxed(problem).replicas == restricted(problem).replicas == 2


@pytest.mark.parametrize("seed", range(20))
def test_a_feasible_fleet_schedule_is_one_of_the_pooled_machine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, rule = int(rng.integers(2, 9)), MemoryRule(int(rng.integers(1, 4)))
    instance = Instance.from_arrays(
        rng.integers(1, 5, count),
        rng.integers(1, 5, count),
        rng.integers(0, 4, count),
        memory_limit=int(rng.integers(12, 15)),
        memory_rule=rule,
        replicas=3,
    )
    assignment, starts = rng.integers(0, 3, count), instance.arrival_times + rng.integers(0, 6)
    schedule = FleetSchedule.from_starts(instance, assignment, starts)
    if schedule.is_feasible:
        assert Schedule(pooled(instance), starts).is_feasible
    assert pooled(instance).replicas == 1
    assert pooled(instance).memory_limit == 3 * rule.limit(instance.memory_limit)


def test_a_rule_with_a_field_that_the_proofs_do_not_know_is_not_translated() -> None:
    shared = make_dataclass("Shared", [("shared_prompt", int, 1)], bases=(MemoryRule,), frozen=True)
    with pytest.raises(ValueError, match="too many values to unpack"):
        relaxed(Instance.from_arrays([2], [2], memory_limit=9, memory_rule=shared()))

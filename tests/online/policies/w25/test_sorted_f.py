"""Sorted-F with every builder, and the orders taken from the relaxation."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import rows_of
from hypothesis import given
from hypothesis import strategies as st
from per_round import fixed_order
from strategies import instances

import online
from instances import Instance
from online.policies.w25.batch_builders import exact_batch, swap_batch

EXAMPLE_1 = Instance.from_arrays([63] + [1] * 21, [1] + [2] * 21, memory_limit=64)


SORTED_F = ("sorted-f-dp", "sorted-f-scaled-dp", "sorted-f-swap", "sorted-f-quantile")


@pytest.mark.parametrize("name", [*SORTED_F, "sorted-lp", "lp-swap"])
def test_example_1(name: str) -> None:
    """[W25] Example 1."""
    assert online.simulate(EXAMPLE_1, name).total_latency == 45


@given(instances(max_requests=8, max_memory=16, arrivals=False))
def test_phases_1_and_2_are_their_pseudocode(instance: Instance) -> None:
    """[W25] Algorithms 1, 7."""
    for name, build in (("sorted-f-dp", exact_batch), ("sorted-f-swap", swap_batch)):
        left = list(range(len(instance)))
        order: list[int] = []
        while left:
            prompts, outputs = instance.prompt_lengths[left], instance.output_lengths[left]
            batch = [left[i] for i in build(prompts, outputs, instance.memory_limit)]
            order += sorted(batch, key=lambda i: (instance[i].output_length, i))
            left = [i for i in left if i not in batch]
        starts = fixed_order(rows_of(instance), instance.memory_limit, order)
        assert online.simulate(instance, name).start_rounds.tolist() == starts


@given(instances(max_requests=4, max_memory=8, arrivals=False))
def test_sorted_lp_is_its_pseudocode(instance: Instance) -> None:
    """[W25] Algorithm 6."""
    hindsight = pytest.importorskip("hindsight")
    expected = np.round(hindsight.relax(instance).expected_start_times, 6)
    order = sorted(range(len(instance)), key=lambda i: (expected[i], i))
    starts = fixed_order(rows_of(instance), instance.memory_limit, order)
    assert online.simulate(instance, "sorted-lp").start_rounds.tolist() == starts


@given(instances(max_requests=6, max_memory=10), st.integers(0, 3))
def test_another_relaxation_can_be_given(instance: Instance, seed: int) -> None:
    class Reversed:
        def __init__(self, part: Instance) -> None:
            self.expected_start_times = -np.arange(len(part), dtype=float)

    for name in ("sorted-lp", "lp-swap"):
        run = online.simulate(instance, online.make_policy(name, relaxation=Reversed))
        assert run.status == "completed"

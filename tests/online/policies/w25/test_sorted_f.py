"""Sorted-F with every builder, and the orders taken from the relaxation."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import is_feasible_by_definition, memory_by_definition, rows_of
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from per_round import fixed_order, lookahead_prefix
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


@given(instances(max_requests=8, max_memory=16, max_arrival=9))
@settings(max_examples=examples(300, 150))
def test_orders_by_length_arrival_and_volume(instance: Instance) -> None:
    """[J25] Algorithms 1, 2; [C25] Algorithm 3; [W25] Sections 7, EC.1."""
    rows = rows_of(instance)
    keys = {
        **dict.fromkeys(["mc-sf", "h-sf"], lambda i: rows[i][2]),
        **dict.fromkeys(["mc-benchmark", "fcfs"], lambda i: 0),
        "mc-sf-total": lambda i: rows[i][1] + rows[i][2],
        "smallest-volume-first": lambda i: rows[i][2] * (2 * rows[i][1] + rows[i][2] + 1),
    }
    for name, key in keys.items():
        # Ties go in order of appearance.
        expected = lookahead_prefix(
            rows, instance.memory_limit, lambda i, key=key: (key(i), rows[i][0])
        )
        run = online.simulate(instance, name)
        assert run.start_rounds.tolist() == expected
        assert is_feasible_by_definition(instance, expected)
        assert run.memory_profile().tolist() == memory_by_definition(instance, expected)


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

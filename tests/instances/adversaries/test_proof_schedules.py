"""The schedules of the papers' proofs, and the adversary's exact optimum."""

from __future__ import annotations

import math

import pytest
from brute_force import feasible_total, optimal_total_latency
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import (
    Instance,
    InvalidValueError,
    Schedule,
    class_batches,
    generate,
    one_long_and_units,
)


def long_and_units(
    memory: int, arrival: int, count: int, output: int, prompt: int, first: int
) -> Instance:
    rows = [(0, prompt, output), *[(arrival, first, 1)] * count]
    arrivals, prompts, outputs = zip(*rows, strict=True)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=memory)


@given(data=st.data())
@settings(max_examples=examples(80))
def test_one_long_and_units_is_the_optimum(data: st.DataObject) -> None:
    memory = data.draw(st.integers(4, 12))
    prompt = data.draw(st.integers(1, memory - 2))
    instance = long_and_units(
        memory,
        data.draw(st.integers(0, 9)),
        data.draw(st.integers(1, 5)),
        data.draw(st.integers(2, memory - prompt)),
        prompt,
        data.draw(st.integers(1, memory - 1)),
    )
    schedule = one_long_and_units(instance)
    total = feasible_total(instance, schedule.start_times.tolist())
    assert schedule.total_latency == total == optimal_total_latency(instance)[0]


@pytest.mark.parametrize("memory_limit", [64, 100, 1024])
def test_the_proof_of_theorem_4_1_bounds_it(memory_limit: int) -> None:
    """[J25] Theorem 4.1."""
    # OPT <= 3.5 M, for a release both before and after M.
    for begun in (0, memory_limit):
        release = begun + memory_limit - math.ceil(math.sqrt(memory_limit) / 2)
        instance = long_and_units(memory_limit, release, memory_limit // 2, memory_limit - 1, 1, 1)
        schedule = one_long_and_units(instance)
        assert schedule.is_feasible
        assert schedule.total_latency <= 3.5 * memory_limit


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 1, 3), (0, 1, 3), (1, 1, 1)],
        [(0, 1, 3)],
        [(1, 1, 3), (2, 1, 1)],
        [(0, 1, 3), (1, 1, 1), (2, 1, 1)],
        [(0, 1, 3), (1, 1, 1), (1, 2, 1)],
    ],
)
def test_other_instances_are_refused(rows: list[tuple[int, int, int]]) -> None:
    arrivals, prompts, outputs = zip(*rows, strict=True)
    with pytest.raises(InvalidValueError, match="one long one"):
        one_long_and_units(Instance.from_arrays(prompts, outputs, arrivals, memory_limit=9))


def test_class_batches_is_the_proofs_schedule() -> None:
    # [W25] Theorem 1 at M = 36: R = 6; types 2 in batches of 12 for 2 rounds, type 1 of 6 for 1.
    instance = generate("mc-sf-trap", memory_limit=36)
    schedule = class_batches(instance)
    total = feasible_total(instance, schedule.start_times.tolist())
    second = sum(2 * j * 12 for j in range(1, 19))
    first = sum(6 * (36 + j) for j in range(1, 7))
    assert schedule.total_latency == total == second + first


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=7),
    st.integers(8, 12),
)
def test_class_batches_is_feasible_and_costs_what_it_says(
    rows: list[tuple[int, int]], memory_limit: int
) -> None:
    prompts, outputs = zip(*rows, strict=True)
    instance = Instance.from_arrays(prompts, outputs, memory_limit=memory_limit)
    schedule = class_batches(instance)
    assert schedule.total_latency == feasible_total(instance, schedule.start_times.tolist())
    assert isinstance(schedule, Schedule)


def test_a_late_arrival_is_refused() -> None:
    late = Instance.from_arrays([1, 1], [1, 1], [0, 2], memory_limit=4)
    with pytest.raises(InvalidValueError, match="request 1: arrival_time = 2"):
        class_batches(late)

"""Annealing of the order: feasible and never worse than its first schedule."""

from __future__ import annotations

import numpy as np
from brute_force import optimal_total_latency
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

from hindsight.heuristics.order_annealing import annealed_order
from hindsight.runtime.clock import never
from hindsight.schedules.lists import one_after_another
from instances import Instance, Schedule, generate


def placed_in(instance: Instance, order: list[int]) -> list[int]:
    """The first start at which each fits beside those before it, round by round."""
    starts = [0] * len(instance)
    memory: dict[int, int] = {}
    for i in order:
        request = instance[i]
        lives = range(1, request.output_length + 1)
        t = request.arrival_time
        while any(
            memory.get(t + j, 0) + request.prompt_length + j > instance.memory_limit for j in lives
        ):
            t += 1
        for j in lives:
            memory[t + j] = memory.get(t + j, 0) + request.prompt_length + j
        starts[i] = t
    return starts


@given(instances(8, min_requests=3, max_weight=3), st.integers(1, 99), st.integers(1, 60))
@settings(max_examples=examples(40))
def test_the_best_order_placed_one_by_one_is_feasible_and_no_worse(instance, seed, moves) -> None:
    first = one_after_another(instance).start_times
    starts, placed = annealed_order(instance, first, seed, moves, (0.5, 0.01), never)
    schedule = Schedule(instance, starts)
    assert schedule.violations() == []
    began = placed_in(instance, np.argsort(first, kind="stable").tolist())
    assert instance.weights @ starts <= instance.weights @ np.array(began)
    assert moves * 2 <= placed <= moves * len(instance)
    again, _ = annealed_order(instance, first, seed, moves, (0.5, 0.01), never)
    assert again.tolist() == starts.tolist()


def test_it_finds_the_optimum_of_few_requests() -> None:
    instance = generate("arrival-model-1", seed=1, n=4)
    first = one_after_another(instance).start_times
    starts, _ = annealed_order(instance, first, 1, 500, (0.5, 0.01), never)
    assert Schedule(instance, starts).total_latency == optimal_total_latency(instance)[0]


def test_it_stops_when_told_to() -> None:
    instance = generate("arrival-model-1", seed=1, n=5)
    first = one_after_another(instance).start_times
    starts, placed = annealed_order(instance, first, 1, 500, (0.5, 0.01), lambda: True)
    assert placed == 0
    assert starts.tolist() == placed_in(instance, np.argsort(first, kind="stable").tolist())

"""The configuration relaxation: a bound below every schedule, and fractional starts."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import optimal_total_latency
from effort import examples
from hypothesis import given, settings
from strategies import instances

import hindsight
from instances import Instance, InvalidValueError, generate


@given(instances(max_requests=4, max_memory=8, max_arrival=3))
@settings(max_examples=examples(15))
def test_bound_and_starts(instance: Instance) -> None:
    relaxed = hindsight.relax_strengthened(instance, iterations=20)
    optimum, _ = optimal_total_latency(instance)
    assert relaxed.certified_bound <= optimum
    assert (relaxed.expected_start_times >= instance.arrival_times - 1e-9).all()


def test_it_is_tighter_than_the_linear_relaxation() -> None:
    instance = generate("arrival-model-1", seed=1, n=10)
    plain, strengthened = hindsight.relax(instance), hindsight.relax_strengthened(instance)
    assert strengthened.certified_bound > plain.certified_bound + 20
    again = hindsight.relax_strengthened(instance)
    assert (again.expected_start_times == strengthened.expected_start_times).all()


def test_a_queue_for_one_place_is_served_shortest_first() -> None:
    # No two fit together, so the order of the only optimum is what starts must tell.
    instance = Instance.from_arrays([6, 6, 6], [3, 1, 2], memory_limit=9)
    starts = hindsight.relax_strengthened(instance).expected_start_times
    assert np.argsort(starts).tolist() == [1, 2, 0]


def test_bad_arguments() -> None:
    large = Instance.from_arrays([1], [1], memory_limit=256)
    with pytest.raises(InvalidValueError, match="memory_limit"):
        hindsight.relax_strengthened(large)
    with pytest.raises(InvalidValueError, match="iterations"):
        hindsight.relax_strengthened(Instance.from_arrays([1], [1], memory_limit=9), iterations=0)

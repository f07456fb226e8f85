"""The search for preemptive schedules against brute force, under prices good and bad."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_instances import crowded
from tiny_problems import in_rounds, least_total_latency, total_in_rounds

import hindsight
from hindsight.exact.stops import PreemptiveSearch
from hindsight.prices.stops import PreemptivePrices
from hindsight.runtime.clock import never
from instances import Instance


def free(instance: Instance) -> PreemptivePrices:
    """No prices of any token."""
    return PreemptivePrices(np.zeros((2, instance.memory_limit + 1), np.int64), 1)


@pytest.mark.parametrize(
    ("rows", "limit", "optimum", "states", "most"),
    [
        ([(0, 3, 1)] * 3 + [(0, 6, 3)] + [(0, 1, 5)] * 2, 9, 28, 64, 14),
        ([(0, 1, 3), (0, 3, 2), (0, 1, 2), (0, 2, 3), (0, 1, 2), (0, 1, 2)], 5, 33, 157, 50),
    ],
)
def test_sets_that_gain_least_lead_to_the_optimum(
    rows: list[tuple[int, int, int]], limit: int, optimum: int, states: int, most: int
) -> None:
    """A bound on the gain of candidates not yet decided on that is too small loses the optimum.

    The search keeps ``states`` states in all, and finds up to ``most`` different ones in a round.
    """
    arrivals, prompts, outputs = zip(*rows, strict=True)
    instance = Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)
    assert least_total_latency(instance, preemptive=True) == optimum
    search = PreemptiveSearch(instance, free(instance))
    assert {search.run(optimum, room, never).status for room in range(1, most)} == {"states"}
    outcome = search.run(optimum, most, never)
    assert (outcome.status, outcome.states) == ("exhausted", states)
    assert total_in_rounds(in_rounds(instance, preemptive=True), outcome.found) == optimum
    result = hindsight.solve(instance, preemption="keep")
    assert (result.lower_bound, result.upper_bound) == (optimum, optimum)


def test_it_stops_when_told() -> None:
    instance = crowded(83, 0, (5, 7))
    outcome = PreemptiveSearch(instance, free(instance)).run(100, 100_000, lambda: True)
    assert (outcome.status, outcome.found) == ("stopped", None)

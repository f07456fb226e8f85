"""The search for preemptive schedules against brute force, under prices good and bad."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_instances import crowded
from tiny_problems import in_rounds, least_total_latency, total_in_rounds

import hindsight
from hindsight.exact.states import SearchOutcome
from hindsight.exact.stops import PreemptiveSearch
from hindsight.prices.stops import PreemptivePrices
from hindsight.runtime.clock import never
from instances import Instance, PreemptiveSchedule


def free(instance: Instance) -> PreemptivePrices:
    """No prices of any token."""
    return PreemptivePrices(np.zeros((2, instance.memory_limit + 1), np.int64), 1)


def assert_optimal(
    instance: Instance, outcome: SearchOutcome[PreemptiveSchedule], optimum: int
) -> None:
    assert outcome.status == "exhausted"
    assert outcome.found is not None
    total = total_in_rounds(in_rounds(instance, preemptive=True), outcome.found)
    assert total == outcome.found.total_latency == optimum


@pytest.mark.parametrize(
    ("rows", "limit", "optimum"),
    [
        ([(0, 3, 1)] * 3 + [(0, 6, 3)] + [(0, 1, 5)] * 2, 9, 28),
        ([(0, 1, 3), (0, 3, 2), (0, 1, 2), (0, 2, 3), (0, 1, 2), (0, 1, 2)], 5, 33),
    ],
)
def test_sets_that_gain_least_lead_to_the_optimum(
    rows: list[tuple[int, int, int]], limit: int, optimum: int
) -> None:
    """A bound on the gain of candidates not yet decided on that is too small loses the optimum."""
    arrivals, prompts, outputs = zip(*rows, strict=True)
    instance = Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)
    assert least_total_latency(instance, preemptive=True) == optimum
    search = PreemptiveSearch(instance, free(instance))
    assert_optimal(instance, search.run(optimum, 100_000, never), optimum)
    result = hindsight.solve(instance, preemption="keep")
    assert (result.lower_bound, result.upper_bound) == (optimum, optimum)


def test_it_stops_when_told() -> None:
    instance = crowded(83, 0, (5, 7))
    search = PreemptiveSearch(instance, free(instance))
    outcome = search.run(100, 100_000, lambda: True)
    assert (outcome.status, outcome.found) == ("stopped", None)

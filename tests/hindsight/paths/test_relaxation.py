"""Paths against brute force: every rule, prices good and bad, limits of every size."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import (
    all_feasible_schedules,
    is_feasible_by_definition,
    optimal_total_latency,
    sound_horizon,
    total_latency_by_definition,
)
from drawn_instances import columns_of, copies_of, drawn_instance, four_requests
from effort import sweep

from hindsight.configurations.prices import SCALE, epoch_prices, start_values
from hindsight.configurations.tables import core_table, memory_table
from hindsight.paths.graph import PathGraph, StoppedError, TooLargeError, build_graph
from hindsight.paths.relaxation import PathOutcome, PathRelaxation
from hindsight.runtime.clock import never
from instances import Instance
from instances.arrays import FloatArray, IntArray

RULES = ((True, True), (False, True), (True, False), (False, False))
"""(twins, dropping)"""


def tiny(seed: int) -> Instance:
    return drawn_instance(
        [53, seed],
        (1, 6),
        (4, 10),
        prompts=(0 if seed % 7 == 0 else 1, 3),
        outputs=5,
        last_arrival=5 if seed % 2 else None,
    )


def random_prices(instance: Instance, seed: int) -> tuple[IntArray, IntArray]:
    limit = instance.memory_limit
    rng = np.random.default_rng([2, seed])
    tables = [memory_table(limit), core_table(1, limit), core_table(2, limit)]
    epochs = int(instance.arrival_times.max()) + int(rng.integers(1, 15))
    return epoch_prices(
        np.array([t.coefficients for t in tables]),
        np.array([t.capacity for t in tables]),
        rng.uniform(0.0, 1.0, (3, epochs)) * rng.integers(0, 2, (3, 1)),
        copies_of(instance),
    )


def start_prices(instance: Instance, prices: IntArray) -> FloatArray:
    _, u = start_values(prices, *columns_of(instance))
    first: FloatArray = u[:, 0] / SCALE
    return first


def run(
    instance: Instance, seed: int, limit: int, *, twins: bool = True, dropping: bool = True
) -> PathOutcome | None:
    prices, capacities = random_prices(instance, seed)
    graph = build_graph(instance, prices, capacities, limit, 200_000, never, twins=twins)
    if graph is None:
        return None
    first = start_prices(instance, prices)
    relaxation = PathRelaxation(instance, graph, limit, first, 200_000, never, dropping=dropping)
    return relaxation.run(9, (1.0, 0.2), 1.0)


def contains(graph: PathGraph, starts: list[int]) -> bool:
    """Whether the schedule is a path: followed from the beginning, start by start."""
    by_parent: dict[tuple[int, int], int] = {}
    for g, (parent, request) in enumerate(zip(graph.parents, graph.requests, strict=True)):
        if parent >= 0:
            by_parent[int(parent), int(request)] = g
    g: int | None = len(graph) - 1
    while g is not None and not graph.ends[g]:
        for i in [i for i, t in enumerate(starts) if t == graph.epochs[g]]:
            g = by_parent.get((g, i))
            if g is None:
                return False
        g = int(graph.later[g]) if graph.later[g] >= 0 else None
    return g is not None


def test_a_graph_holds_every_schedule_within_its_limit() -> None:
    for seed in range(20):
        instance = four_requests(seed)
        optimum, _ = optimal_total_latency(instance)
        limit = optimum + seed % 3
        prices, capacities = random_prices(instance, seed)
        graph = build_graph(instance, prices, capacities, limit, 200_000, never, twins=False)
        assert graph is not None
        within = [
            starts
            for starts in all_feasible_schedules(instance, sound_horizon(instance))
            if total_latency_by_definition(instance, starts) <= limit
        ]
        assert within
        assert all(contains(graph, list(starts)) for starts in within)


def test_three_requests_by_hand() -> None:
    """With u = (4, 2, 5) no path is cheaper than A and B at 0 and C at 2: 11 - 2 - 1 + 0 = 8.

    A at 0 costs 2 - 4, B at 0 costs 1 - 2, C at 0 costs 3 - 5, and every later start 0 or more.
    A and C do not fit together in round 2, so no path pays less than -3.
    """
    instance = Instance.from_arrays([1, 1, 1], [2, 1, 3], memory_limit=4)
    none = np.zeros((1, 5, 5), dtype=np.int64), np.zeros(1, dtype=np.int64)
    for limit, proved in ((7, 8), (8, 8), (12, 8)):
        graph = build_graph(instance, *none, limit, 1000, never)
        assert graph is not None
        relaxation = PathRelaxation(instance, graph, limit, np.array([4.0, 2.0, 5.0]), 1000, never)
        outcome = relaxation.run(1, (1.0, 1.0), 1.0)
        assert (outcome.root_bound, outcome.lower_bound) == (proved, proved)


def test_limits_and_stops() -> None:
    instance = tiny(3)
    optimum, _ = optimal_total_latency(instance)
    prices, capacities = random_prices(instance, 3)
    with pytest.raises(TooLargeError):
        build_graph(instance, prices, capacities, optimum, 1, never)
    with pytest.raises(StoppedError):
        build_graph(instance, prices, capacities, optimum, 200_000, lambda: True)
    graph = build_graph(instance, prices, capacities, optimum, 200_000, never)
    assert graph is not None
    first = start_prices(instance, prices)
    for room, stop in ((200_000, lambda: True), (1, never)):
        relaxation = PathRelaxation(instance, graph, optimum, first, room, stop)
        outcome = relaxation.run(1, (1.0, 0.2), 1.0)
        # Whatever it had no time or room for, what it says holds.
        assert outcome.lower_bound <= optimum


@pytest.mark.parametrize("block", sweep(range(10), one_in=10))
def test_the_optimum_of_500_instances_with_every_rule(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        instance = tiny(seed)
        optimum, _ = optimal_total_latency(instance)
        twins, dropping = RULES[seed % 4]
        below = run(instance, seed, optimum - 1, twins=twins, dropping=dropping)
        if below is not None:
            assert (below.lower_bound, below.start_times) == (optimum, None)
        for limit in (optimum, optimum + 2):
            outcome = run(instance, seed, limit, twins=twins, dropping=dropping)
            assert outcome is not None
            assert outcome.root_bound <= outcome.lower_bound == optimum
            assert outcome.start_times is not None
            starts = outcome.start_times.tolist()
            assert is_feasible_by_definition(instance, starts)
            assert total_latency_by_definition(instance, starts) == optimum

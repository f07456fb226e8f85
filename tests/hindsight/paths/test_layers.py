"""The nodes of path graphs and their costs, against a twin in plain Python."""

from __future__ import annotations

from typing import Any

import layers_by_definition as oracle
import numpy as np
import pytest
from brute_force import (
    all_feasible_schedules,
    optimal_total_latency,
    sound_horizon,
    total_latency_by_definition,
)
from drawn_instances import drawn_instance, drawn_prices
from effort import sweep

from hindsight.paths.graph import PricedInstance, Room, coarsest_graph, finer_graph
from hindsight.paths.layers import PathGraph
from hindsight.paths.path_kernels import costs_of_arcs, costs_to_the_end
from hindsight.runtime.clock import never
from instances import Instance


def nodes_of(graph: PathGraph, priced: PricedInstance, u: Any) -> dict[oracle.Node, int]:
    """Cost to the end of each node by its members, which follow from those its arcs lead to."""
    o = priced.columns.output_lengths
    costs = costs_to_the_end(graph, costs_of_arcs(graph, priced.starts, u, o))
    members: dict[int, frozenset[tuple[int, int]]] = {0: frozenset()}
    for g, (later, parent) in enumerate(zip(graph.later, graph.parents, strict=True)):
        tau, first = int(graph.epochs[g]), int(graph.ended_first[g])
        ended = graph.ended[first : first + int(graph.ended_counts[g])].tolist()
        if later >= 0:
            own = members[int(later)] | {(i, tau + 1 - int(o[i])) for i in ended}
            assert members.setdefault(g, own) == own
        if parent >= 0:
            own = members[g] - {(int(graph.requests[g]), tau)}
            assert members.setdefault(int(parent), own) == own
    return {(int(graph.epochs[g]), members[g]): int(costs[g]) for g in members}


@pytest.mark.parametrize("seed", sweep(range(60), one_in=3))
def test_graphs_are_those_of_the_definition(seed: int) -> None:
    """All requests at once, or some of them first; tables of anonymous states that are emptied."""
    instance = drawn_instance([97, seed], (2, 4), (4, 8), prompts=(1, 3), outputs=4)
    if seed % 3 == 0:
        rows = [np.append(column, column[0]) for column in instance.columns[:3]]
        instance = Instance.from_arrays(*rows, memory_limit=instance.memory_limit)
    rng, n = np.random.default_rng(seed), len(instance)
    last, limit = int(instance.arrival_times.max()), optimal_total_latency(instance)[0]
    limit += int(rng.integers(-1, 6))
    priced = PricedInstance(instance, *drawn_prices(instance, rng, last), limit)
    o, u, followed = instance.output_lengths, priced.first_prices, np.zeros(n, np.bool_)
    # Identical requests start in the order of their indices.
    alike = [(i, j) for i in range(n) for j in range(i) if priced.kinds[i] == priced.kinds[j]]
    within = [
        starts
        for starts in all_feasible_schedules(instance, sound_horizon(instance))
        if total_latency_by_definition(instance, starts) <= limit
        if all(starts[j] <= starts[i] for i, j in alike)
    ]
    graph, plain = coarsest_graph(priced), None
    halves = rng.random(n) < 0.5
    halves[-1] = halves[0]
    steps = [np.ones(n, np.bool_)] if seed % 2 else [halves, ~halves]
    for added in [np.flatnonzero(step) for step in steps if step.any()]:
        old, room = followed.copy(), Room(100_000, 20_000 if seed % 4 else 1)
        finer = finer_graph(priced, graph, old, added, u, room, never)
        followed[added] = True
        plain = oracle.finer(priced, plain, old, followed, u)
        if finer is None:
            assert not any(tau == 0 for tau, _ in plain.costs)
            return
        assert nodes_of(finer, priced, u) == plain.costs
        for starts in within:
            stays = [(i, t, t + int(o[i])) for i, t in enumerate(starts) if followed[i]]
            for tau in range(priced.epochs):
                active = frozenset((i, t) for i, t, end in stays if t <= tau < end)
                assert (tau, active) in plain.costs
        graph = finer

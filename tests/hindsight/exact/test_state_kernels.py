"""The expansion of states against its twin in plain Python, interrupted anywhere."""

from __future__ import annotations

from typing import Any

import children_by_definition as oracle
import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import drawn_instance, drawn_prices
from effort import sweep

from hindsight.exact.state_kernels import COST_SHIFT, Layer
from hindsight.exact.states import StateSearch
from hindsight.prices.states import SCALE


def found_by(layer: Layer, rounds: int) -> list[oracle.Found]:
    """The states of a layer, as its twin writes them."""
    _, costs, bounds, memory, starts = layer
    found = []
    for k, own in enumerate(starts.tolist()):
        cost = int(costs[k]) >> COST_SHIFT, int(costs[k]) & ((1 << COST_SHIFT) - 1)
        profile = tuple(memory[k, -rounds:].tolist())
        found.append(oracle.Found(tuple(own), profile, cost, int(bounds[k])))
    return sorted(found)


def assert_dominance(search: StateSearch, layer: Layer, rounds: int) -> None:
    """A state goes if a cheaper one of its started set holds nowhere more."""
    _, costs, _, memory, starts = layer
    count, started, profiles = len(costs), starts >= 0, memory[:, -rounds:]
    kept = search.undominated(layer, np.arange(count)).starts.tolist()
    for b in range(count):
        cheaper = [c for c in range(count) if (costs[c], c) < (costs[b], b)]
        alike = [c for c in cheaper if (started[c] == started[b]).all()]
        is_dominated = any((profiles[c] <= profiles[b]).all() for c in alike)
        assert (starts[b].tolist() in kept) != is_dominated


@pytest.mark.parametrize("patience", [1, 7, 5_000])
@pytest.mark.parametrize("seed", sweep(range(60), one_in=4))
def test_children_are_those_of_the_definition(
    seed: int, patience: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hindsight.exact.states.PATIENCE", patience)
    instance = drawn_instance(
        [53, seed], (2, 5), (5, 9), prompts=(1, 3), outputs=4, last_arrival=seed % 3 or None
    )
    rng = np.random.default_rng(seed)
    search, rounds = StateSearch(instance.columns), int(instance.output_lengths.max())
    search.set_prices(*drawn_prices(instance, rng))
    prices = search.prices
    rows = [column.tolist() for column in instance.columns[:3]]
    plain = oracle.Search(
        list(zip(*rows, strict=True)), instance.memory_limit, prices.Q, prices.W, SCALE
    )
    most = optimal_total_latency(instance)[0] + int(rng.integers(0, 8))
    layer: Any = search.root()
    tau = compared = 0
    while len(layer.costs) and tau < 12:
        states = list(map(tuple, layer.starts.tolist()))
        layer = search.children(tau, layer, most)
        found = found_by(layer, rounds)
        assert found == oracle.children(plain, states, tau, SCALE * most)
        assert_dominance(search, layer, rounds)
        # The next children are written over these.
        layer = Layer._make(column.copy() for column in layer)
        compared += len(found)
        tau += 1
    assert compared

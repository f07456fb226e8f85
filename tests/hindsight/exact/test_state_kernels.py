"""The expansion of states against its twin in plain Python, interrupted anywhere."""

from __future__ import annotations

import children_by_definition as oracle
import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import drawn_instance, drawn_prices
from effort import sweep

from hindsight.exact.state_arrays import COST_SHIFT
from hindsight.exact.states import ANY, StateSearch
from hindsight.prices.states import SCALE
from hindsight.runtime.clock import never


def found_by(search: StateSearch, count: int) -> list[oracle.Found]:
    """The states of the following layer, as its twin writes them."""
    masks, costs, bounds, profiles, _, starts = search._following
    found = []
    for k in range(count):
        own = tuple(starts[k].tolist())
        flags = [bool(int(masks[k, i // 64]) >> (i % 64) & 1) for i in range(len(own))]
        assert flags == [t >= 0 for t in own]
        cost = int(costs[k]) >> COST_SHIFT, int(costs[k]) & ((1 << COST_SHIFT) - 1)
        found.append(oracle.Found(own, tuple(map(int, profiles[k])), cost, int(bounds[k])))
    return sorted(found)


def assert_dominance(search: StateSearch, count: int) -> int:
    """A state goes if a cheaper one of its started set holds nowhere more; return how many go."""
    masks, costs, _, profiles, _, _ = search._following
    alive = np.ones(count, np.bool_)
    search._dominate(alive)
    for b in range(count):
        cheaper = [c for c in range(count) if (costs[c], c) < (costs[b], b)]
        alike = [c for c in cheaper if (masks[c] == masks[b]).all()]
        assert alive[b] != any((profiles[c] <= profiles[b]).all() for c in alike)
    return count - int(alive.sum())


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
    search = StateSearch(instance.columns, room=1 + seed % 3)
    search.set_prices(*drawn_prices(instance, rng))
    prices = search.prices
    rows = [column.tolist() for column in instance.columns[:3]]
    plain = oracle.Search(
        list(zip(*rows, strict=True)), instance.memory_limit, prices.Q, prices.W, SCALE
    )
    most = optimal_total_latency(instance)[0] + int(rng.integers(0, 8))
    search.begin(most, never, ANY)
    states, tau, compared = [(-1,) * len(instance)], 0, 0
    while states and tau < 12:
        count = search.expand_layer(tau, len(states))
        assert count is not None
        found = found_by(search, count)
        assert found == oracle.children(plain, states, tau, SCALE * most)
        assert_dominance(search, count)
        compared += len(found)
        search._current = search._layer(max(count, len(search._current.masks)))
        search.copy(search._current, search._following, np.arange(count))
        states = [tuple(search._following.starts[k].tolist()) for k in range(count)]
        tau += 1
    assert compared

"""Network simplex against the greedy filling, on instances both can take."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hindsight import mean_busy_time_bound, transportation_bound
from hindsight.bounds.transportation import cheapest_transportation
from hindsight.bounds.volume import fill_by_volume
from instances import Instance, InvalidValueError


def drawn(seed: int) -> Instance:
    rng = np.random.default_rng([47, seed])
    n = int(rng.integers(1, 12))
    limit = int(rng.integers(4, 40))
    prompts = rng.integers(1, limit, n)
    outputs = [int(rng.integers(1, limit - s + 1)) for s in prompts]
    arrivals = rng.integers(0, int(rng.choice([1, 10, 40])), n)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)


@pytest.mark.parametrize("seed", range(12))
def test_network_simplex_and_greedy_filling_agree(seed: int) -> None:
    instance = drawn(seed)
    filled = fill_by_volume(instance).weighted_rounds
    cost = sum((Fraction(w, r.volume) for w, r in zip(filled, instance, strict=True)), Fraction(0))
    assert cheapest_transportation(instance) == cost
    assert transportation_bound(instance) == mean_busy_time_bound(instance)


def test_large_networks_take_the_closed_form() -> None:
    instance = Instance.from_arrays([5] * 300, [50] * 300, memory_limit=100)
    assert transportation_bound(instance) == mean_busy_time_bound(instance)


def test_network_beyond_reach_is_refused() -> None:
    instance = Instance.from_arrays([5] * 3000, [50] * 3000, memory_limit=100)
    with pytest.raises(InvalidValueError, match="network simplex"):
        cheapest_transportation(instance)


def test_idle_gaps_cost_no_arcs() -> None:
    """Ten million idle rounds: without taking them out the network could not be built."""
    instance = Instance.from_arrays([2, 3], [2, 1], [0, 10_000_000], memory_limit=5)
    assert transportation_bound(instance) == mean_busy_time_bound(instance) == 3

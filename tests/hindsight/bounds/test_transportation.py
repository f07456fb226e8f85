"""Network simplex against the greedy filling, on instances both can take."""

from __future__ import annotations

from fractions import Fraction

import pytest
from drawn_instances import drawn_instance

from hindsight import mean_busy_time_bound, transportation_bound
from hindsight.bounds.transportation import cheapest_transportation
from hindsight.bounds.volume import fill_by_volume
from instances import Instance, InvalidValueError


def drawn(seed: int) -> Instance:
    return drawn_instance([47, seed], (1, 11), (4, 39), last_arrival=(0, 9, 39)[seed % 3])


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

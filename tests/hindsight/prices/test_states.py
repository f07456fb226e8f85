"""The exact bound of any epoch prices, against the definition and the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import heaviest, optimal_total_latency, rows_of
from drawn_instances import by_state, copies_of, maximum_weight, tiny
from effort import sweep

from hindsight.prices.state_tables import state_copies
from hindsight.prices.states import HEADROOM, SCALE, exact_bound, integer_capacities
from instances import Instance


def bound_by_loops(instance: Instance, prices: np.ndarray) -> int:
    copies, limit = copies_of(instance), instance.memory_limit
    total = -sum(maximum_weight(here, copies, limit) for here in prices)
    for arrival, s, o in rows_of(instance):
        costs = []
        for start in range(arrival, max(arrival, len(prices)) + 3):
            cost = SCALE * (start + o - arrival)
            for age in range(o):
                if start + age < len(prices):
                    cost += int(prices[start + age, s + age, o - age])
            costs.append(cost)
        total += min(costs)
    return -(-total // SCALE)


@pytest.mark.parametrize("seed", sweep(range(60)))
def test_any_prices_give_a_bound_and_the_evaluation_is_exact(seed: int) -> None:
    instance = tiny(seed)
    optimum, _ = optimal_total_latency(instance)
    copies = copies_of(instance)
    rng = np.random.default_rng([3, seed])
    for epochs in (0, 1, 4, 9):
        prices = rng.integers(0, SCALE // 2, (epochs, *copies.shape))
        prices *= rng.integers(0, 2, prices.shape)
        bound = exact_bound(prices, instance)
        assert bound == bound_by_loops(instance, prices)
        assert bound <= optimum


@pytest.mark.parametrize("seed", sweep(range(60)))
def test_the_smallest_prices_count(seed: int) -> None:
    """Prices of one unit: the heaviest configuration is then the largest, member by member."""
    instance = tiny(seed)
    copies = copies_of(instance)
    rng = np.random.default_rng([13, seed])
    prices = rng.integers(0, 3, (3, *copies.shape)) * (copies > 0)
    prices[0] = copies > 0
    limit, states = instance.memory_limit, by_state(copies)
    expected = [heaviest(states, by_state(here), limit, ()) for here in prices]
    assert integer_capacities(prices, copies).tolist() == expected


def test_prices_that_could_leave_64_bits_are_refused() -> None:
    """M = 4 members may pay the sum of all prices: 4 times 2^59 units are too much."""
    copies = state_copies([1], [2], 4)
    prices = np.zeros((2, 5, 5), dtype=np.int64)
    prices[:, 1, 2] = HEADROOM // 8
    with pytest.raises(ValueError, match="sum of maxima"):
        integer_capacities(prices, copies)
    prices[1, 1, 2] -= 1
    assert integer_capacities(prices, copies).tolist() == [HEADROOM // 8, HEADROOM // 8 - 1]


def test_an_arrival_after_the_last_price_pays_nothing() -> None:
    instance = Instance.from_arrays([1], [2], [7], memory_limit=4)
    assert exact_bound(np.zeros((2, 5, 5), dtype=np.int64), instance) == 2

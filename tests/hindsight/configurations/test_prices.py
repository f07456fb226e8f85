"""The exact bound of any epoch prices, against the definition and the optimum."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from brute_force import optimal_total_latency, rows_of
from certificates_by_definition import heaviest_configuration
from drawn_instances import columns_of, copies_of, tiny
from effort import sweep

from hindsight.configurations.prices import (
    HEADROOM,
    SCALE,
    epoch_prices,
    exact_bound,
    integer_capacities,
)
from hindsight.configurations.tables import maximum_weight, memory_table, state_copies
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
    optimum, best = optimal_total_latency(instance)
    copies = copies_of(instance)
    rng = np.random.default_rng([3, seed])
    columns = columns_of(instance)
    for epochs in (0, 1, 4, 9):
        prices = rng.integers(0, SCALE // 2, (epochs, *copies.shape))
        prices *= rng.integers(0, 2, prices.shape)
        bound = exact_bound(prices, *columns, instance.memory_limit, copies)
        assert bound == bound_by_loops(instance, prices)
        assert bound <= optimum
        window = (np.maximum(np.array(best) - 1, instance.arrival_times), np.array(best) + 1)
        inside = exact_bound(prices, *columns, instance.memory_limit, copies, *window)
        assert bound <= inside <= optimum


@pytest.mark.parametrize("seed", sweep(range(60)))
def test_the_smallest_prices_count(seed: int) -> None:
    """Prices of one unit: the heaviest configuration is then the largest, member by member."""
    instance = tiny(seed)
    rows, limit = rows_of(instance), instance.memory_limit
    copies = copies_of(instance)
    rng = np.random.default_rng([13, seed])
    prices = rng.integers(0, 3, (3, *copies.shape)) * (copies > 0)
    prices[0] = copies > 0
    expected = [
        heaviest_configuration(
            {
                (int(m), int(r)): Fraction(int(here[m, r]))
                for m, r in zip(*here.nonzero(), strict=True)
            },
            rows,
            limit,
        )
        for here in prices
    ]
    assert integer_capacities(prices, copies).tolist() == expected


@pytest.mark.parametrize("seed", sweep(range(40)))
def test_bounds_within_windows_are_those_of_the_starts_in_them(seed: int) -> None:
    instance = tiny(seed)
    rows, copies = rows_of(instance), copies_of(instance)
    rng = np.random.default_rng([14, seed])
    columns = columns_of(instance)
    for epochs in (0, 1, 5):
        prices = rng.integers(0, 2 * SCALE, (epochs, *copies.shape)) * (copies > 0)
        paid = sum(integer_capacities(prices, copies).tolist())
        for _ in range(6):
            low = instance.arrival_times + rng.integers(0, epochs + 3, len(rows))
            high = low + rng.integers(0, 4, len(rows))
            total = -paid
            for (a, s, o), first, last in zip(rows, low.tolist(), high.tolist(), strict=True):
                total += min(
                    SCALE * (t + o - a)
                    + sum(
                        int(prices[t + age, s + age, o - age])
                        for age in range(o)
                        if t + age < epochs
                    )
                    # A last start at or past the last price is no limit.
                    for t in range(first, max(last, first if last >= epochs else 0) + 1)
                )
            bound = exact_bound(prices, *columns, instance.memory_limit, copies, low, high)
            assert bound == -(-total // SCALE)


def test_prices_that_could_leave_64_bits_are_refused() -> None:
    """M members may pay the sum of all prices: 8 times 2^38 units of 1 / 2^20 are too much."""
    copies = state_copies([0] * 8, [1] * 8, 8)
    table = memory_table(8)
    assert table.coefficients.max() == table.capacity == 8
    most = HEADROOM / SCALE / 8
    for price, refused in ((most, True), (most * (1 - 2.0**-40), False)):
        prices = np.full((1, 2), price / 2)
        if refused:
            with pytest.raises(ValueError, match="too large"):
                epoch_prices(table.coefficients[None], np.array([8]), prices, copies)
            continue
        Q, W = epoch_prices(table.coefficients[None], np.array([8]), prices, copies)
        # 8 requests of one token each: the price of a token, 8 times, and no wrap around.
        assert W.tolist() == [8 * int(Q[0, 0, 1])] * 2
        assert 0 < int(Q[0, 0, 1]) * 8 <= price / 2 * SCALE


def test_integer_prices_that_could_leave_64_bits_are_refused() -> None:
    """The same limit on prices that are given as integers: M = 4 times 2^59 units are too much."""
    copies = state_copies([1], [2], 4)
    prices = np.zeros((2, 5, 5), dtype=np.int64)
    prices[:, 1, 2] = HEADROOM // 8
    with pytest.raises(ValueError, match="sum of maxima"):
        integer_capacities(prices, copies)
    prices[1, 1, 2] -= 1
    assert integer_capacities(prices, copies).tolist() == [HEADROOM // 8, HEADROOM // 8 - 1]


def test_requests_without_a_prompt() -> None:
    # Four of them fill M = 4 at once: the capacity must count all four.
    copies = state_copies([0] * 4, [1] * 4, 4)
    table = memory_table(4)
    prices, capacities = epoch_prices(
        table.coefficients[None], np.array([4]), np.full((1, 1), 4.0), copies
    )
    assert capacities.tolist() == [4 * SCALE]
    assert exact_bound(prices, [0] * 4, [1] * 4, [0] * 4, 4, copies) == 4


def test_integers_never_exceed_the_float_prices() -> None:
    instance = tiny(7)
    copies, limit = copies_of(instance), instance.memory_limit
    floats = np.array([[0.3, -2.0, 1e-9, 1.7]])
    prices, capacities = epoch_prices(
        memory_table(limit).coefficients[None], np.array([limit]), floats, copies
    )
    assert (capacities <= np.maximum(floats[0], 0) * SCALE).all()
    assert not prices[1].any()
    assert not prices[:, copies == 0].any()


def test_bad_prices_are_refused() -> None:
    copies = state_copies([1], [2], 4)
    zero = np.zeros((2, 5, 5), dtype=np.int64)
    request = ([1], [2], [0], 4, copies)
    with pytest.raises(ValueError, match="negative"):
        exact_bound(zero - 1, *request)
    with pytest.raises(TypeError, match="int64"):
        exact_bound(zero.astype(float), *request)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="too large"):
        exact_bound(zero + 2**60, *request)
    with pytest.raises(ValueError, match="shape"):
        exact_bound(zero[:, :4], *request)
    with pytest.raises(ValueError, match=r"request 0: start window = \(3, 2\) is empty"):
        exact_bound(zero, *request, [3], [2])
    for bad, match in ((np.nan, "finite"), (1e30, "too large")):
        with pytest.raises(ValueError, match=match):
            epoch_prices(
                memory_table(4).coefficients[None], np.array([4]), np.full((1, 2), bad), copies
            )

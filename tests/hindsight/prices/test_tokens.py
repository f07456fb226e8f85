"""Exact price bounds and the starts they leave, against plain loops in fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from brute_force import (
    all_feasible_schedules,
    optimal_total_latency,
    rows_of,
    sound_horizon,
    total_latency_by_definition,
)
from drawn_instances import drawn_instance
from effort import sweep

from hindsight import best_list_schedule, relax
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.prices.starts import BLOCK
from hindsight.prices.tokens import price_bound, round_prices, useful_starts
from instances import Instance


def tiny(seed: int, largest: int = 5) -> Instance:
    last = 6 if seed % 2 else None
    return drawn_instance([77, seed], (1, largest), (3, 9), outputs=5, last_arrival=last)


def bound_by_loops(instance: Instance, prices: list[Fraction]) -> Fraction:
    """sum_i min_t [t + o - a + sum_r lambda_r (s + r - t)] - M sum_r lambda_r, by definition."""
    last = len(prices) + max(a for a, _, _ in rows_of(instance)) + 3
    total = -instance.memory_limit * sum(prices, Fraction(0))
    for arrival, prompt, output in rows_of(instance):
        costs = []
        for start in range(arrival, last + 1):
            cost = Fraction(start + output - arrival)
            for r in range(start + 1, start + output + 1):
                if r <= len(prices):
                    cost += prices[r - 1] * (prompt + r - start)
            costs.append(cost)
        total += min(costs)
    return total


@pytest.mark.parametrize("seed", sweep(range(60)))
def test_any_prices_give_a_bound_and_the_evaluation_is_exact(seed: int) -> None:
    instance = tiny(seed)
    optimum, _ = optimal_total_latency(instance)
    rng = np.random.default_rng([5, seed])
    for rounds, scale in ((0, 1), (3, 4), (12, 7), (30, 60)):
        numerators = rng.integers(0, scale, rounds) * rng.integers(0, 2, rounds)
        denominator = int(rng.integers(1, 40))
        prices = MemoryPrices(numerators.astype(np.int64), denominator)
        bound = price_bound(instance, prices)
        exact = bound_by_loops(instance, [Fraction(int(k), denominator) for k in numerators])
        assert Fraction(bound.scaled_value, denominator) == exact
        assert bound.bound == math.ceil(exact)
        assert bound.bound <= optimum


def test_a_minimum_many_blocks_later_is_found() -> None:
    """The last priced round costs 1 / 2 more than to wait for the round after it."""
    rounds = 4 * BLOCK
    numerators = np.full(rounds, 2 * rounds, dtype=np.int64)
    numerators[-1] = 1
    instance = Instance.from_arrays([1], [1], memory_limit=2)
    # Starts 0 .. 1022 cost more than 1024 rounds; 1023 costs 1024 + 2 / 4, 1024 costs 1025.
    bound = price_bound(instance, MemoryPrices(numerators, 4))
    assert bound.cheapest.tolist() == [4 * rounds + 2]
    numerators[-1] = 3
    # And now 1023 costs 1024 + 6 / 4: 1024, the first of the next block, is the cheapest.
    bound = price_bound(instance, MemoryPrices(numerators, 4))
    assert bound.cheapest.tolist() == [4 * rounds + 4]


@pytest.mark.parametrize("size", [1e3, 1e9, 1e15, 1e30])
def test_huge_prices_do_not_wrap_around(size: float) -> None:
    instance = tiny(2)
    optimum, _ = optimal_total_latency(instance)
    raw = np.array([size, 1.0, size / 3, 0.0, 2.0])
    prices = round_prices(raw, instance)
    exact = bound_by_loops(
        instance, [Fraction(int(k), prices.denominator) for k in prices.numerators]
    )
    bound = price_bound(instance, prices)
    assert Fraction(bound.scaled_value, prices.denominator) == exact
    assert bound.bound <= optimum


def test_a_long_prompt_does_not_wrap_around() -> None:
    instance = Instance.from_arrays([1, 2**30], [1, 1], memory_limit=2**30 + 1)
    prices = round_prices(np.ones(2), instance)
    exact = bound_by_loops(instance, [Fraction(1)] * 2)
    assert Fraction(price_bound(instance, prices).scaled_value, prices.denominator) == exact


def test_the_denominator_is_as_large_as_64_bits_allow() -> None:
    """It halves as the prices double, down to 1: only then are they given up."""
    instance = tiny(2)
    denominators = []
    for power in range(70):
        raw = np.array([2.0**power, 2.0**power])
        prices = round_prices(raw, instance)
        if prices.horizon:
            assert prices.numerators.tolist() == [prices.denominator * 2**power] * 2
            denominators.append(prices.denominator)
            exact = bound_by_loops(instance, [Fraction(2**power)] * 2)
            assert price_bound(instance, prices).bound == math.ceil(exact)
    assert denominators[0] == 2**24
    steps = [x // y for x, y in itertools.pairwise(denominators)]
    assert steps == [1] * (len(steps) - 24) + [2] * 24


def test_bad_prices_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        MemoryPrices(np.array([1, -1]), 2)
    with pytest.raises(ValueError, match="denominator"):
        MemoryPrices(np.array([1]), 0)


@pytest.mark.parametrize("seed", sweep(range(40)))
def test_useful_starts_hold_every_schedule_as_good_as_the_incumbent(seed: int) -> None:
    instance = tiny(seed, largest=4)
    incumbent = best_list_schedule(instance).total_latency
    # Any schedule of latency <= U completes request i by a_i + U.
    horizon = min(max(a for a, _, _ in rows_of(instance)) + incumbent, sound_horizon(instance) + 4)
    good = [
        starts
        for starts in all_feasible_schedules(instance, horizon)
        if total_latency_by_definition(instance, starts) <= incumbent
    ]
    assert good
    rng = np.random.default_rng([6, seed])
    for rounds in (0, 2, 8, 15):
        prices = MemoryPrices(rng.integers(0, 3, rounds).astype(np.int64), 12)
        bound = price_bound(instance, prices)
        allowed = [set(x.tolist()) for x in useful_starts(instance, bound, incumbent)]
        for starts in good:
            assert all(t in window for t, window in zip(starts, allowed, strict=True)), rounds
    relaxed = relax(instance)
    bound = price_bound(instance, relaxed.prices)
    allowed = [set(x.tolist()) for x in useful_starts(instance, bound, incumbent)]
    for starts in good:
        assert all(t in window for t, window in zip(starts, allowed, strict=True))

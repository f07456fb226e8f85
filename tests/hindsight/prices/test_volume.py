"""Volume bounds by units in fractions, rounded the safe way, and the prices that they give."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from brute_force import optimal_total_latency, rows_of
from drawn_instances import drawn_instance
from effort import sweep

from hindsight.prices.volume import fill_by_volume, filling_prices, mean_busy_time_bound
from instances import Instance


def small(seed: int) -> Instance:
    return drawn_instance([31, seed], (1, 5), (3, 10), last_arrival=(0, 5, 24)[seed % 3])


def volume(prompt: int, output: int) -> int:
    return sum(prompt + age for age in range(1, output + 1))


def serve_unit_by_unit(instance: Instance) -> list[int]:
    """sum of r over the units of each request, the smallest arrived volume first."""
    rows = rows_of(instance)
    left = [volume(s, o) for _, s, o in rows]
    weighted = [0] * len(rows)
    r = 0
    while any(left):
        r += 1
        for _ in range(instance.memory_limit):
            arrived = [i for i, (a, _, _) in enumerate(rows) if a < r and left[i]]
            if not arrived:
                break
            i = min(arrived, key=lambda i: (volume(*rows[i][1:]), i))
            left[i] -= 1
            weighted[i] += r
    return weighted


def bound_by_units(instance: Instance) -> int:
    total = Fraction(0)
    for (a, s, o), weighted in zip(rows_of(instance), serve_unit_by_unit(instance), strict=True):
        v = volume(s, o)
        moment = sum(j * (s + j) for j in range(1, o + 1))
        total += o - a + Fraction(weighted - moment, v)
    return math.ceil(total)


@pytest.mark.parametrize("seed", sweep(range(80)))
def test_filling_and_bound_by_units(seed: int) -> None:
    instance = small(seed)
    filling = fill_by_volume(instance)
    # Ties between equal volumes may be served in another order: compare the cost, exactly.
    rows = rows_of(instance)
    volumes = [volume(s, o) for _, s, o in rows]

    def cost(weighted: list[int]) -> Fraction:
        return sum((Fraction(w, v) for w, v in zip(weighted, volumes, strict=True)), Fraction(0))

    assert cost(filling.weighted_rounds) == cost(serve_unit_by_unit(instance))
    assert mean_busy_time_bound(instance) == bound_by_units(instance)


@pytest.mark.parametrize("seed", sweep(range(80)))
def test_prices_of_a_filling_are_dual(seed: int) -> None:
    """The cheapest round of every request, less what all memory costs, is the least cost."""
    rng = np.random.default_rng(seed)
    s, o = rng.integers(1, 6, (2, 12))
    arrivals = rng.integers(0, (1, 25, 60)[seed % 3], 12)
    weights = rng.integers(1, 2 + seed % 4, 12)
    instance = Instance.from_arrays(s, o, arrivals, memory_limit=11, weights=weights)
    filling = fill_by_volume(instance)
    prices = np.append(filling_prices(filling), 0.0)
    volumes, rounds = instance.volumes, np.arange(1, len(prices) + 1)
    costs = np.outer(weights, rounds) + np.outer(volumes, prices)
    least = np.where(rounds > arrivals[:, None], costs, np.inf).min(axis=1).sum()
    cost = (weights * filling.weighted_rounds / volumes).sum()
    assert least - 11 * prices.sum() == pytest.approx(cost, rel=1e-12)
    assert prices.min() == 0


def test_a_filling_that_fits_no_64_bits() -> None:
    """A request of 10^9 tokens takes 5 * 10^17 units, in rounds 1 to 10^9 and beyond."""
    M = 10**9
    instance = Instance.from_arrays([1, 1], [M - 1, M - 2], [0, 2**52], memory_limit=M)
    filling = fill_by_volume(instance)
    for (a, _, o), weighted in zip(rows_of(instance), filling.weighted_rounds, strict=True):
        units = o + o * (o + 1) // 2
        whole, rest = divmod(units, M)
        assert weighted == M * (whole * (whole + 1) // 2) + (whole + 1) * rest + a * units


def test_fractions_are_rounded_down_before_they_are_added() -> None:
    """They add up to 8, which is the optimum: rounded up, they would to more, and prove 9."""
    rows = [(0, 4, 1), (0, 2, 1), (1, 1, 1), (3, 2, 1), (0, 1, 2)]
    arrivals, prompts, outputs = zip(*rows, strict=True)
    instance = Instance.from_arrays(prompts, outputs, arrivals, memory_limit=5)
    assert mean_busy_time_bound(instance) == bound_by_units(instance) == 8
    assert optimal_total_latency(instance)[0] == 8


def test_fractions_are_not_rounded_to_the_nearest() -> None:
    """Thirds that add up to 8: to the nearest, two of them go up, and 9 would be proved."""
    rows = [(2, 1, 1), (0, 2, 1), (2, 2, 1), (1, 2, 1), (0, 1, 1)]
    arrivals, prompts, outputs = zip(*rows, strict=True)
    instance = Instance.from_arrays(prompts, outputs, arrivals, memory_limit=3)
    assert mean_busy_time_bound(instance) == bound_by_units(instance) == 8

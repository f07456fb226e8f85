"""Bounds by prices of memory against trying all rounds and all sets, and their gradient."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from brute_force import rows_of
from drawn_instances import drawn_instance
from preemptive_by_definition import bound_of_prices

from hindsight.prices.stops import PreemptivePrices, path_shares, preemptive_price_bound, set_shares
from instances import Instance, InvalidValueError


def tiny(seed: int) -> Instance:
    return drawn_instance([101, seed], (1, 3), (3, 7), outputs=3, last_arrival=3)


@pytest.mark.parametrize("linear", [False, True])
def test_the_bound_is_what_all_rounds_and_all_sets_say(linear: bool) -> None:
    """Prices that end with the last arrival, or some rounds later."""
    for seed in range(25):
        instance, rng = tiny(seed), np.random.default_rng([6, seed])
        limit, unit = instance.memory_limit, int(rng.integers(1, 4))
        shape = int(instance.arrival_times.max()) + seed % 5 + 1, 1 if linear else limit + 1
        table = rng.integers(0, 3, shape)
        table[0] = 0
        prices = {
            (r, m): Fraction(int(table[r, 0]) * m if linear else int(table[r, m]), unit)
            for r in range(1, len(table))
            for m in range(1, limit + 1)
        }
        given = PreemptivePrices(table, unit)
        found = preemptive_price_bound(instance, given)
        assert found == bound_of_prices(rows_of(instance), limit, prices, linear), seed
        kind = "preemptive-memory-prices" if linear else "preemptive-prices"
        assert given.to_part(instance)["kind"] == kind


def test_a_denominator_that_leaves_64_bits_in_sums_is_refused() -> None:
    free = np.zeros((int(tiny(0).arrival_times.max()) + 1, 1), np.int64)
    with pytest.raises(InvalidValueError, match="is too large for 64-bit sums"):
        preemptive_price_bound(tiny(0), PreemptivePrices(free, 2**61))


def test_a_climb_is_along_the_gradient_of_the_smooth_bound() -> None:
    """Shares of paths and of sets are derivatives: compared with differences of the values."""
    for seed in range(8):
        instance, rng = tiny(seed), np.random.default_rng([7, seed])
        requests = instance.columns
        limit, heat = instance.memory_limit, 0.7
        table = rng.uniform(0.1, 1.0, (int(instance.arrival_times.max()) + 4, limit + 1))
        table[0] = table[:, 0] = 0

        gradient = np.zeros_like(table)
        path_shares(table, heat, requests, gradient)
        set_shares(table, heat, requests, gradient)
        for r, m in np.argwhere(table > 0)[seed::9].tolist():
            rise = 0.0
            for step in (1e-5, -1e-5):
                table[r, m] += step
                ignored = np.zeros_like(table)
                paths = path_shares(table, heat, requests, ignored)
                sets = set_shares(table, heat, requests, ignored)
                rise += (paths - sets) / (2 * step)
                table[r, m] -= step
            assert gradient[r, m] == pytest.approx(rise, abs=1e-6)

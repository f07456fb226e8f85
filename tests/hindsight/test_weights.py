"""Weighted total latency by hand: orders, fillings, large weights, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import hindsight
from hindsight.exact.pyomo_model import model_size
from hindsight.prices.volume import fill_by_volume, filling_prices
from instances import Instance, Schedule

HEAVY_LAST = Instance.from_arrays([1, 1], [3, 3], memory_limit=4, weights=[1, 5])


def test_the_heavier_of_two_equal_requests_goes_first() -> None:
    found = hindsight.solve(HEAVY_LAST, progress=False)
    assert found.schedule.start_times.tolist() == [3, 0]
    assert found.upper_bound == 6 + 5 * 3
    assert found.schedule.total_waiting == 3
    # Equal but for the weight: no columns are shared, and both orders are told apart.
    assert model_size(HEAVY_LAST, "sparse", 6).columns == 2 * 4 + 2 * 6


def test_filling_goes_by_volume_over_weight() -> None:
    # Volumes 9 and 9 with weights 1 and 5: the second is served in rounds 1 to 3.
    filling = fill_by_volume(HEAVY_LAST)
    assert filling.weighted_rounds == [3 * 3 + 4 * 4 + 5 * 2, 4 * 1 + 4 * 2 + 1 * 3]
    falling = -np.diff(filling_prices(filling), append=0.0)
    assert falling.tolist() == pytest.approx([5 / 9, 5 / 9, 1 / 9, 1 / 9, 0])
    for weight in (2, 7):
        alike = Instance.from_arrays([1, 2, 1], [3, 2, 1], memory_limit=4, weights=[weight] * 3)
        plain = Instance.from_arrays([1, 2, 1], [3, 2, 1], memory_limit=4)
        assert fill_by_volume(alike).weighted_rounds == fill_by_volume(plain).weighted_rounds


def test_a_start_and_a_user_bound_are_of_the_weighted_problem() -> None:
    start = Schedule(HEAVY_LAST, [0, 3])
    assert start.total_latency == 3 + 5 * 6
    bound = hindsight.solve(
        HEAVY_LAST, start=start, bounds=[lambda instance: instance.total_output_length]
    )
    assert bound.upper_bound == 21

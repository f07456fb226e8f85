"""Ascended prices: the bounds they give are near the optimum and not above it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from seconds_optimum import optimum

from hindsight.seconds.machine_bounds import machine_bounds
from hindsight.seconds.minorants import affine_minorants
from hindsight.seconds.price_ascent import ascend, best_bound
from hindsight.seconds.round_length_prices import priced_bound
from instances import Workload
from instances.batch_time import LLAMA_2_70B_2XA100, AffineTime


@pytest.mark.parametrize("seed", range(5))
def test_no_bound_from_ascended_prices_is_above_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 4))
    s, o = rng.integers(1, 4, n), rng.integers(1, 3, n)
    times = np.sort(rng.integers(0, 16, n)) / 8 if seed % 2 else np.zeros(n)
    limit = int((s + o).max()) + int(rng.integers(0, 3))
    workload = Workload(times, s, o, memory_limit=limit)
    time = AffineTime(0.5, float(rng.integers(0, 5)) / 8, float(rng.integers(0, 5)) / 32)
    best = optimum(
        [Fraction(float(one)) for one in times],
        s.tolist(),
        o.tolist(),
        limit,
        lambda tokens, resident: (
            Fraction(time.d0) + Fraction(time.d1) * tokens + Fraction(time.d2) * resident
        ),
        states=1_500,
    )
    if best is None:
        pytest.skip("too many states")
    (minorant,) = affine_minorants(time, limit)
    found = ascend(workload, minorant, horizon=12.0, step=2.0**-5, cell=0.25, iterations=40)
    bound, _ = priced_bound(workload, minorant, found.prices)
    assert 0 < bound.total <= best


def test_where_rounds_are_shared_ascended_prices_win() -> None:
    rng = np.random.default_rng(1)
    s, o = rng.integers(20, 120, 60), rng.integers(5, 40, 60)
    workload = Workload(np.zeros(60), s, o, memory_limit=2_000)
    time = LLAMA_2_70B_2XA100.batch_time
    bound = best_bound(workload, time, horizon=16.0, cell=0.25, iterations=60)
    assert bound.name == "round-length prices"
    assert bound.total > max(one.total for one in machine_bounds(workload, time).values())

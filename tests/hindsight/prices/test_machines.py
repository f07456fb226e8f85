"""Bounds in seconds by hand, and the lines below tables that they use."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from enumeration import Work
from tiny_problems import InSeconds, seconds_of

from hindsight.prices.machines import machine_bounds, mean_busy_prices
from hindsight.prices.minorants import AffineMinorant, affine_minorants
from instances import InvalidTypeError, Workload
from online import AffineTime, TiledTime


def test_a_request_alone_reaches_its_own_time_and_its_mean_busy_time() -> None:
    workload = Workload([0.25], [3], [2], memory_limit=5)
    time = AffineTime(0.5, 0.25, 0.125)
    # Rounds of 0.5 + 0.75 + 0.5 and 0.5 + 0.25 + 0.625 seconds.
    assert InSeconds.of(workload, time).least_total_latency() == Fraction(25, 8)
    bounds = machine_bounds(workload, time)
    assert bounds["own time"] == Fraction(25, 8)
    # The machine runs its 3.025 seconds of charges where the rounds take 3.125.
    assert bounds["one machine"] == Fraction(121, 40)
    assert Fraction(121, 40) < bounds["mean busy times"] < Fraction(25, 8)


def test_full_rounds_one_at_a_time_reach_one_machine_and_mean_busy_times() -> None:
    # Each fills the cache in its only round: the second waits for the first.
    workload = Workload([0.0, 0.0], [3, 3], [1, 1], memory_limit=4)
    time = AffineTime(1.0, 0.5, 0.25)
    assert InSeconds.of(workload, time).least_total_latency() == Fraction(21, 2)
    bounds = machine_bounds(workload, time)
    assert bounds["one machine"] == Fraction(21, 2)
    assert Fraction(21, 2) - bounds["mean busy times"] < Fraction(1, 2**59)
    assert bounds["own time"] == 7


@pytest.mark.parametrize("seed", range(20))
def test_prices_of_mean_busy_times_are_dual(seed: int) -> None:
    rng = np.random.default_rng(seed)
    # A machine that serves a unit of time after the other, without an idle time: the request of
    # processing time 30 is there from the start.
    length = np.append(30, rng.integers(1, 9, 9))
    arrival = np.append(0, np.sort(rng.integers(0, 30, 9)))
    left, means = length.copy(), 0.0
    for now in range(length.sum()):
        i = min(np.flatnonzero((arrival <= now) & (left > 0)), key=lambda i: length[i])
        left[i] -= 1
        means += (now + 0.5) / length[i]
    workload = Workload(arrival, length, [1] * 10, memory_limit=100)
    work_alone = AffineMinorant(Fraction(0), Fraction(1), Fraction(0))
    times, prices = map(np.array, mean_busy_prices(workload, work_alone))
    costs = times + np.outer(length, prices)
    # A request cannot use the price at the end of the piece that its arrival ends.
    is_open = times - np.arange(len(times)) % 2 >= arrival[:, None]
    least = np.where(is_open, costs, np.inf).min(axis=1).sum()
    assert least - np.trapezoid(prices, times) == pytest.approx(means, rel=1e-12)


def steps(seed: int) -> TiledTime:
    """A table in tiles that may fall, all of it in halves of halves."""
    rng = np.random.default_rng(seed)
    tile = int(rng.integers(1, 4))
    places = tile * np.cumsum(rng.integers(1, 4, 5))
    seconds = np.append(rng.integers(1, 12, 4), 12) / 8
    terms = rng.integers(0, 4, 4) / 64
    names = ("kernel", "kv_token", "prompt_square", "prompt_past")
    return TiledTime(
        places.tolist(), seconds.tolist(), tile, **dict(zip(names, terms.tolist(), strict=True))
    )


def limit_of(seed: int) -> int:
    return int(np.random.default_rng(seed).integers(1, 50))


FALLING = TiledTime([4, 8, 12, 16], [4.0, 5.0, 2.0, 3.0], 4, kernel=0.5)
"""A limit of 9 tokens lies in the tile in which it falls."""


@pytest.mark.parametrize(
    ("time", "limit"), [(FALLING, 9), *((steps(seed), limit_of(seed)) for seed in range(40))]
)
def test_every_minorant_of_steps_lies_below_them(time: TiledTime, limit: int) -> None:
    minorants = affine_minorants(time, limit)
    table = [seconds_of(time)([Work(k, 0, 0, False)]) for k in range(1, limit + 1)]
    lines = [[one.d0 + one.d1 * (k + 1) for k in range(limit)] for one in minorants]
    for minorant, line in zip(minorants, lines, strict=True):
        assert minorant.d0 > 0
        assert minorant.d1 >= 0
        assert minorant.d2 == Fraction(time.kv_token)
        assert minorant.least == (min(table) if minorant.d1 else 0)
        for x, y in itertools.product(range(1, 9), range(9)):
            with_past, plain = (seconds_of(time)([Work(x, y, 0, one)]) for one in (True, False))
            assert minorant.square * ((x + y) ** 2 - y**2) <= with_past - plain
        assert all(low <= high for low, high in zip(line, table, strict=True))
        # None could be higher: each touches the table.
        assert any(low == high for low, high in zip(line, table, strict=True))


def test_a_batch_time_without_a_known_minorant_is_refused() -> None:
    class Faster(AffineTime):
        pass

    with pytest.raises(InvalidTypeError, match="no known affine minorant"):
        machine_bounds(Workload([0.0], [1], [1], memory_limit=4), Faster(1.0, 0.0, 0.0))

"""Arrival processes: that draws have the rate they claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from instances import PiecewiseConstantArrivals, PoissonArrivals

PROCESSES: list[Any] = [
    PoissonArrivals(2.5),
    PiecewiseConstantArrivals([3.0, 2.0, 5.0], [1.0, 0.0, 4.0]),
    PiecewiseConstantArrivals([2.0, 1.0], [0.0, 3.0]),
]


def integrated_rate(process: Any, times: np.ndarray) -> np.ndarray:
    """Expected arrivals up to each time, by definition."""
    if isinstance(process, PoissonArrivals):
        return process.arrival_rate * times
    total, start = np.zeros_like(times), 0.0
    cycle = sum(process.durations)
    for duration, rate in zip(process.durations, process.rates, strict=True):
        inside = np.clip(times % cycle - start, 0, duration)
        total += rate * (times // cycle * duration + inside)
        start += duration
    return total


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_draws_are_a_poisson_process_of_that_rate(process: Any) -> None:
    """In the integrated rate as time, gaps are independent exponentials of mean 1."""
    times = process.draw(np.random.default_rng(11), 20_000)
    assert times.shape == (20_000,)
    assert (np.diff(times) >= 0).all()
    gaps = np.diff(integrated_rate(process, times), prepend=0)
    assert stats.kstest(gaps, "expon").pvalue > 1e-3
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.03


def test_nothing_arrives_where_the_rate_is_zero() -> None:
    process = PiecewiseConstantArrivals([3.0, 2.0, 5.0], [1.0, 0.0, 4.0])
    times = np.mod(process.draw(np.random.default_rng(0), 5000), 10.0)
    assert not ((times > 3.0) & (times < 5.0)).any()


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_a_longer_draw_begins_like_a_shorter_one(process: Any) -> None:
    short = process.draw(np.random.default_rng(3), 50)
    assert process.draw(np.random.default_rng(3), 5000)[:50].tolist() == short.tolist()

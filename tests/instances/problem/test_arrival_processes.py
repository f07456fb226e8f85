"""Arrival processes: their integrals, and that draws have the rate they claim."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from instances import PiecewiseConstantArrivals, PoissonArrivals, SinusoidalArrivals
from instances.problem.arrival_processes import ArrivalProcess, arrivals_until

PROCESSES: list[ArrivalProcess] = [
    PoissonArrivals(2.5),
    PiecewiseConstantArrivals([3.0, 2.0, 5.0], [1.0, 0.0, 4.0]),
    PiecewiseConstantArrivals([2.0, 1.0], [0.0, 3.0]),
    SinusoidalArrivals(2.0, 2.0, 7.0, phase=0.5),
]


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_the_integral_is_that_of_the_rate(process: ArrivalProcess) -> None:
    for end in (0.7, 3.0, 4.2, 23.9):
        grid = np.linspace(0, end, 5_001)
        integral = integrate.trapezoid([process.rate(t) for t in grid], grid)
        assert process.expected_arrivals(end) == pytest.approx(integral, abs=4e-2)


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_draws_are_a_poisson_process_of_that_rate(process: ArrivalProcess) -> None:
    """In the integrated rate as time, gaps are independent exponentials of mean 1."""
    times = process.draw(np.random.default_rng(11), 20_000)
    assert times.shape == (20_000,)
    assert (np.diff(times) >= 0).all()
    gaps = np.diff([0.0, *(process.expected_arrivals(float(t)) for t in times)])
    assert stats.kstest(gaps, "expon").pvalue > 1e-3
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 0.03


def test_nothing_arrives_where_the_rate_is_zero() -> None:
    process = PiecewiseConstantArrivals([3.0, 2.0, 5.0], [1.0, 0.0, 4.0])
    times = np.mod(process.draw(np.random.default_rng(0), 5000), 10.0)
    assert not ((times > 3.0) & (times < 5.0)).any()


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_a_horizon_holds_a_poisson_number(process: ArrivalProcess) -> None:
    counts = [len(arrivals_until(process, np.random.default_rng(k), 13.0)) for k in range(400)]
    mean = process.expected_arrivals(13.0)
    assert np.mean(counts) == pytest.approx(mean, abs=4 * (mean / 400) ** 0.5)
    assert 0.7 < np.var(counts) / mean < 1.3


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_a_longer_draw_begins_like_a_shorter_one(process: ArrivalProcess) -> None:
    short = process.draw(np.random.default_rng(3), 50)
    assert process.draw(np.random.default_rng(3), 5000)[:50].tolist() == short.tolist()

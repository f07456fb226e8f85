"""The closed form of M/D^[a,c]/1 against its Markov chain, and the simulator against the form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import online
from instances import Instance, Workload
from instances.batch_time import IterationTime
from online.fluid.queueing import batch_service_queue, wait_mean_latency

CONFIDENCE = 0.99


def stationary(alpha: float, c: int, size: int = 600) -> np.ndarray:
    """P(q = k) of q' = max(q - c, 0) + Poisson(alpha), by solving the truncated linear system."""
    k = np.arange(size)
    after = np.maximum(k - c, 0)
    matrix = np.array([stats.poisson.pmf(k - low, alpha) for low in after])
    system = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    right = np.zeros(size + 1)
    right[-1] = 1
    return np.linalg.lstsq(system, right, rcond=None)[0]


def wait_by_renewal(rate: float, duration: float, c: int, a: int) -> float:
    """Mean queue over a cycle divided by its mean length, from the chain's distribution."""
    p = stationary(rate * duration, c)
    k = np.arange(len(p))
    left = np.maximum(k - c, 0)
    area = (p * left).sum() * duration + rate * duration**2 / 2
    length = duration
    for q in range(a):
        for present in range(q, a):
            area += p[q] * present / rate
            length += p[q] / rate
    return float(area / length / rate)


@pytest.mark.parametrize(
    ("rate", "duration", "c", "a"),
    [
        (0.7, 1, 1, 1),
        (3, 1, 4, 1),
        (3.6, 1, 4, 4),
        (2.5, 1.3, 5, 3),
        (24, 0.8, 24, 1),
        (89.6, 1, 128, 128),
    ],
)
def test_against_the_markov_chain(rate: float, duration: float, c: int, a: int) -> None:
    found = batch_service_queue(rate, duration, c, a)
    p = stationary(rate * duration, c)
    assert found.left_at_departures == pytest.approx(p[:c], abs=1e-9)
    assert found.left_at_departures.sum() <= 1 + 1e-9
    left = float((p * np.maximum(np.arange(len(p)) - c, 0)).sum())
    assert found.left_behind == pytest.approx(left, abs=1e-8)
    assert found.mean_wait == pytest.approx(wait_by_renewal(rate, duration, c, a), abs=1e-8)
    assert found.mean_wait_at_ticks == pytest.approx(left / rate + duration / 2, abs=1e-8)


def test_one_at_a_time_is_m_d_1() -> None:
    """Pollaczek-Khinchine: rho D / (2 (1 - rho))."""
    for rho in (0.1, 0.5, 0.95):
        assert batch_service_queue(rho / 2, 2, 1).mean_wait == pytest.approx(
            rho * 2 / (2 - 2 * rho)
        )


def test_light_traffic_has_hardly_any_wait() -> None:
    assert batch_service_queue(1e-6, 1, 8).mean_wait == pytest.approx(0, abs=1e-5)
    # A customer that waits for one more waits half the mean gap on average.
    assert batch_service_queue(1e-3, 1, 2, 2).mean_wait == pytest.approx(500, rel=0.01)


def interval(samples: list[float]) -> tuple[float, float]:
    mean, error = np.mean(samples), stats.sem(samples)
    low, high = stats.t.interval(CONFIDENCE, len(samples) - 1, mean, error)
    return float(low), float(high)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("c", "rho", "n"),
    [
        (3, 0.5, 500),
        pytest.param(1, 0.7, 3000, marks=SLOW),
        pytest.param(4, 0.8, 4000, marks=SLOW),
        pytest.param(10, 0.6, 4000, marks=SLOW),
    ],
)
def test_requests_of_one_token_in_continuous_time(c: int, rho: float, n: int) -> None:
    """s = o = 1 and M = 2 c: at most c in a round, which starts as soon as anybody waits."""
    rate, duration = rho * c / 0.5, 0.5
    waits = []
    for seed in range(20):
        times = np.cumsum(np.random.default_rng([c, seed]).exponential(1 / rate, n))
        machine = {"memory_limit": 2 * c, "batch_time": IterationTime(duration)}
        run = online.simulate(Workload(times, [1] * n, [1] * n, **machine), "fcfs")
        waits.append(float((run.start_times - run.arrival_times)[n // 10 :].mean()))
    low, high = interval(waits)
    assert low <= batch_service_queue(rate, duration, c).mean_wait <= high
    assert high - low < 0.2 * high


@SLOW
@pytest.mark.parametrize(("c", "rho"), [(1, 0.7), (3, 0.85)])
def test_requests_of_one_token_in_the_round_model(c: int, rho: float) -> None:
    """Poisson numbers at whole times, rounds at the ticks: E[R] / rate, no wait for a tick."""
    rate, rounds = rho * c, 2000
    waits = []
    for seed in range(20):
        counts = np.random.default_rng([77, seed]).poisson(rate, rounds)
        arrivals = np.repeat(np.arange(rounds), counts)
        ones = [1] * len(arrivals)
        instance = Instance.from_arrays(ones, ones, arrivals, memory_limit=2 * c)
        run = online.simulate(instance, "mc-sf")
        waits.append(float((run.start_times - run.arrival_times)[len(ones) // 10 :].mean()))
    low, high = interval(waits)
    closed = batch_service_queue(rate, 1, c)
    assert low <= closed.mean_wait_at_ticks - 0.5 <= high
    assert closed.mean_wait_at_ticks - 0.5 == pytest.approx(closed.left_behind / rate)


@pytest.mark.parametrize(
    ("n", "lengths", "requests"),
    [
        (4, (1, 1), 600),
        pytest.param(5, (1, 1), 3000, marks=SLOW),
        pytest.param(8, (2, 3), 3000, marks=SLOW),
    ],
)
def test_latency_of_wait_with_one_type(n: int, lengths: tuple[int, int], requests: int) -> None:
    """Iterations of constant length: the queue M/D^[n,n]/1 plus l' n / lambda + DT."""
    prefill, decode = lengths
    footprint = sum(prefill + s for s in range(decode + 1))
    d0, d1 = 0.4, 0.6 / (n * footprint)
    rate = 0.85 * n
    latencies = []
    for seed in range(16):
        times = np.cumsum(np.random.default_rng([n, seed]).exponential(1 / rate, requests))
        machine = {"memory_limit": n * footprint, "batch_time": IterationTime(d0, d1)}
        run = online.simulate(
            Workload(times, [prefill] * requests, [decode] * requests, **machine),
            online.make_policy("wait", thresholds={lengths: n}),
            prefill_rounds=1,
        )
        latencies.append(float(run.latencies[requests // 10 : -10 * n].mean()))
    low, high = interval(latencies)
    assert low <= wait_mean_latency(rate, 1.0, n, decode) <= high
    assert high - low < 0.2 * high

"""Figures of the papers, and optima proved before by other means."""

from __future__ import annotations

import pytest

import hindsight
import online
from instances import Instance, Request, generate


@pytest.mark.parametrize("method", ["auto", "mip"])
def test_example_1_of_w25(method: str) -> None:
    """[W25] Example 1."""
    instance = Instance([Request(0, 63, 1), *[Request(0, 1, 2) for _ in range(21)]], 64)
    assert online.simulate(instance, "mc-sf").total_latency == 64
    result = hindsight.solve(instance, threads=1, method=method)
    assert (result.upper_bound, result.lower_bound) == (45, 45)


def batches(n: int, output: int, per_batch: int) -> int:
    """Total latency when ``per_batch`` requests run at a time, batch after batch."""
    return sum(output * (1 + k // per_batch) for k in range(n))


@pytest.mark.parametrize(
    ("prompt", "output", "n", "limit"),
    [
        (s, o, n, factor * (s + o) + rest)
        for s in (1, 4)
        for o in (1, 3, 5)
        for n in (1, 4, 7)
        for factor, rest in ((2, 0), (2, 1), (3, 2))
    ],
)
def test_identical_requests(prompt: int, output: int, n: int, limit: int) -> None:
    """[J25] Theorem 4.3: at most 4 where M >= 2 (s + o)."""
    instance = Instance([Request(0, prompt, output) for _ in range(n)], limit)
    run = online.simulate(instance, "mc-sf")
    # At least as good as full batches, which is where the theorem starts (Appendix B.3).
    assert run.total_latency <= batches(n, output, limit // (prompt + output))
    result = hindsight.solve(instance, threads=1, time_limit=60)
    ratio = online.ratio(run, result)
    assert ratio.lower is not None
    assert ratio.lower >= 1
    assert run.total_latency <= 4 * result.lower_bound
    if n <= limit // (prompt + output):
        assert run.total_latency == result.upper_bound == n * output


def test_mc_sf_on_arrival_model_1() -> None:
    """Seed n, n requests. [J25] Section 5.1."""
    ten = generate("arrival-model-1", seed=10, n=10)
    fifteen = generate("arrival-model-1", seed=15, n=15)
    assert online.simulate(ten, "mc-sf").total_latency == 398
    assert online.simulate(fifteen, "mc-sf").total_latency == 1336


def test_ten_requests_of_arrival_model_1_are_proved() -> None:
    result = hindsight.solve(generate("arrival-model-1", seed=10, n=10))
    assert (result.upper_bound, result.lower_bound, result.status) == (380, 380, "optimal")
    assert result.certified_lower_bound == 380

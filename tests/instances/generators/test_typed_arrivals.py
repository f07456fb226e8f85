"""Poisson arrivals: their law, their order, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from instances.generators.typed_arrivals import poisson_arrivals

TYPES = [(3.0, 10, 4), (1.0, 20, 8)]


def drawn(seed: int, horizon: float = 500.0) -> Any:
    return poisson_arrivals(TYPES, horizon, memory_limit=99, rng=np.random.default_rng(seed))


def test_numbers_gaps_and_shares() -> None:
    counts = [len(drawn(seed, 10.0)) for seed in range(400)]
    # Mean and variance of a Poisson count with mean 40, five standard errors.
    assert abs(np.mean(counts) - 40) < 5 * (40 / 400) ** 0.5
    assert abs(np.var(counts) - 40) < 5 * 40 * (2 / 400) ** 0.5
    source = drawn(1, 2000.0)
    gaps = np.diff(source.arrival_times)
    assert stats.kstest(gaps, "expon", args=(0, 1 / 4)).pvalue > 1e-3
    share = np.mean(source.prompt_lengths == 10)
    assert abs(share - 0.75) < 5 * (0.75 * 0.25 / len(source)) ** 0.5
    lengths = zip(source.prompt_lengths.tolist(), source.output_lengths.tolist(), strict=True)
    assert set(lengths) == {(10, 4), (20, 8)}


def test_the_seed_decides() -> None:
    assert drawn(3).arrival_times.tolist() == drawn(3).arrival_times.tolist()
    assert drawn(3).arrival_times.tolist() != drawn(4).arrival_times.tolist()

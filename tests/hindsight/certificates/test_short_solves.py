"""Certificates of solves that had no time for prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hindsight
from instances import Instance, MemoryRule

RULES = (MemoryRule(), MemoryRule(block_size=2), MemoryRule(3, emitted_token="next"))


def check(instance: Instance, path: Path, **options: Any) -> None:
    result = hindsight.solve(instance, 0.0, threads=1, progress=False, **options)
    verdict = hindsight.write_certificate(result, path)
    least = int((instance.weights * instance.output_lengths).sum())
    assert least <= verdict.lower_bound <= result.upper_bound
    document = hindsight.read_certificate(path)
    assert hindsight.check_certificate(document).lower_bound == verdict.lower_bound


def test_weights_that_memory_prices_do_not_bound(tmp_path: Path) -> None:
    rows = [3, 1], [1, 3], [2, 0]
    check(Instance.from_arrays(*rows, memory_limit=4, weights=[50, 1]), tmp_path / "proof.json")


@pytest.mark.parametrize("seed", range(24))
def test_each_short_solve_has_a_certificate(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    s, o = rng.integers(1, 6, n), rng.integers(1, 7, n)
    a = rng.choice([0, 0, 5, 400], n)
    # Preemption counts all requests alike.
    preemptive = seed % 6 == 5
    weights = rng.choice([1, 2, 50, 10**6], n) if not preemptive else np.ones(n, dtype=np.int64)
    instance = Instance.from_arrays(s, o, a, memory_limit=18, weights=weights)
    rule, replicas = RULES[seed % 3], 1 + seed // 3 % 3
    check(instance.under(rule).with_replicas(replicas), tmp_path / "c", preemptive=preemptive)

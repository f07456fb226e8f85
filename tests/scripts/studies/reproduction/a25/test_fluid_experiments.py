"""What [A25] claims of gaps, stability and memory, in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from studies.reproduction.a25.fluid_experiments import (
    THREE_LENGTHS,
    THREE_LENGTHS_PLAN,
    fit_exponent,
    gap_cases,
    latency_under_load,
    nested_memory_use,
    throughput_gaps,
)

CASES = {case.label: case for case in gap_cases()}


def test_the_fit_finds_an_exponent_and_covers_it() -> None:
    horizons = [100, 200, 400, 800]
    rng = np.random.default_rng(1)
    gaps = 5 * np.array(horizons) ** -0.5 * rng.gamma(4, 1 / 4, (200, 4))
    found = fit_exponent(horizons, gaps)
    assert found.low < -0.5 < found.high
    assert found.low < found.value < found.high
    exact = fit_exponent(horizons, np.tile(7.0 / np.array(horizons), (3, 1)))
    assert (exact.value, exact.low, exact.high) == pytest.approx((-1, -1, -1))


def test_gaps_shrink_with_the_horizon_but_not_for_fcfs() -> None:
    """[A25] Section 4.3."""
    for label, factor in (("wait, strict", 0.5), ("nested-wait, strict", 0.5)):
        case = CASES[label]
        gaps = throughput_gaps(
            case.types, case.policy, case.time, case.memory_limit, [50, 200], range(3)
        )
        assert gaps.min() >= 0
        assert gaps[:, 1].mean() < factor * gaps[:, 0].mean()
    case = CASES["fcfs-greedy, C = M*"]
    gaps = throughput_gaps(case.types, case.policy, case.time, case.memory_limit, [800], range(2))
    # Example 2: a quarter of the throughput of 4 is lost.
    assert gaps.mean() == pytest.approx(1, abs=0.2)


def test_proposition_1_on_both_sides() -> None:
    """[A25] Proposition 1: below, latency does not depend on T; above, it grows with it."""
    stable = {r.policy: r.mean_latency for r in latency_under_load(0.5, [100], range(3))}
    later = {r.policy: r.mean_latency for r in latency_under_load(0.5, [200], range(3))}
    assert stable["wait"] == pytest.approx(later["wait"], rel=0.1)
    assert stable["fcfs-greedy"] == pytest.approx(later["fcfs-greedy"], rel=0.2)
    rows = latency_under_load(1.3, [100, 200], range(3))
    for policy in ("wait", "fcfs-greedy"):
        first, second = (r.mean_latency for r in rows if r.policy == policy)
        # Served are at most mu = 1 / (S (d1 + d0 / C)) a second: at least T (lambda / mu - 1) / 2.
        assert first > 100 * (rows[0].memory_load - 1) / 2 * 0.7
        assert second > 1.6 * first


def test_requirement_and_its_absence_in_a_few_runs() -> None:
    plan = THREE_LENGTHS_PLAN
    need = math.ceil(plan.memory_requirement(100, 0.01).total)
    with_buffer = nested_memory_use(THREE_LENGTHS, plan, need, 100, range(10))
    assert all(use.evictions == 0 for use in with_buffer)
    without = nested_memory_use(THREE_LENGTHS, plan, int(plan.batch_memory), 100, range(10))
    assert sum(use.evictions > 0 for use in without) >= 3
    assert all(use.peak_memory <= plan.batch_memory for use in without)

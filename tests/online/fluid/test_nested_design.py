"""Memory requirement of Nested WAIT: golden values, definitions stage by stage, tail bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from online.fluid.balance import PromptType, equilibrium
from online.fluid.nested_design import NestedPlan, Segments, decay_rate, group, nested_thresholds

TYPES = [PromptType(3, 10, 4), PromptType(2, 10, 8), PromptType(1, 10, 16)]
PLAN = NestedPlan(group(TYPES), (12, 7, 3), 1.0, 0.0005)


def test_worked_example() -> None:
    """[A25] Equations (13), (14), (17)."""
    assert PLAN.workload.entering_rates == (6, 3, 1)
    assert PLAN.workload.continuation == pytest.approx((1 / 2, 1 / 3))
    assert equilibrium(TYPES, 1.0, 0.0005).memory == pytest.approx(1169.57, abs=0.01)
    assert PLAN.batch_memory == 1722
    assert PLAN.batch_duration == pytest.approx(1.861)
    assert PLAN.drifts == pytest.approx((12 - 6 * 1.861, 1, 2 / 3))
    assert PLAN.keeps_up
    assert PLAN.thetas == pytest.approx((0.679, 0.803), abs=5e-4)
    need = PLAN.memory_requirement(1000, 0.01)
    assert need.boundary == 7 * 14 + 3 * 18
    assert math.ceil(need.boundary + need.buffer) == 695
    assert math.ceil(need.total) == 2417


def test_the_printed_bound_on_theta_is_above_theta() -> None:
    """[A25] Theorems 2 and 4 divide by n_k instead of n_{k-1}."""
    for theta, drift, n in zip(PLAN.thetas, PLAN.drifts[1:], PLAN.thresholds[1:], strict=True):
        assert 8 * drift / n > theta


@given(previous=st.integers(2, 60), share=st.floats(0.01, 0.99), data=st.data())
def test_theta_solves_its_equation_and_respects_its_bound(
    previous: int, share: float, data: st.DataObject
) -> None:
    """[A25] Equations (20), (22)."""
    least = math.floor(previous * share) + 1
    assume(least < previous)
    n = data.draw(st.integers(least, previous - 1))
    assume(n - previous * share > 1e-3)
    theta = decay_rate(n, previous, share)
    # [A25] Appendix C.4's exponential martingale by its definition, through the binomial law.
    k = np.arange(previous + 1)
    log_mass = np.array(
        [
            math.lgamma(previous + 1) - math.lgamma(i + 1) - math.lgamma(previous - i + 1)
            for i in range(previous + 1)
        ]
    )
    log_mass += k * math.log(share) + (previous - k) * math.log1p(-share)
    exponents = log_mass + theta * (k - n)
    assert np.logaddexp.reduce(exponents) == pytest.approx(0, abs=1e-6)
    assert theta >= 8 * (n - previous * share) / previous * (1 - 1e-8)


def test_theta_at_the_edges() -> None:
    assert decay_rate(6, 12, 0.5) == 0
    assert decay_rate(12, 12, 0.5) == math.inf
    assert decay_rate(8, 7, 1.0) == math.inf
    for n, previous in ((500_001, 1_000_000), (50_001, 100_000)):
        # To first order: twice the drift over the variance of the binomial.
        drift = n - previous / 2
        assert decay_rate(n, previous, 0.5) == pytest.approx(8 * drift / previous, rel=1e-2)
    assert (
        NestedPlan(group(TYPES), (12, 6, 2), 1.0, 0.0005).memory_requirement(1000, 0.01).total
        == math.inf
    )


@given(
    ends=st.lists(st.integers(1, 40), min_size=1, max_size=5, unique=True).map(sorted),
    prefill=st.integers(1, 20),
    data=st.data(),
)
def test_batch_memory_stage_by_stage(ends: list[int], prefill: int, data: st.DataObject) -> None:
    """[A25] Equation (13)."""
    size = len(ends)
    counts = data.draw(st.lists(st.integers(1, 9), min_size=size, max_size=size))
    plan = NestedPlan(Segments(prefill, tuple(ends), (1.0,) * size), tuple(counts), 1.0, 0.0)
    total = 0
    for stage in range(ends[-1] + 1):
        segment = next(k for k, end in enumerate(ends) if stage <= end)
        total += counts[segment] * (prefill + stage)
    assert plan.batch_memory == total


@given(count=st.integers(1, 30))
def test_merging_keeps_rates_and_covers_lengths(count: int) -> None:
    """[A25] Section 7.2."""
    types = [PromptType(1 + j % 3, 5, 1 + j) for j in range(30)]
    segments = group(types, count)
    assert len(segments) == count
    assert segments.ends[-1] == 30
    assert sum(segments.arrival_rates) == pytest.approx(sum(k.arrival_rate for k in types))
    for k, end in enumerate(segments.ends):
        longer = sum(kind.arrival_rate for kind in types if kind.decode_length > end)
        later = segments.entering_rates[k + 1] if k + 1 < count else 0
        assert later == pytest.approx(longer)


def test_each_length_has_a_segment() -> None:
    """[A25] Section 5.1."""
    assert group(TYPES).ends == (4, 8, 16)


@given(
    rates=st.lists(st.floats(0.1, 9), min_size=1, max_size=5),
    # Above, some of these workloads are overloaded with their margins, and refused.
    d1=st.floats(0, 5e-5),
    margin=st.sampled_from([0.02, 0.05, 0.2]),
)
def test_designed_thresholds_satisfy_12(rates: list[float], d1: float, margin: float) -> None:
    """[A25] Equations (12), (16)."""
    segments = Segments(10, tuple(range(3, 3 + 4 * len(rates), 4)), tuple(rates))
    plan = nested_thresholds(segments, 1.0, d1, margin=margin)
    memory = plan.batch_memory
    assert plan.thresholds[0] > segments.entering_rates[0] * (1.0 + d1 * memory)
    for k in range(1, len(segments)):
        share = segments.entering_rates[k] / segments.entering_rates[k - 1]
        assert plan.thresholds[k] > share * plan.thresholds[k - 1]
    assert plan.keeps_up


def test_thresholds_of_the_real_data_have_no_drift() -> None:
    """[A25] Section 6.2: 66:43:32:.. is as Lam_k, so (12) fails and the buffer is infinite."""
    shares = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)
    segments = Segments(60, tuple(range(50, 501, 50)), shares)
    printed = NestedPlan(segments, (66, 43, 32, 24, 17, 11, 7, 4, 2, 1), 1.0, 1e-9)
    assert printed.drifts[1:] == pytest.approx([0] * 9, abs=1e-12)
    assert not printed.keeps_up
    assert printed.memory_requirement(100, 0.1).total == math.inf
    ours = nested_thresholds(segments, 1.0, 1e-9)
    assert ours.keeps_up
    assert ours.memory_requirement(100, 0.1).total < math.inf


def test_a_batch_cap_is_used_up_but_for_one() -> None:
    segments = group(TYPES)
    for cap in (30, 128, 500):
        plan = nested_thresholds(segments, 1.0, 0.0005, batch_cap=cap)
        sizes = [n * d for n, d in zip(plan.thresholds, (5, 4, 8), strict=True)]
        assert sum(sizes) <= cap
        assert sum(sizes) + 5 + 4 + 8 + 17 > cap

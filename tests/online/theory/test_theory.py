"""The closed forms: golden values, other ways to compute them, and simulations they must bound."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
from brute_force import optimal_total_latency
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances
from tiny_fleets import tiny_fleet
from tiny_problems import least_total_latency

import online
from instances import Instance
from online.theory import interval_ratios, paper_bounds
from online.theory.rayleigh import rayleigh_maximum

ALPHAS = [Fraction(k, 20) for k in range(1, 21)]


def lemma_4_6(x: list[Fraction], s: int, ell: int) -> Fraction:
    """The formula as printed, sums inside sums."""
    u = ell + len(x) - 1
    share = {ell + j: x[j] for j in range(len(x))}

    def delta(k: int) -> int:
        return s + ell if k == ell else 1

    top = bottom = Fraction(0)
    for k in range(ell, u + 1):
        tokens = sum((i * share[i] for i in range(k, u + 1)), Fraction(0))
        done = sum((Fraction(delta(k), s + i) * share[i] for i in range(k, u + 1)), Fraction(0))
        left = sum((Fraction(i - k, s + i) * share[i] for i in range(k + 1, u + 1)), Fraction(0))
        top += delta(k) * tokens * (done + 2 * left)
        later = sum((share[i] for i in range(k + 1, u + 1)), Fraction(0))
        bottom += k * (s + k) * share[k] * (share[k] + 2 * later)
    return top / bottom


shares = st.lists(st.integers(0, 9), min_size=1, max_size=7).filter(any)


@given(shares, st.integers(0, 5), st.integers(1, 4))
def test_lemma_4_6_as_printed(x: list[int], s: int, ell: int) -> None:
    """[C25] Lemma 4.6."""
    exact = [Fraction(share, sum(x)) for share in x]
    expected = lemma_4_6(exact, s, ell)
    assert interval_ratios.a_min_ratio(exact, s, ell) == expected
    assert interval_ratios.a_min_ratio([float(share) for share in x], s, ell) == pytest.approx(
        float(expected), rel=1e-9
    )


@pytest.mark.parametrize(("u", "value"), [(1, 1.0), (2, 1.25), (10, 1.7249), (100, 2.3333)])
def test_the_maximum_of_the_quotient(u: int, value: float) -> None:
    """[C25] Corollary 4.8."""
    assert rayleigh_maximum(u) == pytest.approx(value, abs=5e-5)


@pytest.mark.parametrize("u", [2, 5, 20, 100])
def test_the_quotient_has_its_maximum_at_shares(u: int) -> None:
    """[C25] Corollary 4.8, with the matrices as printed; the eigenvector has no negative entry."""
    i = np.arange(1, u + 1)
    least = np.minimum.outer(i, i) ** 2
    a = least / np.outer(i, i) * (np.add.outer(i, i) ** 2 / 2 - least)
    values, vectors = scipy.linalg.eigh(a, least)
    assert rayleigh_maximum(u) == pytest.approx(values[-1])
    worst = vectors[:, -1] / vectors[:, -1].sum()
    assert (worst >= 0).all()
    assert interval_ratios.a_min_ratio(worst.tolist(), 0, 1) == pytest.approx(values[-1])
    for x in np.random.default_rng(u).dirichlet(np.full(u, 0.3), 2000 // u):
        quotient = (x @ a @ x) / (x @ least @ x)
        assert interval_ratios.a_min_ratio(x.tolist(), 0, 1) == pytest.approx(quotient)
    # The trace bounds it: the harmonic number of u.
    assert rayleigh_maximum(u) <= sum(1 / i)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_theorem_5_1_is_the_maximum_of_the_lemma(alpha: Fraction) -> None:
    """[C25] Theorem 5.1."""
    lower, upper = alpha.numerator, alpha.denominator
    if lower == upper:
        assert interval_ratios.a_min_two_point_ratio_bound(alpha) == 1
        return
    gap = [Fraction(0)] * (upper - lower - 1)
    bound = interval_ratios.a_min_two_point_ratio_bound(alpha)
    ratios = [
        interval_ratios.a_min_ratio([t, *gap, Fraction(1)], 0, lower)
        for t in (Fraction(k, 8) / alpha for k in range(1, 25))
    ]
    assert max(ratios) == bound == ratios[7]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_theorem_5_2_is_the_maximum_of_its_proof(alpha: Fraction) -> None:
    """[C25] Theorem 5.2."""

    def ratio(t: Fraction) -> Fraction:
        return 1 + alpha**2 * (t + 2) / (alpha**2 * t**2 + 2 * alpha**2 * t + 1)

    bound = interval_ratios.a_ell_ratio_bound(alpha)
    assert ratio(max(Fraction(0), 1 / alpha - 2)) == bound
    assert all(ratio(Fraction(k, 7)) <= bound for k in range(200))


def test_the_switch_point() -> None:
    """[C25] Section 5.1."""
    alpha = (3 - math.sqrt(5)) / 2
    assert interval_ratios.a_ell_ratio_bound(alpha) == pytest.approx(
        interval_ratios.a_min_two_point_ratio_bound(alpha)
    )
    assert interval_ratios.a_ell_ratio_bound(alpha) == pytest.approx((3 + math.sqrt(5)) / 4)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_theorem_5_3_is_the_lemma(q: float) -> None:
    """[C25] Theorem 5.3."""
    x = [k * q ** (k - 1) for k in range(1, 600)]
    assert interval_ratios.a_min_linear_geometric_ratio(q) == pytest.approx(
        interval_ratios.a_min_ratio(x, 0, 1)
    )


def test_theorem_5_3_at_its_ends() -> None:
    assert interval_ratios.a_min_linear_geometric_ratio(Fraction(0)) == 1
    assert interval_ratios.a_min_linear_geometric_ratio(Fraction(1)) == Fraction(14, 9)


def test_the_geometric_limit() -> None:
    q = 0.999
    ratio = interval_ratios.a_min_ratio([q ** (k - 1) for k in range(1, 20_000)], 0, 1)
    assert ratio == pytest.approx(1.6822, abs=1e-4)


def test_theorems_3_3_3_4_and_8_6() -> None:
    """[C25] Theorems 3.3, 3.4, 8.6."""
    assert interval_ratios.a_max_ratio_upper_bound(Fraction(1, 4)) == 10
    assert interval_ratios.a_max_ratio_lower_bound(0.25) == 6
    assert interval_ratios.a_random_ratio_bound(Fraction(1, 4)) == Fraction(5, 2)
    assert (
        interval_ratios.a_max_ratio_upper_bound(1.0)
        == interval_ratios.a_max_ratio_lower_bound(1.0)
        == 1
    )


@pytest.mark.parametrize("alpha", ALPHAS)
def test_theorem_3_4_claims_more_than_its_proof(alpha: Fraction) -> None:
    lower, upper = alpha.numerator, alpha.denominator
    for a, b in ((1, 1), (1, 3), (5, 2), (12, 5)):
        # The proof's expression, as printed.
        printed = Fraction(
            upper * (a * upper + b * lower) * (a + b),
            lower * (upper * a * a + lower * 2 * a * b + upper * b * b),
        )
        assert interval_ratios.a_max_two_point_ratio(alpha, Fraction(a, b)) == printed
    at = 1 + math.sqrt(2 + 2 * alpha)
    worst = interval_ratios.a_max_two_point_ratio(float(alpha), at)
    tried = [interval_ratios.a_max_two_point_ratio(float(alpha), k / 50) for k in range(1, 500)]
    assert max(tried) - 1e-12 <= worst < max(tried) + 1e-3
    assert worst <= 1.2072 / float(alpha)
    assert worst <= interval_ratios.a_max_ratio_upper_bound(float(alpha)) + 1e-12
    if alpha < Fraction(3, 4):
        assert worst < interval_ratios.a_max_ratio_lower_bound(float(alpha))


@given(instances(max_requests=5, max_memory=9, max_arrival=4))
@settings(max_examples=examples(200))
def test_the_volume_bound(instance: Instance) -> None:
    """[J25] Equation (9)."""
    assert paper_bounds.volume_bound(instance) <= optimal_total_latency(instance)[0]


@pytest.mark.parametrize("seed", range(30))
def test_the_volume_bound_of_fleets_and_memory_rules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = tiny_fleet(rng, 4, replicas=1 + seed % 3)
    fleet = drawn.replaced(requests=[replace(one, weight=1) for one in drawn])
    assert paper_bounds.volume_bound(fleet) <= least_total_latency(fleet)


@given(st.integers(1, 3), st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 10))
@settings(max_examples=examples(200))
def test_lemmas_4_4_and_4_7(prompt: int, outputs: list[int], room: int) -> None:
    """[J25] Lemmas 4.4, 4.7."""
    limit = 2 * (prompt + max(outputs)) + room
    instance = Instance.from_arrays([prompt] * len(outputs), outputs, memory_limit=limit)
    optimum = optimal_total_latency(instance)[0]
    policy = online.simulate(instance, "mc-sf").total_latency
    assert paper_bounds.optimum_lower_bound(instance) <= optimum <= policy
    assert policy <= paper_bounds.mc_sf_upper_bound(instance)
    nested = sum(
        outputs.count(o) * outputs.count(p) * (prompt * p + p * (p + 1) // 2)
        for o in set(outputs)
        for p in set(outputs)
        if p <= o
    )
    assert paper_bounds.optimum_lower_bound(instance) == Fraction(nested, 6 * limit) + Fraction(
        sum(outputs), 6
    )


@given(st.integers(0, 8), st.integers(1, 8), st.integers(1, 60), st.integers(0, 60))
@settings(max_examples=examples(300))
def test_the_dual_pair_is_feasible_and_falls_to_0(s: int, o: int, n: int, room: int) -> None:
    """[J25] Equations (25)-(27), Appendix B.3."""
    price, memory = paper_bounds.equal_requests_dual(s, o, n, s + o + room)
    assert all(value > 0 for value in memory)
    # (26): a price less 2 / ((2s + o + 1) o) is that of the next round, or not above 0.
    step = Fraction(2, (2 * s + o + 1) * o)
    assert [one - other for one, other in pairwise(memory)] == [step] * max(0, len(memory) - 1)
    assert not memory or memory[-1] <= step
    # (23) as printed, over every start up to one with nothing left to pay.
    charged = dict(enumerate(memory, 1))
    for t in range(len(memory) + 2):
        paid = sum((s + r - t) * charged.get(r, Fraction(0)) for r in range(t + 1, t + o + 1))
        assert price - paid <= t


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.integers(0, 12))
@settings(max_examples=examples(100))
def test_the_dual_pair_bounds_the_optimum(s: int, o: int, n: int, room: int) -> None:
    instance = Instance.from_arrays([s] * n, [o] * n, memory_limit=s + o + room)
    price, memory = paper_bounds.equal_requests_dual(s, o, n, s + o + room)
    objective = n * (o + price) - instance.memory_limit * sum(memory, Fraction(0))
    assert 0 <= objective <= optimal_total_latency(instance)[0]

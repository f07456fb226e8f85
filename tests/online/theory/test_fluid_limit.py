"""The limit of M as a fluid: by hand, against [C25] Lemma 4.6, and against simulations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import online
from instances import generate
from online import IntervalPredictions
from online.theory.fluid_limit import Rule, fluid_latency
from online.theory.interval_ratios import (
    a_ell_ratio_bound,
    a_ell_two_point_ratio,
    a_max_two_point_ratio,
    a_min_ratio,
    h_sf_latency,
)


def two_points(lower: int, upper: int, shorts: float | None = None) -> list[float]:
    share = upper / (lower + upper) if shorts is None else shorts
    return [share, *[0.0] * (upper - lower - 1), 1 - share]


def leading_term(x: list[float], s: int, lower: int, rule: Rule, batches: float) -> float:
    """a where total latency = a batches^2 + b batches, over what H-SF's formula says."""
    once, twice = (fluid_latency(x, s, lower, count, rule) for count in (batches, 2 * batches))
    return (twice - 2 * once) / (batches**2 * h_sf_latency(x, s, lower))


@pytest.mark.parametrize(("s", "k"), [(0, 1), (0, 4), (3, 2)])
def test_equal_lengths_are_batches(s: int, k: int) -> None:
    # Everyone knows everything: J batches of mass 1 / (s + k), the j-th done after k j rounds.
    count = 5 * (s + k)
    by_hand = k / (s + k) * count * (count + 1) / 2
    for rule in ("h-sf", "a-min", "a-min-reserve", "a-ell", "a-max", "a-max-peaks"):
        assert fluid_latency([1.0], s, k, 5, rule) == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("s", "lower", "x", "batches"),
    [
        (0, 1, two_points(1, 5), 30),
        (0, 2, two_points(2, 10), 15),
        (0, 4, two_points(4, 8), 10),
        (3, 2, two_points(2, 7), 10),
        (0, 1, [0.5**k / (1 - 0.5**10) for k in range(1, 11)], 15),
        (0, 1, [k * 0.5 ** (k + 1) for k in range(1, 11)], 15),
    ],
)
def test_the_reserving_a_min_meets_lemma_4_6(
    s: int, lower: int, x: list[float], batches: int
) -> None:
    """[C25] Lemmas 4.4, 4.6."""
    x = [share / sum(x) for share in x]
    leading = leading_term(x, s, lower, "a-min-reserve", batches)
    assert leading == pytest.approx(float(a_min_ratio(x, s, lower)), rel=1e-3)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"), [(1, 5, 1.95), (2, 10, 1.472), (4, 8, 1.241)]
)
def test_algorithm_2_as_written_does_not(lower: int, upper: int, expected: float) -> None:
    """[C25] Algorithm 2, Equation (3)."""
    x = two_points(lower, upper)
    leading = leading_term(x, 0, lower, "a-min", 20)
    assert leading == pytest.approx(expected, abs=0.005)
    assert abs(leading - float(a_min_ratio(x, 0, lower))) > 0.008


def test_h_sf_a_ell_and_whole_peaks_meet_their_expressions() -> None:
    x = two_points(2, 10)
    assert leading_term(x, 0, 2, "h-sf", 36) == pytest.approx(1, abs=1e-3)
    expected = a_ell_two_point_ratio(0.2, 5.0)
    assert leading_term(x, 0, 2, "a-ell", 36) == pytest.approx(expected, rel=5e-3)
    # a u = 2 requests of length 1 for b l = 1 of length 4: a / b = 1/2, [C25] Theorem 3.4 at 1/4.
    trap = two_points(1, 4, shorts=2 / 3)
    assert a_max_two_point_ratio(0.25, 0.5) == 3
    assert leading_term(trap, 0, 1, "a-max-peaks", 40) == pytest.approx(3, rel=5e-3)


def test_theorem_5_2_is_about_empty_prompts() -> None:
    """All outputs upper, l = 3, u = 8: within the bound at s = 0, beyond it with prompts."""
    upper_only = [0.0] * 5 + [1.0]
    bound = a_ell_ratio_bound(3 / 8)
    assert leading_term(upper_only, 0, 3, "a-ell", 16) <= bound + 5e-3
    assert leading_term(upper_only, 10, 3, "a-ell", 16) > 1.5 > bound


@pytest.mark.parametrize(
    ("rule", "policy"),
    [
        ("h-sf", lambda: online.make_policy("h-sf")),
        ("a-min", lambda: online.make_policy("a-min")),
        ("a-min-reserve", lambda: online.make_policy("a-min", overdue="reserve")),
        ("a-ell", lambda: online.make_policy("a-ell")),
        ("a-max", lambda: online.make_policy("a-max")),
        ("a-max-peaks", lambda: online.make_policy("a-max", fit="peaks")),
    ],
)
def test_simulations_come_near(rule: Rule, policy: Callable[[], online.Policy]) -> None:
    memory, batches = 200, 8
    instance = generate(
        "two-point", seed=3, n=batches * memory, lower=1, upper=5, memory_limit=memory
    )
    interval = None if rule == "h-sf" else IntervalPredictions(1, 5)
    # One random order moves the total by a per cent or two.
    totals = [
        online.simulate(instance, policy(), seed=seed, predictions=interval).total_latency
        for seed in range(5)
    ]
    shorts = float((instance.output_lengths == 1).mean())
    fluid = fluid_latency(two_points(1, 5, shorts), 0, 1, batches, rule)
    assert sum(totals) / len(totals) / memory == pytest.approx(fluid, rel=0.02)

"""[C25]: the arithmetic of its reproductions, their rules, and that each runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from online.policy_interface.predictions import IntervalPredictions
from online.theory.interval_ratios import a_min_ratio
from online.theory.rayleigh import rayleigh_maximum
from studies.reproduction import reproduction_names
from studies.reproduction.c25 import (
    geometric_lengths,
    lengths,
    predicted_intervals,
    rayleigh_growth,
    two_lengths,
)
from studies.reproduction.c25.latency_by_prediction import A_MAX, A_MIN, H_SF, Latencies
from studies.reproduction.c25.leading_ratio import leading_ratio
from studies.reproduction.lengths import MomentsOfSample, three_moment_law
from studies.reproduction.verdicts import Statement

NAMES = [name for name in reproduction_names() if name.startswith("c25-")]


def test_every_measured_item_of_the_paper_is_there() -> None:
    numbers = ("1", "2", "3-geometric", "3-weighted", "4", "5", "6", "7")
    assert sorted(NAMES) == [f"c25-figure-{number}" for number in numbers]


def test_the_fit_finds_the_curve_that_made_the_points() -> None:
    u = np.arange(1.0, 60.0)
    fit = rayleigh_growth.fit_logarithm(u, 0.3 * np.log(u + 0.7) + 1.1)
    assert (fit.a, fit.b, fit.c) == pytest.approx((0.3, 0.7, 1.1), abs=1e-5)
    assert (fit.first, fit.last) == (1, 59)
    assert fit.r_squared == pytest.approx(1)
    assert fit.published_r_squared < 0.999


def test_r_squared_by_hand() -> None:
    # Residuals 0, 1, 0 about a spread of 1 + 0 + 1.
    values, fitted = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 3.0])
    assert rayleigh_growth.r_squared(values, fitted) == pytest.approx(0.5)


@pytest.mark.parametrize("u", [1, 2, 5, 30, 100])
def test_the_rank_one_part_bounds_the_maximum(u: int) -> None:
    """[C25] Lemma 4.9."""
    part = rayleigh_growth.rank_one_part(u)
    assert part <= rayleigh_maximum(u) <= part + 1
    i = np.arange(1, u + 1)
    r = np.minimum.outer(i, i) / np.maximum.outer(i, i)
    assert part == pytest.approx(np.linalg.solve(r, np.ones(u)).sum() / 2)


def test_the_rank_one_part_grows_by_a_quarter_of_the_logarithm() -> None:
    """[C25] Theorem 4.3."""
    gain = rayleigh_growth.rank_one_part(40_000) - rayleigh_growth.rank_one_part(20_000)
    assert gain / math.log(2) == pytest.approx(0.25, abs=1e-5)


def fitted(a: float, b: float, c: float, mine: float, theirs: float) -> object:
    return rayleigh_growth.LogarithmicFit(1, 100, a, b, c, mine, theirs)


@pytest.mark.parametrize(("b", "sign"), [(-0.9391, "-"), (0.2793, "+")])
def test_a_fit_is_written_as_the_paper_writes_it(b: float, sign: str) -> None:
    fit = fitted(0.2556, b, 1.1587, 1, 1)
    assert fit.formula == f"0.2556 log(u {sign} {abs(b)}) + 1.1587"  # type: ignore[attr-defined]


def held(statements: Sequence[Statement]) -> list[bool]:
    return [each.holds for each in statements]


@pytest.mark.parametrize(
    ("fits", "holds"),
    [
        ([fitted(0.2555, 0.2793, 1.1587, 0.99999, 0.99999)], [True, True, True, True]),
        ([fitted(0.2555, 0.2793, 1.1587, 0.99999, 0.9998)], [True, True, True, False]),
        ([fitted(0.2555, -0.4, 1.1587, 0.99999, 0.99999)], [True, True, False, True]),
        ([fitted(0.27, 0.2793, 1.1587, 0.99999, 0.99999)], [True, False, False, True]),
        (
            [
                fitted(0.2555, -0.4, 1.1587, 0.99999, 0.9998),
                fitted(0.2555, 0.2793, 1.1587, 0.9998, 0.99999),
            ],
            [False, True, True, True],
        ),
    ],
)
def test_the_statements_of_figure_1(fits: Sequence[object], holds: list[bool]) -> None:
    """[C25] Figure 1, Section 4.1."""
    assert held(rayleigh_growth.statements(fits)) == holds  # type: ignore[arg-type]


def test_where_the_two_bounds_meet() -> None:
    """[C25] Section 5.1."""
    assert two_lengths.crossing() == pytest.approx((3 - math.sqrt(5)) / 2, abs=1e-12)


@pytest.mark.parametrize("rule", ["a-min-reserve", "a-ell"])
@pytest.mark.parametrize(("lower", "upper"), [(1, 4), (2, 3)])
def test_the_worst_shares_attain_the_bound(rule: str, lower: int, upper: int) -> None:
    point = two_lengths.worst_share((rule, lower, upper))  # type: ignore[arg-type]
    assert point.ratio == pytest.approx(point.bound, rel=2e-3)
    assert point.keeps_bound


def attained(rule: str, ratio: float) -> two_lengths.WorstShare:
    return two_lengths.WorstShare(rule, 1, 4, ratio, 1.5)  # type: ignore[arg-type]


def test_the_statements_of_figure_2() -> None:
    """[C25] Figure 2, Section 5.1."""
    kept = [attained("a-min", 1.51), attained("a-ell", 1.2), attained("a-min-reserve", 9.0)]
    assert held(two_lengths.statements(0.3820, True, kept)) == [True] * 4
    above = [*kept, attained("a-min", 1.52)]
    assert held(two_lengths.statements(0.3820, True, above)) == [True, True, True, False]
    assert held(two_lengths.statements(0.3830, False, kept)) == [False, False, True, True]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("q", [0.1, 0.6])
def test_the_laws_are_cut_where_little_is_left(q: float, weighted: bool) -> None:
    law = geometric_lengths.shares(q, 1e-3, weighted=weighted)
    k = np.arange(1, 400)
    whole = (1 - q) * q ** (k - 1) * ((1 - q) * k if weighted else 1)
    assert whole[len(law) :].sum() <= 1e-3 < whole[len(law) - 1 :].sum()
    assert law == pytest.approx(whole[: len(law)] / whole[: len(law)].sum())


def test_the_ratio_as_q_tends_to_1() -> None:
    assert geometric_lengths.limit_ratio(weighted=True) == pytest.approx(14 / 9)
    limit = geometric_lengths.limit_ratio(weighted=False)
    near = [
        float(a_min_ratio(geometric_lengths.shares(q, 1e-12, weighted=False).tolist(), 0, 1))
        for q in (0.98, 0.99)
    ]
    # The distance falls with (1 - q)^2 log(1 - q) at least, so it more than halves.
    assert 0 < limit - near[1] < (limit - near[0]) / 2 < 1e-3


def test_the_leading_ratio_of_equal_lengths_is_one() -> None:
    assert leading_ratio([0.0, 1.0], 1, "a-min") == pytest.approx(1)


@pytest.mark.parametrize(
    ("curve", "written", "holds"),
    [
        ([1.1, 1.6], [1.2, 1.71], [True, True, True, True]),
        ([1.1, 1.6], [1.2, 1.72], [True, True, True, False]),
        ([1.1, 1.6], [1.3, 1.2], [True, True, False, True]),
        ([1.6, 1.1], [1.2, 1.3], [False, True, True, True]),
        ([1.1, 1.701], [1.2, 1.3], [True, False, True, True]),
    ],
)
def test_the_statements_of_figure_3(
    curve: Sequence[float], written: Sequence[float], holds: list[bool]
) -> None:
    """[C25] Figure 3."""
    assert held(geometric_lengths.statements(curve, written, 1.7)) == holds


@pytest.mark.parametrize("published", [lengths.SAMPLED_PROMPTS, lengths.SAMPLED_OUTPUTS])
def test_the_second_law_has_the_published_moments(published: MomentsOfSample) -> None:
    law = three_moment_law(published)
    k = np.arange(1, published.largest + 1)
    mean = float((law * k).sum())
    assert len(law) == published.largest
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1)
    assert mean == pytest.approx(published.mean, rel=1e-5)
    assert float((law * k**2).sum()) - mean**2 == pytest.approx(published.variance, rel=1e-4)
    assert 1 + int(np.searchsorted(law.cumsum(), 0.5)) == published.median


def test_a_sample_described_by_hand() -> None:
    found = lengths.described(np.array([1, 2, 3, 10]))
    assert found == MomentsOfSample(1, 10, 4.0, 2.5, pytest.approx(50 / 3))  # type: ignore[arg-type]
    published = MomentsOfSample(1, 8, 5, 2.5, 10)
    departed = lengths.departures([found, found], published)
    assert departed == pytest.approx(
        {"smallest": 0, "largest": 0.25, "mean": -0.2, "median": 0, "variance": 2 / 3}
    )


def test_of_fitted_lengths_the_variance_alone_counts() -> None:
    """[C25] Figure 4, Section 6."""
    exact = dict.fromkeys(lengths.SAMPLED_PROMPTS.figures, 0.0)
    off = {**exact, "variance": 0.11}
    fitted = set(exact) - {"variance"}
    drawn = lengths.statements(exact, off, fitted)
    assert [each.holds for each in drawn if each.counts] == [True, False]
    # A median that is off does not agree, whatever was put into the law.
    wrong = lengths.statements(exact, {**exact, "median": -0.11}, fitted)
    assert [each.holds for each in wrong if each.counts] == [True, False, True]
    known = lengths.statements(exact, off, ())
    assert [each.counts for each in known] == [True] * 10


def made(least: Sequence[float], most: Sequence[float]) -> Latencies:
    """Two seeds whose H-SF takes 2 and 4 seconds, the others the ratios given at each size."""
    base = np.array([[2.0, 4.0]] * len(least))
    seconds = {
        H_SF: base,
        A_MIN: base * np.array(least)[:, None],
        A_MAX: base * np.array(most)[:, None],
    }
    sizes = tuple(range(1, len(least) + 1))
    return Latencies(IntervalPredictions(1, 9), sizes, seconds, {}, {}, [])


def test_ratios_are_taken_seed_by_seed() -> None:
    found = made([1.0, 1.5], [2.0, 3.0])
    found.seconds[A_MIN][1] = [2.0, 8.0]
    assert found.ratios(A_MIN) == pytest.approx([1.0, 1.5])


@pytest.mark.parametrize(
    ("least", "most", "holds"),
    [
        ([1.0, 1.1], [2.0, 3.0], [True, True, True]),
        ([1.0, 1.11], [2.0, 3.0], [False, True, True]),
        ([1.0, 2.1], [2.0, 3.0], [False, False, True]),
        ([1.0, 1.05], [2.0, 1.04], [True, False, False]),
    ],
)
def test_the_statements_of_figure_5(
    least: Sequence[float], most: Sequence[float], holds: list[bool]
) -> None:
    """[C25] Figure 5."""
    assert held(predicted_intervals.statements_5(made(least, most))) == holds


def test_the_statements_of_figure_6() -> None:
    """[C25] Figure 6."""
    rough = made([1.0, 1.5], [2.0, 4.0])
    for least, most, holds in (
        ([1.0, 1.1], [1.0, 2.0], [True, True, True]),
        ([1.0, 1.4], [1.0, 2.5], [False, False, True]),
        ([1.1, 1.1], [1.0, 1.5], [False, True, False]),
    ):
        assert held(predicted_intervals.statements_6(rough, made(least, most))) == holds


def test_the_statements_of_figure_7() -> None:
    """[C25] Figure 7."""
    narrow, wide = made([1.0, 1.0], [1.0, 1.1]), made([1.0, 1.1], [1.0, 1.25])
    statements = predicted_intervals.statements_7
    assert held(statements([narrow, wide, wide])) == [True, True, True]
    assert held(statements([wide, wide, narrow])) == [False, False, True]
    worse = made([1.0, 1.2], [1.0, 1.3])
    assert held(statements([narrow, wide, worse])) == [True, True, False]

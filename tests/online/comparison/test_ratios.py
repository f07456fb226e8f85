"""Ratios are intervals; they collapse only on proof, and are printed rounded outwards."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hindsight
import online
from instances import Instance, Request
from online import Ratio
from online.comparison import Interval
from online.trials.intervals import rounded, rounded_down, rounded_up, waiting_of_optimum


@dataclass
class Bounds:
    problem: Instance
    upper_bound: int | None
    lower_bound: int | None


INSTANCE = Instance(
    [Request(0, 63, 1), *[Request(0, 1, 2) for _ in range(21)]], 64, name="W25 Example 1"
)


def test_example_1_of_w25() -> None:
    run = online.simulate(INSTANCE, "mc-sf")
    result = hindsight.solve(INSTANCE, threads=1)
    assert run.total_latency == 64
    assert (result.upper_bound, result.lower_bound, result.status) == (45, 45, "optimal")
    ratio = online.ratio(run, result)
    assert ratio.is_exact
    assert ratio.exact == Fraction(64, 45)
    assert ratio.lower == ratio.upper == 64 / 45
    assert str(ratio) == "1.4222"
    # Of the 64 and the 45 rounds 43 are output lengths.
    assert ratio.waiting_ratio == Interval(Fraction(21, 2), Fraction(21, 2))


def test_an_open_interval_and_missing_bounds() -> None:
    run = online.simulate(INSTANCE, "mc-sf")
    ratio = online.ratio(run, Bounds(INSTANCE, 50, 40))
    assert (ratio.lower, ratio.upper, ratio.is_exact, ratio.exact) == (1.28, 1.6, False, None)
    ratio = online.ratio(run, Bounds(INSTANCE, 50, None))
    assert (ratio.lower, ratio.upper, ratio.is_exact) == (1.28, None, False)
    ratio = online.ratio(run, Bounds(INSTANCE, None, None))
    assert (ratio.lower, ratio.upper, ratio.is_exact) == (None, None, False)
    assert str(ratio) == "[?, ?]"


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        ("4/3", "5/3", "[1.3333, 1.6667]"),
        ("5/3", "16/9", "[1.6666, 1.7778]"),
        ("1", "20001/20000", "[1.0000, 1.0001]"),
        ("64/45", "64/45", "1.4222"),
    ],
)
def test_intervals_are_rounded_outwards(lower: str, upper: str, text: str) -> None:
    interval = Interval(Fraction(lower), Fraction(upper))
    assert str(interval) == text
    assert str(Interval(None, None)) == "[?, ?]"
    assert Interval(Fraction(5, 3), Fraction(16, 9)).text(2) == "[1.66, 1.78]"


@pytest.mark.parametrize(
    ("total", "most", "least", "text", "exact"),
    [
        # 5/3 is below 1.6667, and 5/2 is what it is.
        (5, 3, 2, "[1.6666, 2.5000]", None),
        (5, 3, None, "[1.6666, ?]", None),
        (5, 3, 3, "1.6667", Fraction(5, 3)),
        # A lower bound of nothing gives no upper end, and one of 1 does.
        (5, 4, 0, "[1.2500, ?]", None),
        (5, 4, -1, "[1.2500, ?]", None),
        (5, 4, 1, "[1.2500, 5.0000]", None),
        (1, 1, 1, "1.0000", Fraction(1)),
        (5, 0, 0, "[?, ?]", None),
    ],
)
def test_bounds_make_an_interval(
    total: int, most: int, least: int | None, text: str, exact: Fraction | None
) -> None:
    ratio = Ratio(total, most, least)
    assert (str(ratio), ratio.exact) == (text, exact)
    assert (ratio.upper is None) == (least is None or least < 1)


def test_ratios_of_what_output_lengths_do_not_explain() -> None:
    assert Ratio(12, 10, 9, total_output_length=7).waiting_ratio == Interval(
        Fraction(5, 3), Fraction(5, 2)
    )
    assert Ratio(7, 10, 9, total_output_length=7).waiting_ratio == Interval(
        Fraction(0), Fraction(0)
    )
    assert Ratio(12, None, 9, total_output_length=7).waiting_ratio == Interval(None, Fraction(5, 2))
    assert Ratio(12, 10, 9).waiting_ratio is None


@pytest.mark.parametrize("lower", [7, 6, 0, None])
def test_there_is_none_where_the_optimum_may_not_wait(lower: int | None) -> None:
    assert Ratio(12, 10, lower, total_output_length=7).waiting_ratio is None
    # A missing bound is unknown, and no bound below 0 tells more than 0 does.
    known = None if lower is None else Fraction(0)
    assert waiting_of_optimum(lower, 10, 7) == Interval(known, Fraction(3))


@given(st.integers(0, 50), *[st.integers(0, 20)] * 4)
def test_the_interval_holds_the_ratio_of_waitings(
    lengths: int, waiting: int, optimal: int, above: int, below: int
) -> None:
    optimum = lengths + optimal
    ratio = Ratio(
        lengths + waiting, optimum + above, optimum - below, total_output_length=lengths
    ).waiting_ratio
    assert (ratio is None) == (below >= optimal)
    if ratio is not None:
        assert ratio.lower <= Fraction(waiting, optimal) <= ratio.upper


def test_numbers_of_any_size_and_sign() -> None:
    assert rounded_down(Fraction(-1, 3)) == "-0.3334"
    assert rounded_up(Fraction(-1, 3)) == "-0.3333"
    assert rounded(Fraction(-1, 3)) == "-0.3333"
    assert (rounded_down(7.5, 0), rounded_up(7.5, 0)) == ("7", "8")
    assert rounded(Fraction(10**40, 3)) == "3" * 40 + ".3333"
    assert (rounded_up(float("inf")), rounded_down(float("-inf"))) == ("inf", "-inf")
    # The double next to 1.1 lies above it.
    assert (rounded_down(1.1), rounded_up(1.1)) == ("1.1000", "1.1001")


NUMBERS = st.fractions(max_denominator=10**6) | st.floats(allow_nan=False, allow_infinity=False)


@given(NUMBERS, st.integers(0, 6))
def test_what_is_printed_holds(number: Fraction | float, decimals: int) -> None:
    low, near, high = (
        Fraction(shown(number, decimals)) for shown in (rounded_down, rounded, rounded_up)
    )
    assert low <= number <= high
    assert low <= near <= high
    assert high - low <= Fraction(1, 10**decimals)
    assert abs(near - Fraction(number)) <= Fraction(1, 2 * 10**decimals)

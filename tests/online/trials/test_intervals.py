"""Ratios are intervals; they collapse only on proof, and are printed rounded outwards."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hindsight
import online
from instances import Instance, Request, ServiceLevel, Workload
from online import AffineTime, Interval
from online.trials.intervals import rounded, rounded_down, rounded_up


@dataclass
class Bounds:
    problem: Instance | Workload
    upper_bound: int | None
    lower_bound: int | Fraction | None


INSTANCE = Instance(
    [Request(0, 63, 1), *[Request(0, 1, 2) for _ in range(21)]], 64, name="W25 Example 1"
)


def test_example_1_of_w25() -> None:
    run = online.simulate(INSTANCE, "mc-sf")
    result = hindsight.solve(INSTANCE, threads=1)
    assert run.total_latency == 64
    assert (result.upper_bound, result.lower_bound, result.status) == (45, 45, "optimal")
    ratio = online.ratio(run, result)
    assert ratio == Interval(Fraction(64, 45), Fraction(64, 45))
    assert ratio.is_exact
    assert str(ratio) == "1.4222"


def test_an_open_interval_and_missing_bounds() -> None:
    run = online.simulate(INSTANCE, "mc-sf")
    ratio = online.ratio(run, Bounds(INSTANCE, 50, 40))
    assert ratio == Interval(Fraction(64, 50), Fraction(64, 40))
    ratio = online.ratio(run, Bounds(INSTANCE, 50, None))
    assert ratio == Interval(Fraction(64, 50), None)
    # The run itself is a schedule, so the optimum is at most its total latency.
    assert online.ratio(run, Bounds(INSTANCE, None, None)) == Interval(Fraction(1), None)


def test_a_ratio_in_seconds_by_hand() -> None:
    """The second request arrives in the first round: it takes 2 s, later rounds of one token 1.5 s.

    So completions are at 2 and 5 s, and latencies are 2 and 4.5 s.
    """
    time = AffineTime(1.0, 0.5)
    two = Workload([0.0, 0.5], [2, 1], [1, 2], memory_limit=10, batch_time=time)
    run = online.simulate(two, "fcfs")
    assert online.ratio(run, Bounds(two, 5, 4)) == Interval(Fraction(13, 10), Fraction(13, 8))
    assert online.ratio(run, Bounds(two, 7, Fraction(13, 2))) == Interval.between(1, 1)


def test_decimals_are_what_they_are_written_as() -> None:
    """A tenth and two tenths are three tenths, unlike the sum of their floats."""
    work = Workload([0.3], [1], [1], memory_limit=10, batch_time=AffineTime(0.1, 0.2))
    run = online.simulate(work, "fcfs")
    assert run.total_latency != 0.3
    assert online.ratio(run, Bounds(work, 1, Fraction(1, 10))).upper == 3


@pytest.mark.parametrize("replicas", [1, 2])
def test_ratios_to_every_goal(replicas: int) -> None:
    instance = Instance.from_arrays([2, 1, 1], [2, 3, 1], memory_limit=6).replaced(
        replicas=replicas
    )
    router = {"router": "least-requests"} if replicas > 1 else {}
    run = online.simulate(instance, "fcfs", **router)
    for goal in ("latency", hindsight.OnTime(ServiceLevel(latency=3))):
        best = hindsight.solve(instance, 5, goal=goal, progress=False)
        ratio = online.ratio(run, best)
        assert ratio.is_exact
        if goal == "latency":
            assert ratio.lower == Fraction(run.total_latency) / best.upper_bound
        else:
            on_time = int(run.on_time(ServiceLevel(latency=3)).sum())
            assert ratio.lower == Fraction(on_time, best.upper_bound)


def test_intervals_are_rounded_outwards() -> None:
    assert str(Interval(Fraction(5, 3), Fraction(16, 9))) == "[1.6666, 1.7778]"
    assert str(Interval(Fraction(1), Fraction(20001, 20000))) == "[1.0000, 1.0001]"
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
    ratio = Interval.of_share(total, Interval.between(least, most))
    assert (str(ratio), ratio.lower if ratio.is_exact else None) == (text, exact)
    assert (ratio.upper is None) == (least is None or least < 1)


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

"""The preemptive optimum over the optimum: its interval, its search, its table."""

from __future__ import annotations

from fractions import Fraction

from instances import Instance
from online.comparison.ratios import Interval
from studies.preemption import PreemptionGain, gain_table, preemption_gain

PAIR = Instance.from_arrays([1, 8], [9, 1], [0, 1], memory_limit=10)


def gain(optimum: tuple[int, int], preemptive: tuple[int, int]) -> PreemptionGain:
    return PreemptionGain("drawn", 2, 10, optimum, preemptive)


def test_both_optima_are_proved_on_two_requests() -> None:
    found = preemption_gain("pair", PAIR, 20)
    assert (found.optimum, found.preemptive, found.is_proved) == ((12, 12), (11, 11), True)
    assert found.ratio == Interval(Fraction(11, 12), Fraction(11, 12))


def test_the_interval_holds_whatever_the_optima_are() -> None:
    open_ends = gain((10, 20), (5, 15))
    assert open_ends.ratio == Interval(Fraction(5, 20), Fraction(1))
    assert not open_ends.is_proved


def test_a_row_for_each_family() -> None:
    table = gain_table([gain((10, 10), (8, 8)), gain((10, 10), (10, 10)), gain((10, 20), (5, 9))])
    (row,) = table.rows
    cells = dict(zip(table.columns, row, strict=True))
    assert (cells["proved"], cells["proved_below_1"]) == ("2/3", "2/3")
    assert (cells["n"], cells["M"]) == ("2", "10")
    # (8/10 + 1 + 5/20) / 3 and (8/10 + 1 + 9/10) / 3; 5/20 and 8/10.
    assert cells["mean_ratio"] == "[0.6833, 0.9000]"
    assert cells["least_ratio"] == "[0.2500, 0.8000]"

"""Ratios and comparisons in seconds: by hand, rounded outwards, and refused."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import hindsight
import online
from instances import Instance, Workload
from instances.batch_time import AffineTime
from online import Run, compare
from online.comparison import Interval, records_csv, report_markdown, summarise

TIME = AffineTime(1.0, 0.5)
TWO = Workload([0.0, 0.5], [2, 1], [1, 2], memory_limit=10, name="two", batch_time=TIME)
"""First come first served runs them one after the other: the second arrives in the first round.

That round processes two tokens, 2 s; then rounds of one token each, 1.5 s: completions at 2 and 5,
latencies 2 and 4.5. Alone, each needs as much: 2 + 3 is the sum of own times.
"""


@dataclass
class Bounds:
    problem: Workload
    upper_bound: Fraction
    lower_bound: Fraction


def bounds(upper: float, lower: float, workload: Workload = TWO) -> Bounds:
    return Bounds(workload, Fraction(upper), Fraction(lower))


def run_of_two(**options: Any) -> Run:
    return online.simulate(TWO, "fcfs", **options)


# --- ratios ------------------------------------------------------------------------------------


def test_a_ratio_by_hand() -> None:
    ratio = online.ratio(run_of_two(), bounds(5, 4))
    assert ratio.total_latency == Fraction(13, 2)
    assert ratio.interval == Interval(Fraction(13, 10), Fraction(13, 8))
    assert (ratio.unit, str(ratio)) == ("seconds", "[1.3000, 1.6250]")


def test_the_run_itself_bounds_the_optimum() -> None:
    ratio = online.ratio(run_of_two(), bounds(7, 6.5))
    assert (ratio.optimum_upper, ratio.exact) == (Fraction(13, 2), 1)


def test_decimals_are_what_they_are_written_as() -> None:
    """A tenth and two tenths are three tenths, which floats do not make of them."""
    work = Workload([0.3], [1], [1], memory_limit=10, batch_time=AffineTime(0.1, 0.2))
    run = online.simulate(work, "fcfs")
    assert run.total_latency != 0.3
    exact = online.ratio(run, bounds(1, 0.25, work))
    assert exact.total_latency == Fraction(3, 10)


# --- every policy ------------------------------------------------------------------------------


# --- comparisons -------------------------------------------------------------------------------


def test_a_comparison_by_hand() -> None:
    (found,) = compare(TWO, ["fcfs"], time_limit=0)
    assert (found.compared_with, found.unit) == ("optimum in seconds", "seconds")
    assert (found.instance, found.digest) == ("two", TWO.digest)
    assert (found.total_latency, found.mean_latency) == (Fraction(13, 2), Fraction(13, 4))
    # To wait half a second and run both at once: 2.5 + 0.5 and 2.5 s, then 1.5 s; 7 in all.
    assert found.optimum_upper == Fraction(13, 2)
    assert found.optimum_lower >= 5
    assert found.optimum_certified == found.optimum_lower
    assert found.lower_bound is not None


def test_bounds_are_written_rounded_outwards() -> None:
    work = Workload([0.1], [1], [3], memory_limit=10, batch_time=AffineTime(0.1, 0.2))
    found = compare(work, ["fcfs"], time_limit=0)
    assert found[0].optimum_lower == found[0].optimum_upper == Fraction(9, 10)
    (row,) = csv.DictReader(io.StringIO(records_csv(found)))
    assert Fraction(float(row["optimum_lower"])) <= Fraction(9, 10)
    assert Fraction(float(row["optimum_upper"])) >= Fraction(9, 10)
    assert row["ratio_lower"] == row["ratio_upper"] == "1.0"
    assert row["proved"] == "true"
    assert "lower bound:" not in report_markdown(found, summarise(found))
    for name in ("optimum_certified", "mean_optimum_lower"):
        assert (
            Fraction(float(row[name]))
            <= Fraction(9, 10)
            <= Fraction(float(row["mean_optimum_upper"]))
        )


def test_arrival_times_of_an_instance_count_as_seconds() -> None:
    """In whatever order they stand."""
    rounds = Instance.from_arrays([2, 1], [1, 2], [3, 0], memory_limit=10, name="late first")
    late_first = Workload.from_instance(rounds, TIME)
    (found,) = compare(late_first, ["fcfs"], time_limit=0)
    # The one of two tokens runs until 3, when the other arrives and takes 2 s.
    assert found.total_latency == 5
    assert found.is_proved
    assert found.instance == "late first"
    run = online.simulate(late_first, "fcfs")
    assert online.ratio(run, hindsight.solve(late_first, 60)).exact == 1


def test_a_run_without_an_end_has_an_optimum() -> None:
    """It counts all requests, not only those that came before its time ran out."""
    whole = Workload([0.0, 9.0], [1, 1], [2, 2], memory_limit=4, batch_time=TIME)
    found = compare(whole, ["fcfs"], policy_time_limit=0, time_limit=0)
    assert (found[0].status, found[0].ratio, found[0].digest) == ("time-limit", None, whole.digest)
    assert found[0].requests == 2
    assert found[0].optimum_upper is not None


def test_the_solver_starts_from_the_best_run() -> None:
    result = hindsight.solve(TWO, 0, threads=1, start=run_of_two().schedule)
    assert result.upper_bound <= Fraction(13, 2)

"""Ratios and comparisons in seconds: by hand, rounded outwards, and refused."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hindsight
import online
from instances import Instance, InvalidTypeError, InvalidValueError, Workload
from instances.batch_time import AffineTime, BatchTime
from online import IncompleteRunError, NoScheduleError, Run, compare
from online.comparison import (
    Interval,
    records_csv,
    report_markdown,
    summarise,
)

TIME = AffineTime(1.0, 0.5)
TWO = Workload([0.0, 0.5], [2, 1], [1, 2], memory_limit=10, name="two")
"""First come first served runs them one after the other: the second arrives in the first round.

That round processes two tokens, 2 s; then rounds of one token each, 1.5 s: completions at 2 and 5,
latencies 2 and 4.5. Alone, each needs as much: 2 + 3 is the sum of own times.
"""


@dataclass
class Bounds:
    workload: Workload
    batch_time: BatchTime
    upper_bound: Fraction
    lower_bound: Fraction


def bounds(upper: float, lower: float, **other: Any) -> Bounds:
    fields = {"workload": TWO, "batch_time": TIME, **other}
    return Bounds(upper_bound=Fraction(upper), lower_bound=Fraction(lower), **fields)


def run_of_two(**options: Any) -> Run:
    return online.simulate(TWO, "fcfs", **{"batch_time": TIME, **options})


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
    work = Workload([0.3], [1], [1], memory_limit=10)
    time = AffineTime(0.1, 0.2)
    run = online.simulate(work, "fcfs", batch_time=time)
    assert run.total_latency != 0.3
    exact = online.ratio(run, bounds(1, 0.25, workload=work, batch_time=time))
    assert exact.total_latency == Fraction(3, 10)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"workload": Workload([0, 1], [2, 1], [1, 2], memory_limit=10)}, "different workloads"),
        ({"workload": Workload([0, 0.5], [2, 1], [1, 2], memory_limit=11)}, "different workloads"),
        ({"batch_time": AffineTime(1.0, 0.25)}, "AffineTime(d0=1.0, d1=0.25"),
    ],
)
def test_other_requests_and_other_batch_times_are_refused(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(online.MismatchError) as caught:
        online.ratio(run_of_two(), bounds(5, 4, **options))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_seconds_and_rounds_are_not_mixed() -> None:
    instance = Instance.from_arrays([2, 1], [1, 2], memory_limit=10)
    in_rounds = hindsight.solve(instance, threads=1)
    timed = online.simulate(instance, "fcfs", batch_time=TIME)
    with pytest.raises(online.MismatchError, match="run is in seconds"):
        online.ratio(timed, in_rounds)
    with pytest.raises(online.MismatchError, match="bounds in seconds"):
        online.ratio(online.simulate(instance, "fcfs"), bounds(5, 4))
    with pytest.raises(InvalidValueError, match="preemptive = True"):
        online.ratio(timed, bounds(5, 4), preemptive=True)


def test_runs_without_a_schedule_in_seconds_are_refused() -> None:
    with pytest.raises(IncompleteRunError, match="unserved"):
        online.ratio(run_of_two(max_rounds=1), bounds(5, 4))
    with pytest.raises(NoScheduleError, match="counts rounds"):
        _ = online.simulate(Instance.from_arrays([2], [1], memory_limit=9), "fcfs").seconds_schedule


class Drifting:
    """Every round is longer than the one before: no schedule can repeat that."""

    def __init__(self) -> None:
        self.rounds = 0

    def durations(self, stretch: Any) -> Any:
        self.rounds += stretch.rounds
        return np.full(stretch.rounds, float(self.rounds))


def test_a_batch_time_that_changes_its_mind_is_told() -> None:
    with pytest.raises(NoScheduleError, match="asked again"):
        _ = run_of_two(batch_time=Drifting()).seconds_schedule


# --- every policy ------------------------------------------------------------------------------


# --- comparisons -------------------------------------------------------------------------------


def test_a_comparison_by_hand() -> None:
    (found,) = compare(TWO, ["fcfs"], batch_time=TIME, time_limit=0)
    assert (found.compared_with, found.unit) == ("optimum in seconds", "seconds")
    assert (found.instance, found.digest) == ("two", TWO.digest)
    assert (found.total_latency, found.mean_latency) == (Fraction(13, 2), Fraction(13, 4))
    # To wait half a second and run both at once: 2.5 + 0.5 and 2.5 s, then 1.5 s; 7 in all.
    assert found.optimum_upper == Fraction(13, 2)
    assert found.optimum_lower >= 5
    assert found.optimum_certified == found.optimum_lower
    assert found.lower_bound is not None


def test_bounds_are_written_rounded_outwards() -> None:
    work = Workload([0.1], [1], [3], memory_limit=10)
    time = AffineTime(0.1, 0.2)
    found = compare(work, ["fcfs"], batch_time=time, time_limit=0)
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
    late_first = Instance.from_arrays([2, 1], [1, 2], [3, 0], memory_limit=10, name="late first")
    (found,) = compare(late_first, ["fcfs"], batch_time=TIME, time_limit=0)
    # The one of two tokens runs until 3, when the other arrives and takes 2 s.
    assert found.total_latency == 5
    assert found.is_proved
    assert found.instance == "late first"
    run = online.simulate(late_first, "fcfs", batch_time=TIME)
    assert online.ratio(run, hindsight.solve(late_first, 60, batch_time=TIME)).exact == 1


def test_what_cannot_be_compared_in_seconds_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="beside batch_time"):
        compare(TWO, ["fcfs"], batch_time=TIME, preemptive=True)
    with pytest.raises(InvalidTypeError, match="is not a batch time"):
        compare(TWO, ["fcfs"], batch_time=0.5)  # type: ignore[arg-type]


def test_a_run_without_an_end_has_an_optimum() -> None:
    """It counts all requests, not only those that came before its time ran out."""
    whole = Workload([0.0, 9.0], [1, 1], [2, 2], memory_limit=4)
    found = compare(whole, ["fcfs"], batch_time=TIME, policy_time_limit=0, time_limit=0)
    assert (found[0].status, found[0].ratio, found[0].digest) == ("time-limit", None, whole.digest)
    assert found[0].requests == 2
    assert found[0].optimum_upper is not None


def test_the_solver_starts_from_the_best_run() -> None:
    result = hindsight.solve(TWO, 0, 1, batch_time=TIME, start=run_of_two().seconds_schedule)
    assert result.upper_bound <= Fraction(13, 2)
    other = Workload([0.0, 0.5], [2, 1], [1, 2], memory_limit=11)
    for work, time in ((other, TIME), (TWO, AffineTime(1.0))):
        with pytest.raises(InvalidValueError, match="another workload or batch time"):
            hindsight.solve(work, 0, batch_time=time, start=run_of_two().seconds_schedule)
    with pytest.raises(InvalidTypeError, match="SecondsSchedule"):
        hindsight.solve(TWO, 0, batch_time=TIME, start=3)  # type: ignore[arg-type]

"""Ratios and comparisons in seconds: by hand, by definition, and beside the exhaustive optimum."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import sweep
from seconds_cases import exhaustive_optimum, replayed

import hindsight
import online
from instances import Instance, InvalidTypeError, InvalidValueError, Workload
from instances.batch_time import AffineTime, BatchTime, IterationTime
from online import IncompleteRunError, NoScheduleError, Run, compare
from online.commands.json_output import record_entry
from online.comparison import (
    Interval,
    PolicySpec,
    records_csv,
    records_table,
    report_markdown,
    summarise,
    summary_table,
)
from online.comparison.ratio_tables import optimum_notes
from online.policy_interface.specs import policy_specs

TIME = AffineTime(1.0, 0.5)
TWO = Workload([0.0, 0.5], [2, 1], [1, 2], memory_limit=10, name="two")
"""First come first served runs them one after the other: the second arrives in the first round.

That round processes two tokens, 2 s; then rounds of one token each, 1.5 s: completions at 2 and 5,
latencies 2 and 4.5. Alone, each needs as much: 2 + 3 is the sum of own times.
"""

ENGINES = [
    PolicySpec("vllm-v0", {"watermark": 0.0}),
    PolicySpec("vllm-v0", {"watermark": 0.0, "preemption": "recompute"}),
    PolicySpec("sarathi", {"watermark": 0.0, "chunk_size": 2}),
    PolicySpec("sarathi", {"watermark": 0.0, "chunk_size": 3, "preemption": "recompute"}),
]
EVERY = [*policy_specs(None), *ENGINES]


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


def drawn(seed: int, most: int, limit: int) -> tuple[Workload, AffineTime]:
    """Up to ``most`` requests; arrivals between rounds, all numbers exact in floats."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most + 1))
    longest = 3 if most < 4 else 5
    s, o = rng.integers(1, longest + 1, n), rng.integers(1, longest + 1, n)
    times = np.sort(rng.integers(0, 40, n)) / 16 if seed % 3 else np.zeros(n)
    memory_limit = int(max((s + o).max(), rng.integers(3, limit)))
    d0, d1, d2 = rng.integers(1, 9) / 8, rng.integers(0, 9) / 16, rng.integers(0, 5) / 32
    workload = Workload(times, s, o, memory_limit=memory_limit)
    return workload, AffineTime(float(d0), float(d1), float(d2))


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


@pytest.mark.parametrize("seed", sweep(range(60), one_in=10))
def test_every_run_is_a_schedule_in_seconds(seed: int) -> None:
    """Held, cut into chunks, evicted and preempted: the rounds are replayed by definition."""
    workload, time = drawn(seed, 8, 14)
    times: list[BatchTime] = [time, IterationTime(0.5, 0.125)]
    for spec in EVERY:
        run = online.simulate(workload, spec.make(), batch_time=times[seed % 2])
        if run.status != "completed":
            continue
        schedule = run.seconds_schedule
        assert schedule.completion_times.tolist() == run.completion_times.tolist(), spec.label
        assert schedule.total_latency == run.total_latency
        if seed % 2:
            continue
        broken, completion = replayed(schedule, time)
        assert broken == set(), spec.label
        assert completion == [Fraction(one) for one in run.completion_times.tolist()], spec.label


@pytest.mark.parametrize("seed", sweep(range(60), one_in=10))
def test_every_ratio_encloses_that_to_the_exhaustive_optimum(seed: int) -> None:
    workload, time = drawn(seed, 3, 9)
    best = exhaustive_optimum(workload, time, keeps=True)
    for found in compare(workload, EVERY, batch_time=time, time_limit=0, threads=1):
        if found.status != "completed":
            assert found.reason
            continue
        ratio = found.ratio
        assert ratio is not None, found
        assert 1 <= ratio.lower <= ratio.upper
        if best is not None:
            assert ratio.lower <= found.total_latency / best <= ratio.upper


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


def test_the_same_in_tables() -> None:
    found = compare(TWO, ["fcfs"], batch_time=TIME, time_limit=0)
    table = records_table(found)
    shown = dict(zip(table.columns, table.rows[0], strict=True))
    assert shown["total latency, s"] == "6.5000"
    assert shown["mean latency, s"] == "3.2500"
    assert shown["best possible mean, s"] == str(found[0].mean_optimum)
    assert shown["compared_with"] == "optimum in seconds"
    summary = summary_table(summarise(found))
    # How long a request takes by itself is no number of rounds: nothing is told beyond that.
    assert not [name for name in (*table.columns, *summary.columns) if "waiting" in name]
    assert dict(zip(summary.columns, summary.rows[0], strict=True))["mean latency, s"] == "3.2500"
    assert summary.title.startswith("total latency / optimum in seconds")
    (note,) = optimum_notes(found)
    assert note.startswith(f"two: best possible mean latency {found[0].mean_optimum} s")
    assert note.endswith(", certified")
    assert f"- {note}" in report_markdown(found, summarise(found))
    (row,) = csv.DictReader(io.StringIO(records_csv(found)))
    assert (row["unit"], row["total_latency"], row["mean_latency"]) == ("seconds", "6.5", "3.25")
    assert {row[name] for name in row if "waiting" in name} == {""}
    assert row["compared_with"] == "optimum in seconds"
    assert Fraction(float(row["optimum_lower"])) <= found[0].optimum_lower
    assert float(row["mean_optimum_upper"]) == 3.25


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
    assert "lower bound:" not in optimum_notes(found)[0]
    entry = record_entry(found[0])
    for name in ("optimum", "mean_optimum"):
        low, high = entry[name]
        assert Fraction(low) <= Fraction(9, 10) <= Fraction(high)
    assert Fraction(entry["optimum_certified"]) <= Fraction(9, 10)


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

"""Policies under a service level: how many are on time, and of how many that could be."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from brute_force import all_feasible_schedules, sound_horizon
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances

import hindsight
import online
from hindsight import Bound, OnTime, Result
from instances import Instance, ServiceLevel
from online import compare, share_of_attainable
from online.comparison import Interval, Records, compare_many, records_csv, summarise

ALIKE = Instance.from_arrays([3, 3, 3], [2, 2, 2], memory_limit=5, name="alike")
"""One fits at a time, for two rounds each."""
TWO_OF_THREE = ServiceLevel(latency=4)


def bounds(problem: Instance, level: Any, lower: int, upper: int) -> Result:
    late = {"by hand": Bound(len(problem) - upper, certified=True)}
    return Result(problem, OnTime(level), "never", None, len(problem) - lower, late, "stalled")


@pytest.mark.parametrize(
    ("policy", "lower", "upper", "share"),
    [
        ("fcfs", 3, 3, Interval(Fraction(1, 3), Fraction(1, 3))),
        ("fcfs", 2, 3, Interval(Fraction(1, 3), Fraction(1, 2))),
        ("edf", 3, 3, Interval(Fraction(1), Fraction(1))),
        # The run itself is a schedule with three on time.
        ("edf", 1, 3, Interval(Fraction(1), Fraction(1))),
    ],
)
def test_the_share_lies_between_the_counts_over_the_bounds(policy, lower, upper, share) -> None:
    level = [ServiceLevel(latency=limit) for limit in (6, 2, 4)]
    run = online.simulate(ALIKE, policy, level=level)
    assert share_of_attainable(run, bounds(ALIKE, level, lower, upper)) == share


def test_nothing_on_time_and_nothing_attainable() -> None:
    level = ServiceLevel(latency=1)
    run = online.simulate(ALIKE, "fcfs")
    assert share_of_attainable(run, bounds(ALIKE, level, 0, 2)) == Interval(Fraction(0), None)
    assert share_of_attainable(run, bounds(ALIKE, level, 0, 0)) == Interval(None, None)


@settings(max_examples=examples(40, 8))
@given(
    instances(max_requests=4, max_memory=6, max_arrival=3),
    st.sampled_from([ServiceLevel(3), ServiceLevel(6, first_token=2), ServiceLevel(None, 2, 2)]),
)
def test_no_policy_has_more_of_the_attainable_than_an_enumeration_says(instance, level) -> None:
    most = 0
    for starts in all_feasible_schedules(instance, sound_horizon(instance)):
        on_time = 0
        for request, start in zip(instance, starts, strict=True):
            latency = start + request.output_length - request.arrival_time
            first = start + 1 - request.arrival_time
            on_time += (
                (level.latency is None or latency <= level.latency)
                and (level.first_token is None or first <= level.first_token)
                # One token a round.
                and (level.time_per_token is None or level.time_per_token >= 1)
            )
        most = max(most, on_time)
    result = hindsight.solve(instance, goal=hindsight.OnTime(level))
    for policy in ("fcfs", "mc-sf", "edf"):
        run = online.simulate(instance, policy, level=level)
        kept = int(run.on_time(level).sum())
        if most:
            assert share_of_attainable(run, result) == Interval(*[Fraction(kept, most)] * 2)
        else:
            assert kept == 0


def test_a_comparison_counts_requests_on_time_beside_latencies() -> None:
    policies = ["fcfs", "mc-sf", "edf"]
    plain = compare(ALIKE, policies[:2])
    found = compare(ALIKE, policies, level=TWO_OF_THREE)
    assert [one.on_time for one in plain] == [None, None]
    assert "on time" not in plain.table().columns
    assert "on_time" not in records_csv(plain)
    assert [one.ratio for one in found][:2] == [one.ratio for one in plain]
    # At most two of the three that arrive together, whatever the order.
    assert [(one.on_time, one.attainable) for one in found] == [(2, Interval(2, 2))] * 3
    assert {str(one.of_attainable) for one in found} == {"1.0000"}
    table = found.summary()
    shown = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert {(row["on time"], row["of the attainable"]) for row in shown} == {("0.6667", "1.0000")}


def test_a_search_that_fails_takes_nothing_else_along(monkeypatch) -> None:
    solve = hindsight.solver.solve_until

    def fails(*given: Any, **options: Any) -> Any:
        if "goal" in options:
            raise RuntimeError("no solver")
        return solve(*given, **options)

    monkeypatch.setattr("hindsight.solver.solve_until", fails)
    (found,) = compare(ALIKE, "fcfs", level=TWO_OF_THREE)
    assert (found.on_time, str(found.of_attainable), str(found.ratio)) == (2, "[?, ?]", "1.0000")


def test_a_level_that_nobody_can_keep() -> None:
    found = compare_many([ALIKE], ["fcfs"], level=ServiceLevel(latency=1))
    assert [(one.on_time, one.attainable) for one in found.records] == [(0, Interval(0, 0))]
    assert str(found.records[0].of_attainable) == "[?, ?]"


def test_all_policies_are_those_by_deadline_too_under_a_level() -> None:
    tiny = Instance.from_arrays([1], [1], memory_limit=4)
    both = [
        {trial.policy for trial in compare_many([tiny], level=level).records}
        for level in (None, TWO_OF_THREE)
    ]
    assert both[1] - both[0] == {"edf"}


def test_policies_are_summed_over_instances_and_runs_that_preempt_have_no_share() -> None:
    other = Instance.from_arrays([1, 1], [2, 2], memory_limit=9, name="other")
    crowded = Instance.from_arrays([1, 1, 1], [6, 6, 6], memory_limit=12, name="crowded")
    found = compare_many([ALIKE, other], ["fcfs"], level=ServiceLevel(2)).records
    (summary,) = summarise(found)
    # One of three and both of two.
    assert (summary.share_on_time, str(summary.of_attainable)) == (Fraction(3, 5), "1.0000")
    (preempting,) = compare(crowded, ["vllm"], level=ServiceLevel(6))
    assert preempting.run.keeps_tokens
    # Two of three give way: they hold 15 in round 4, and 14 in round 6.
    assert (preempting.on_time, preempting.of_attainable) == (1, None)
    table = Records([preempting]).table()
    assert table.rows[0][table.columns.index("of the attainable")] == "-"


def test_a_failed_run_enters_no_share_on_time() -> None:
    (done,) = compare_many([ALIKE], ["fcfs"], level=ServiceLevel(2)).records
    (summary,) = summarise([done, replace(done, reason="stalled")])
    assert (summary.trials, summary.failed) == (2, 1)
    assert summary.share_on_time == Fraction(1, 3)

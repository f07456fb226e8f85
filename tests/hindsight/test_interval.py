"""Schedules and bounds that an interval takes: those of its problem, and exact ones."""

from __future__ import annotations

from fractions import Fraction

import pytest

import hindsight
from hindsight import OnTime, ScheduleCheckError
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    Schedule,
    ServiceLevel,
    Workload,
    generate,
)
from online import AffineTime

INSTANCE = generate("arrival-model-2", 0, n=6)


@pytest.fixture
def interval() -> Interval:
    made = Interval(Problem(INSTANCE))
    made.offer(hindsight.best_list_schedule(INSTANCE))
    return made


def test_other_schedules_are_refused(interval: Interval) -> None:
    before = interval.schedule
    better = hindsight.best_list_schedule(Instance(INSTANCE.requests[:-1], INSTANCE.memory_limit))
    assert better.total_latency < before.total_latency
    at_once = Schedule(INSTANCE, INSTANCE.arrival_times)
    for schedule, said in ((better, "belongs to another problem"), (at_once, "infeasible")):
        with pytest.raises(ScheduleCheckError, match=said):
            interval.offer(schedule)
    assert interval.schedule is before


@pytest.mark.parametrize("certified", [True, False])
def test_bounds_are_whole(interval: Interval, certified: bool) -> None:
    with pytest.raises(InvalidTypeError, match="neither a whole number nor a fraction"):
        interval.prove(0.25, "half", certified=certified)  # type: ignore[arg-type]
    interval.prove(Fraction(9, 4), "more", certified=certified)
    assert interval.lower_bound == 3
    assert interval.result().certified_lower_bound == (3 if certified else 0)


def test_a_bound_above_a_schedule_and_a_schedule_below_a_bound_are_refused() -> None:
    best = hindsight.best_list_schedule(INSTANCE)
    above = Interval(Problem(INSTANCE))
    above.offer(best)
    with pytest.raises(ScheduleCheckError, match="contradicts"):
        above.prove(best.total_latency + 1, "false")
    below = Interval(Problem(INSTANCE))
    below.prove(best.total_latency + 1, "false")
    with pytest.raises(ScheduleCheckError, match="contradicts"):
        below.offer(best)


def test_bounds_in_seconds_are_compared_exactly() -> None:
    workload = Workload([0, 0], [1, 2], [2, 1], memory_limit=9, batch_time=AffineTime(0.5))
    interval, little = Interval(Problem.checked(workload, "latency")), Fraction(1, 10**12)
    found = hindsight.solve(workload, 0, threads=1)
    interval.offer(found.schedule)
    interval.prove(interval.upper_bound - little, "below")
    assert not interval.is_proved
    interval.prove(interval.upper_bound, "met")
    assert interval.is_proved
    text, last = "mean latency [0.750000, 0.750000] s", interval.log[-1]
    assert interval.result().text == text
    assert (last.text, last.lower_bound, found.first_token_bound) == (f"{text}, gap 0 %", 0.75, 0.5)
    with pytest.raises(ScheduleCheckError, match="contradicts"):
        interval.prove(interval.upper_bound + little, "above")


def test_claims_prove_nothing_and_do_not_exceed_a_schedule(interval: Interval) -> None:
    interval.claim(interval.upper_bound, "bound 'mine'")
    assert not interval.is_proved
    result = interval.result()
    assert (result.lower_bound, result.bounds["bound 'mine'"].claimed) == (0, True)
    with pytest.raises(InvalidValueError, match="bound 'mine' does not hold"):
        interval.claim(interval.upper_bound + 1, "bound 'mine'")


def test_requests_on_time_are_counted_by_what_is_late() -> None:
    goal = OnTime(ServiceLevel(latency=INSTANCE.output_lengths.max() + 1))
    best = hindsight.best_list_schedule(INSTANCE)
    interval = Interval(Problem(INSTANCE, goal))
    assert interval.upper_bound == len(INSTANCE)
    interval.offer(best)
    in_time = best.latencies <= INSTANCE.output_lengths.max() + 1
    assert interval.upper_bound == int((~in_time).sum())
    interval.prove(1, "one is late")
    result, ends = interval.result(), (int(in_time.sum()), len(INSTANCE) - 1)
    assert all((one.lower_bound, one.upper_bound) == ends for one in (result, result.log[-1]))

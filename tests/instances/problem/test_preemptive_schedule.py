"""`PreemptiveSchedule` and its checker against the definition, one round at a time."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from strategies import any_schedules, instances

from instances import Instance, PreemptiveSchedule, Schedule

ONE = Instance.from_arrays([2], [4], memory_limit=10)


def held_in(instance: Instance, rounds: Sequence[Sequence[int]], r: int) -> int:
    """Tokens in round r: s + k of each request whose k-th round it is."""
    return sum(
        request.prompt_length + 1 + own.index(r)
        for request, own in zip(instance, rounds, strict=True)
        if r in own
    )


@st.composite
def any_rounds(draw: DrawFn, earliest: int = -2) -> tuple[Instance, list[list[int]]]:
    """Any rounds, dense enough that requests overlap and are stopped."""
    instance = draw(instances(max_requests=5))
    rounds = []
    for request in instance:
        now = draw(st.integers(earliest, request.arrival_time + 3))
        own = []
        for _ in range(request.output_length):
            now += draw(st.sampled_from([1, 1, 1, 2, 4]))
            own.append(now)
        rounds.append(own)
    return instance, rounds


@settings(max_examples=200)
@given(any_rounds())
def test_violations_are_those_of_the_definition(drawn: tuple[Instance, list[list[int]]]) -> None:
    instance, rounds = drawn
    schedule = PreemptiveSchedule.from_rounds(instance, rounds)
    limit = instance.memory_limit
    early = {
        (q.id, q.arrival_time + 1 - own[0])
        for q, own in zip(instance, rounds, strict=True)
        if own[0] <= q.arrival_time
    }
    span = range(min(own[0] for own in rounds), max(own[-1] for own in rounds) + 1)
    crowded = {r: held_in(instance, rounds, r) - limit for r in span}
    crowded = {r: excess for r, excess in crowded.items() if excess > 0}
    found = schedule.violations()
    assert {(v.request_id, v.amount) for v in found if v.kind == "early-start"} == early
    reported = {v.round_index: v.amount for v in found if v.kind == "memory"}
    assert reported.items() <= crowded.items()
    # Looking at the ends of stretches only must not lose the last round of a crowded spell.
    assert all(r in reported for r in crowded if r + 1 not in crowded)
    assert schedule.is_feasible == (not early and not crowded)


@settings(max_examples=150)
@given(any_rounds(earliest=0))
def test_costs_and_memory_are_those_of_the_definition(
    drawn: tuple[Instance, list[list[int]]],
) -> None:
    instance, rounds = drawn
    schedule = PreemptiveSchedule.from_rounds(instance, rounds)
    ends = [own[-1] for own in rounds]
    latencies = [end - q.arrival_time for q, end in zip(instance, ends, strict=True)]
    assert schedule.completion_times.tolist() == ends
    assert schedule.latencies.tolist() == latencies
    assert schedule.total_latency == sum(latencies)
    assert type(schedule.total_latency) is int
    if all(own[0] > q.arrival_time for q, own in zip(instance, rounds, strict=True)):
        assert schedule.total_waiting == sum(
            r not in own
            for q, own in zip(instance, rounds, strict=True)
            for r in range(q.arrival_time + 1, own[-1] + 1)
        )
    assert schedule.mean_latency == pytest.approx(sum(latencies) / len(instance))
    assert schedule.makespan == max(ends)
    held = [held_in(instance, rounds, r) for r in range(max(ends) + 1)]
    assert schedule.memory_profile().tolist() == held
    stops = sum(b - a > 1 for own in rounds for a, b in pairwise(own))
    assert schedule.preemptions == stops
    listed = [
        [r for first, last in own for r in range(first, last + 1)] for own in schedule.stretches
    ]
    assert listed == rounds
    arrays = [np.array(own, dtype=np.int64) for own in rounds]
    assert PreemptiveSchedule.from_rounds(instance, arrays) == schedule
    again = pickle.loads(pickle.dumps(schedule))  # noqa: S301 (our own bytes)
    assert again == schedule == PreemptiveSchedule(instance, schedule.stretches)
    assert hash(again) == hash(schedule)
    assert not again.first_round.flags.writeable


@settings(max_examples=100)
@given(any_schedules())
def test_a_schedule_without_preemption_is_a_special_case(schedule: Schedule) -> None:
    same = PreemptiveSchedule.from_schedule(schedule)
    assert same.preemptions == 0
    assert same.violations() == schedule.violations()
    assert same.total_latency == schedule.total_latency
    assert same.memory_profile().tolist() == schedule.memory_profile().tolist()
    assert same.start_times.tolist() == schedule.start_times.tolist()


def test_stretches_without_a_round_between_them_become_one() -> None:
    whole = PreemptiveSchedule(ONE, [[(1, 4)]])
    assert PreemptiveSchedule(ONE, [[(1, 2), (3, 3), (4, 4)]]) == whole
    assert PreemptiveSchedule(ONE, [[(2, 2), (5, 7)]]).start_times.tolist() == [1]
    assert whole != PreemptiveSchedule(ONE, [[(1, 3), (5, 5)]])

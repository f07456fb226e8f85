"""`Schedule` and its checker against the definition, on schedules good and bad."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from brute_force import (
    all_feasible_schedules,
    is_feasible_by_definition,
    makespan_by_definition,
    memory_by_definition,
    memory_in_round,
    optimal_total_latency,
    total_latency_by_definition,
)
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import any_schedules, instances, packed_schedules, schedules

from instances import Instance, InvalidTypeError, InvalidValueError, Request, Schedule, Violation

without_arrivals = instances(arrivals=False)


def assert_violations_are_those_of_the_definition(schedule: Schedule) -> None:
    instance, starts = schedule.instance, schedule.start_times.tolist()
    early = {
        (q.id, q.arrival_time - t)
        for q, t in zip(instance, starts, strict=True)
        if t < q.arrival_time
    }
    ends = {t + q.output_length for q, t in zip(instance, starts, strict=True)}
    crowded = {
        (r, memory_in_round(instance, starts, r) - instance.memory_limit)
        for r in ends
        if memory_in_round(instance, starts, r) > instance.memory_limit
    }
    found = schedule.violations()
    assert all(isinstance(v, Violation) for v in found)
    reported_early = [(v.request_id, v.amount) for v in found if v.kind == "early-start"]
    reported_rounds = [(v.round_index, v.amount) for v in found if v.kind == "memory"]
    assert len(found) == len(reported_early) + len(reported_rounds)
    assert sorted(reported_early, key=repr) == sorted(early, key=repr)
    assert sorted(reported_rounds) == sorted(crowded)
    # Looking at completion rounds only must not lose a violation of any other round.
    everywhere = any(
        memory_in_round(instance, starts, r) > instance.memory_limit
        for r in range(min(starts), max(ends) + 1)
    )
    assert schedule.is_feasible == (not early and not everywhere)


# --- against the definition ---------------------------------------------------------------------


@settings(max_examples=examples(300))
@given(any_schedules())
def test_violations_of_any_schedule(schedule: Schedule) -> None:
    assert_violations_are_those_of_the_definition(schedule)


@settings(max_examples=examples(200))
@given(any_schedules(without_arrivals, earliest=-6))
def test_violations_of_schedules_that_start_before_round_0(schedule: Schedule) -> None:
    assert_violations_are_those_of_the_definition(schedule)


@settings(max_examples=examples(200))
@given(any_schedules())
def test_costs_and_memory_of_any_schedule(schedule: Schedule) -> None:
    instance, starts = schedule.instance, schedule.start_times.tolist()
    assert schedule.total_latency == total_latency_by_definition(instance, starts)
    assert type(schedule.total_latency) is int
    waits = [t - request.arrival_time for request, t in zip(instance, starts, strict=True)]
    assert schedule.total_waiting == sum(waits)
    assert type(schedule.total_waiting) is int
    assert schedule.makespan == makespan_by_definition(instance, starts)
    assert schedule.memory_profile().tolist() == memory_by_definition(instance, starts)
    assert schedule.mean_latency == pytest.approx(schedule.total_latency / len(instance))
    ends = [t + q.output_length for q, t in zip(instance, starts, strict=True)]
    assert schedule.completion_times.tolist() == ends
    waits = [end - q.arrival_time for q, end in zip(instance, ends, strict=True)]
    assert schedule.latencies.tolist() == waits


@settings(max_examples=examples(60))
@given(packed_schedules())
def test_every_single_start_changed_to_every_other_round(schedule: Schedule) -> None:
    """Each perturbation that breaks a rule is caught, and none that keeps them all is accused."""
    starts = schedule.start_times.tolist()
    for index in range(len(starts)):
        for start in range(schedule.makespan + 2):
            moved = [*starts[:index], start, *starts[index + 1 :]]
            perturbed = Schedule(schedule.instance, moved)
            feasible = is_feasible_by_definition(schedule.instance, moved)
            assert (perturbed.violations() == []) == feasible
            assert perturbed.is_feasible == feasible


@given(schedules(), st.data())
def test_a_start_before_arrival_is_caught_and_named(
    schedule: Schedule, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(schedule.instance) - 1))
    request = schedule.instance[index]
    early = data.draw(st.integers(1, 3))
    starts = schedule.start_times.tolist()
    starts[index] = request.arrival_time - early
    found = Schedule(schedule.instance, starts).violations()
    assert Violation("early-start", request.id, None, early) in found


@settings(max_examples=examples(40))
@given(instances(max_requests=3, max_memory=5, max_arrival=3))
def test_checker_accepts_exactly_the_enumerated_schedules(instance: Instance) -> None:
    horizon = 7
    expected = set(all_feasible_schedules(instance, horizon))
    grid = np.ndindex(*[horizon - q.output_length + 1 for q in instance])
    assert {starts for starts in grid if Schedule(instance, starts).is_feasible} == expected


def test_one_token_too_many_in_one_round_is_caught() -> None:
    # Peaks 5 + 5 meet in round 2 only: M = 10 is enough, M = 9 is not.
    requests = [Request(0, 3, 2), Request(0, 3, 2)]
    assert Schedule(Instance(requests, 10), [0, 0]).is_feasible
    tight = Schedule(Instance(requests, 9), [0, 0])
    assert tight.violations() == [Violation("memory", None, 2, 1)]
    # A shift by one round: rounds 1, 2, 3 hold 4, 5 + 4, 5.
    assert Schedule(Instance(requests, 9), [0, 1]).is_feasible
    assert not Schedule(Instance(requests, 8), [0, 1]).is_feasible


def test_memory_is_free_from_the_round_after_completion() -> None:
    instance = Instance([Request(0, 1, 3), Request(0, 3, 1)], 4)
    assert Schedule(instance, [0, 3]).is_feasible
    assert Schedule(instance, [1, 0]).is_feasible
    assert not Schedule(instance, [0, 2]).is_feasible
    assert not Schedule(instance, [0, 0]).is_feasible


def test_violations_read_as_sentences() -> None:
    instance = Instance([Request(2, 3, 2, "x"), Request(0, 3, 2)], 9)
    lines = [str(v) for v in Schedule(instance, [0, 0]).violations()]
    assert lines == [
        "request 'x' starts 2 rounds before it arrives",
        "round 2 holds 1 tokens more than memory_limit",
    ]


# --- invariances --------------------------------------------------------------------------------


@given(any_schedules(), st.data())
def test_relabelling_changes_nothing(schedule: Schedule, data: st.DataObject) -> None:
    instance = schedule.instance
    order = data.draw(st.permutations(range(len(instance))))
    shuffled = Instance(
        [dataclasses.replace(instance[i], id=f"new{i}") for i in order], instance.memory_limit
    )
    moved = Schedule(shuffled, schedule.start_times[list(order)])
    assert moved.total_latency == schedule.total_latency
    assert moved.makespan == schedule.makespan
    assert moved.memory_profile().tolist() == schedule.memory_profile().tolist()
    assert moved.is_feasible == schedule.is_feasible
    crowded = [v for v in schedule.violations() if v.kind == "memory"]
    assert [v for v in moved.violations() if v.kind == "memory"] == crowded
    early = {f"new{v.request_id}" for v in schedule.violations() if v.kind == "early-start"}
    assert {v.request_id for v in moved.violations() if v.kind == "early-start"} == early


@given(any_schedules(), st.integers(1, 10**6))
def test_time_shift_moves_rounds_and_keeps_costs(schedule: Schedule, shift: int) -> None:
    instance = schedule.instance
    later = Instance(
        [dataclasses.replace(q, arrival_time=q.arrival_time + shift) for q in instance],
        instance.memory_limit,
    )
    moved = Schedule(later, schedule.start_times + shift)
    assert moved.total_latency == schedule.total_latency
    assert moved.makespan == schedule.makespan + shift
    assert moved.violations() == [
        v if v.round_index is None else dataclasses.replace(v, round_index=v.round_index + shift)
        for v in schedule.violations()
    ]
    profile = moved.memory_profile()
    assert not profile[: shift + 1].any()
    assert profile[shift:].tolist() == schedule.memory_profile().tolist()


# --- extreme numbers ----------------------------------------------------------------------------


def test_very_late_schedules_are_examined_without_a_profile() -> None:
    instance = Instance([Request(0, 3, 2), Request(0, 3, 2)], 9)
    late = 2**53 - 10
    assert Schedule(instance, [0, late]).is_feasible
    clash = Schedule(instance, [late, late])
    assert [(v.kind, v.round_index, v.amount) for v in clash.violations()] == [
        ("memory", late + 2, 1)
    ]
    assert clash.total_latency == 2 * (late + 2)
    with pytest.raises(InvalidValueError, match="makespan"):
        clash.memory_profile()


def test_total_latency_does_not_wrap_around() -> None:
    count = 3000
    instance = Instance([Request(0, 1, 1) for _ in range(count)], 2)
    late = Schedule(instance, [2**53] * count)
    assert (late.total_latency, late.total_waiting) == (count * (2**53 + 1), count * 2**53)


# --- the door -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts", "error", "message"),
    [
        ([0, 1.0], InvalidTypeError, "request 'b': start_time"),
        ([0, None], InvalidTypeError, "request 'b': start_time"),
        (np.array([0.0, 1.0]), InvalidTypeError, "request 'a': start_time"),
        (np.array([0, 2**60]), InvalidValueError, "request 'b': start_time"),
        (np.array([0, -(2**60)]), InvalidValueError, "request 'b': start_time"),
        ([0, float("nan")], InvalidValueError, "request 'b': start_time"),
        ([0, -(10**30)], InvalidValueError, "request 'b': start_time"),
        ([], InvalidValueError, "start_times"),
        ([0, 0, 0], InvalidValueError, "start_times"),
    ],
    ids=repr,
)
def test_starts_are_whole_numbers_one_a_request(
    starts: Any, error: type[Exception], message: str
) -> None:
    instance = Instance([Request(0, 1, 1, "a"), Request(0, 1, 1, "b")], 4)
    with pytest.raises(error, match=message):
        Schedule(instance, starts)


def test_no_profile_before_round_0() -> None:
    schedule = Schedule(Instance([Request(0, 1, 3)], 4), [-1])
    with pytest.raises(InvalidValueError, match="before round 0"):
        schedule.memory_profile()


def read_only_everywhere(schedule: Schedule) -> None:
    for column in (schedule.start_times, schedule.completion_times):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7


def test_a_schedule_cannot_be_changed() -> None:
    instance = Instance([Request(0, 1, 3), Request(0, 1, 1)], 6)
    source = np.array([0, 1])
    schedule = Schedule(instance, source)
    source[0] = 5
    assert schedule.start_times.tolist() == [0, 1]
    read_only_everywhere(schedule)
    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.start_times = source  # type: ignore[misc]
    schedule.latencies[0] = 99  # a fresh array each time, or read-only: never the cache
    assert schedule.total_latency == 5


def test_equality_and_hash() -> None:
    instance = Instance([Request(0, 1, 3), Request(0, 1, 1)], 6)
    assert Schedule(instance, [0, 1]) == Schedule(instance, np.array([0, 1], dtype=np.int32))
    assert hash(Schedule(instance, [0, 1])) == hash(Schedule(instance, [0, 1]))
    assert Schedule(instance, [0, 1]) != Schedule(instance, [1, 0])
    assert Schedule(instance, [0, 1]) != Schedule(instance.renamed("x"), [0, 1])


@pytest.mark.parametrize("duplicate", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy])  # noqa: S301
def test_pickled_and_deep_copied_schedules_are_equal(duplicate) -> None:
    schedule = Schedule(Instance([Request(0, 1, 3), Request(0, 1, 1)], 6), [0, 1])
    assert schedule.is_feasible
    twin = duplicate(schedule)
    assert twin == schedule
    assert twin.total_latency == schedule.total_latency
    assert twin.is_feasible
    schedule.completion_times  # noqa: B018 (cached values travel too)
    read_only_everywhere(duplicate(schedule))


# --- the papers' worked examples ----------------------------------------------------------------


def test_w25_example_1() -> None:
    # [W25] Example 1, M = 64: shortest output first 64, the many small ones first 45.
    instance = Instance.from_arrays([63, *[1] * 21], [1, *[2] * 21], memory_limit=64)
    shortest_first = Schedule(instance, [0, *[1] * 21])
    small_first = Schedule(instance, [2, *[0] * 21])
    assert shortest_first.is_feasible
    assert small_first.is_feasible
    assert shortest_first.total_latency == 64
    assert small_first.total_latency == 45
    # 21 x 3 = 63 tokens: the 63-token prompt cannot run beside them.
    assert not Schedule(instance, [0, *[0] * 21]).is_feasible
    assert small_first.memory_profile().tolist() == [0, 42, 63, 64]


@pytest.mark.parametrize(
    ("limit", "first", "second"),
    [(12, (1, 2, 4), (3, 3, 2)), (12, (5, 1, 2), (1, 3, 3)), (30, (1, 4, 6), (5, 5, 3))],
)
def test_w25_example_2(limit: int, first: tuple, second: tuple) -> None:
    # [W25] Example 2: two batches of (s, o, n) that each fill the memory, one after the other.
    (s1, o1, n1), (s2, o2, n2) = first, second
    assert n1 * (s1 + o1) == n2 * (s2 + o2) == limit
    instance = Instance.from_arrays(
        [s1] * n1 + [s2] * n2, [o1] * n1 + [o2] * n2, memory_limit=limit
    )
    one_two = Schedule(instance, [0] * n1 + [o1] * n2)
    two_one = Schedule(instance, [o2] * n1 + [0] * n2)
    assert one_two.is_feasible
    assert two_one.is_feasible
    assert one_two.total_latency == o1 * n1 + o2 * n2 + o1 * n2
    assert two_one.total_latency == o1 * n1 + o2 * n2 + o2 * n1
    assert (one_two.total_latency < two_one.total_latency) == (o1 * n2 < o2 * n1)


def test_c25_example_3_2() -> None:
    # [C25] Example 3.2: all five together 5, two at a time 9.
    instance = Instance.from_arrays([1] * 5, [1] * 5, memory_limit=10)
    together = Schedule(instance, [0] * 5)
    assert together.is_feasible
    assert together.total_latency == 5 == optimal_total_latency(instance)[0]
    assert Schedule(instance, [0, 0, 1, 1, 2]).total_latency == 9
    assert together.memory_profile().tolist() == [0, 10]


def test_c25_example_8_2() -> None:
    # [C25] Example 8.2, M = 7, s = 1, o = (1, 2, 3, 4); the third schedule is the optimal one.
    instance = Instance.from_arrays([1] * 4, [1, 2, 3, 4], memory_limit=7)
    first = Schedule(instance, [0, 2, 0, 3])
    second = Schedule(instance, [1, 1, 0, 3])
    third = Schedule(instance, [0, 0, 0, 2])
    assert all(schedule.is_feasible for schedule in (first, second, third))
    assert [s.total_latency for s in (first, second, third)] == [15, 15, 12]
    assert optimal_total_latency(instance)[0] == 12

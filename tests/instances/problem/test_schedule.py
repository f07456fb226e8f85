"""`Schedule` and its checker against the definition, on schedules good and bad."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from brute_force import (
    all_feasible_schedules,
    makespan_by_definition,
    memory_by_definition,
    memory_in_round,
    optimal_total_latency,
    total_latency_by_definition,
)
from effort import examples
from hypothesis import given, settings
from strategies import any_schedules, instances

from instances import Instance, Request, Schedule, Violation

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


def test_violations_read_as_sentences() -> None:
    instance = Instance([Request(2, 3, 2, "x"), Request(0, 3, 2)], 9)
    lines = [str(v) for v in Schedule(instance, [0, 0]).violations()]
    assert lines == [
        "request 'x' starts 2 rounds before it arrives",
        "round 2 holds 1 tokens more than memory_limit",
    ]


# --- invariances --------------------------------------------------------------------------------


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


def test_total_latency_does_not_wrap_around() -> None:
    count = 3000
    instance = Instance([Request(0, 1, 1) for _ in range(count)], 2)
    late = Schedule(instance, [2**53] * count)
    assert (late.total_latency, late.total_waiting) == (count * (2**53 + 1), count * 2**53)


# --- the door -----------------------------------------------------------------------------------


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


def test_w25_example_2() -> None:
    # [W25] Example 2: two batches of (s, o, n) that each fill M = 12, one after the other.
    instance = Instance.from_arrays([1] * 4 + [3] * 2, [2] * 4 + [3] * 2, memory_limit=12)
    one_two, two_one = Schedule(instance, [0] * 4 + [2] * 2), Schedule(instance, [3] * 4 + [0] * 2)
    assert one_two.is_feasible
    assert two_one.is_feasible
    assert [one_two.total_latency, two_one.total_latency] == [18, 26]


def test_c25_example_8_2() -> None:
    # [C25] Example 8.2, M = 7, s = 1, o = (1, 2, 3, 4); the third schedule is the optimal one.
    instance = Instance.from_arrays([1] * 4, [1, 2, 3, 4], memory_limit=7)
    first = Schedule(instance, [0, 2, 0, 3])
    second = Schedule(instance, [1, 1, 0, 3])
    third = Schedule(instance, [0, 0, 0, 2])
    assert all(schedule.is_feasible for schedule in (first, second, third))
    assert [s.total_latency for s in (first, second, third)] == [15, 15, 12]
    assert optimal_total_latency(instance)[0] == 12

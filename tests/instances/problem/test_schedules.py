"""Schedules of every kind in rounds against one definition: costs, memory, violations."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from blocks import drawn, held, usable
from effort import examples
from hypothesis import given, settings
from strategies import any_schedules

from instances import (
    FleetSchedule,
    Instance,
    MemoryRule,
    PreemptiveSchedule,
    Request,
    Schedule,
    SecondsSchedule,
    ServiceLevel,
    Violation,
    Workload,
    load,
    save,
)
from online import AffineTime

KINDS = ("plain", "preemptive", "fleet")
RULES = [MemoryRule(), MemoryRule(1, "next"), MemoryRule(3), MemoryRule(4, "next")]
ONE = Instance.from_arrays([2], [4], memory_limit=10)
PAIR = Instance([Request(0, 1, 3), Request(0, 1, 1)], 6)

Drawn = tuple[Any, list[list[int]], list[int]]


def drawn_schedule(rng: np.random.Generator, kind: str) -> Drawn:
    """Draw a schedule with weights and any memory rule, and the rounds and replica of each."""
    rule = RULES[rng.integers(len(RULES))]
    base = drawn(rng, rule)
    count, arrivals = len(base), rng.integers(0, 6, len(base))
    instance = Instance.from_arrays(
        base.prompt_lengths,
        base.output_lengths,
        arrivals,
        memory_limit=base.memory_limit,
        weights=rng.integers(1, 4, count),
        memory_rule=rule,
        replicas=2 if kind == "fleet" else 1,
    )
    starts = arrivals + rng.integers(-1, 12, count)
    steps = [1, 1, 1, 3] if kind == "preemptive" else [1]
    rounds = [
        (start + np.cumsum(rng.choice(steps, request.output_length))).tolist()
        for start, request in zip(starts, instance, strict=True)
    ]
    replicas = rng.integers(0, instance.replicas, count)
    if kind == "plain":
        return Schedule(instance, starts), rounds, replicas.tolist()
    if kind == "preemptive":
        return PreemptiveSchedule.from_rounds(instance, rounds), rounds, replicas.tolist()
    return FleetSchedule.from_starts(instance, replicas, starts), rounds, replicas.tolist()


def check_costs(schedule: Any, rounds: list[list[int]]) -> None:
    instance = schedule.problem
    ends = [own[-1] for own in rounds]
    latencies = [end - q.arrival_time for end, q in zip(ends, instance, strict=True)]
    assert schedule.completion_times.tolist() == ends
    assert schedule.first_token_times.tolist() == [own[0] for own in rounds]
    assert schedule.start_times.tolist() == [own[0] - 1 for own in rounds]
    assert schedule.latencies.tolist() == latencies
    total = sum(q.weight * one for q, one in zip(instance, latencies, strict=True))
    assert (schedule.total_latency, schedule.makespan) == (total, max(ends))
    assert type(schedule.total_latency) is int
    if not isinstance(schedule, FleetSchedule):
        least = sum(q.weight * q.output_length for q in instance)
        assert schedule.total_waiting == total - least
    assert schedule.mean_latency == pytest.approx(total / sum(q.weight for q in instance))
    late = schedule.on_time(ServiceLevel(latency=6)).tolist()
    assert late == [one <= 6 for one in latencies]


def check_violations(schedule: Any, rounds: list[list[int]], replicas: list[int]) -> None:
    instance = schedule.problem
    rule, limit = instance.memory_rule, usable(instance.memory_rule, instance.memory_limit)
    early = {
        (q.id, q.arrival_time + 1 - own[0])
        for q, own in zip(instance, rounds, strict=True)
        if own[0] <= q.arrival_time
    }
    memory: Counter[tuple[int, int]] = Counter()
    for q, own, replica in zip(instance, rounds, replicas, strict=True):
        for token, r in enumerate(own, 1):
            memory[replica, r] += held(rule, q.prompt_length, token)
    over = {place: amount - limit for place, amount in memory.items() if amount > limit}
    found = schedule.violations()
    assert {(v.request_id, v.amount) for v in found if v.kind == "early-start"} == early
    reported = {(v.replica or 0, v.round_index): v.amount for v in found if v.kind == "memory"}
    assert reported.items() <= over.items()
    # Memory grows up to the ends of stretches: the last round of a crowded spell is reported.
    assert all((k, r) in reported for k, r in over if (k, r + 1) not in over)
    assert schedule.is_feasible == (not early and not over)
    if not isinstance(schedule, FleetSchedule) and min(own[0] for own in rounds) > 0:
        profile = [memory[0, r] for r in range(schedule.makespan + 1)]
        assert schedule.memory_profile().tolist() == profile


@pytest.mark.parametrize("kind", KINDS)
def test_costs_memory_and_violations_are_those_of_the_definition(kind: str) -> None:
    """[J25] Section 2."""
    rng = np.random.default_rng(KINDS.index(kind))
    seen: Counter[bool] = Counter()
    for _ in range(examples(120)):
        schedule, rounds, replicas = drawn_schedule(rng, kind)
        check_costs(schedule, rounds)
        check_violations(schedule, rounds, replicas)
        for twin in (pickle.loads(pickle.dumps(schedule)), copy.deepcopy(schedule)):  # noqa: S301
            assert twin == schedule
            assert hash(twin) == hash(schedule)
            assert not twin.completion_times.flags.writeable
        if kind == "preemptive":
            assert schedule.preemptions == sum(
                b - a > 1 for own in rounds for a, b in pairwise(own)
            )
            arrays = [np.array(own, dtype=np.int64) for own in rounds]
            assert PreemptiveSchedule.from_rounds(schedule.instance, arrays) == schedule
            assert PreemptiveSchedule(schedule.instance, schedule.stretches) == schedule
        seen[schedule.is_feasible] += 1
    assert min(seen[True], seen[False]) > 5


@settings(max_examples=examples(100))
@given(any_schedules())
def test_a_schedule_without_preemption_is_a_special_case(schedule: Schedule) -> None:
    same = PreemptiveSchedule.from_schedule(schedule)
    assert same.preemptions == 0
    assert same.violations() == schedule.violations()
    assert same.total_latency == schedule.total_latency
    assert same.start_times.tolist() == schedule.start_times.tolist()


def test_stretches_without_a_round_between_them_become_one() -> None:
    whole = PreemptiveSchedule(ONE, [[(1, 4)]])
    assert PreemptiveSchedule(ONE, [[(1, 2), (3, 3), (4, 4)]]) == whole
    assert PreemptiveSchedule(ONE, [[(2, 2), (5, 7)]]).start_times.tolist() == [1]
    assert whole != PreemptiveSchedule(ONE, [[(1, 3), (5, 5)]])


def test_violations_read_as_sentences() -> None:
    instance = Instance([Request(2, 3, 2, "x"), Request(0, 3, 2)], 9)
    early, crowded = Schedule(instance, [0, 0]).violations()
    assert str(early) == "request 'x' starts 2 rounds before it arrives"
    assert crowded == Violation("memory", None, 2, 1)
    assert str(crowded) == "round 2 holds 1 tokens more than memory_limit"


def test_late_and_large_schedules_are_examined_without_a_profile() -> None:
    late = 2**53 - 10
    instance = Instance([Request(0, 3, 2), Request(0, 3, 2)], 9)
    assert Schedule(instance, [0, late]).is_feasible
    (clash,) = Schedule(instance, [late, late]).violations()
    assert (clash.kind, clash.round_index, clash.amount) == ("memory", late + 2, 1)
    many = Schedule(Instance([Request(0, 1, 1) for _ in range(3000)], 2), [2**53] * 3000)
    assert (many.total_latency, many.total_waiting) == (3000 * (2**53 + 1), 3000 * 2**53)


def test_a_schedule_is_a_value_that_cannot_be_changed() -> None:
    source = np.array([0, 1])
    schedule = Schedule(PAIR, source)
    source[0] = 5
    for column in (schedule.start_times, schedule.completion_times):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7
    assert schedule == Schedule(PAIR, np.array([0, 1], dtype=np.int32))
    assert schedule not in (Schedule(PAIR, [1, 0]), Schedule(PAIR.renamed("x"), [0, 1]))


COLUMNS = ([1, 2, 1], [3, 2, 1], [0, 1, 1])


def weighted(*weights: int) -> Instance:
    return Instance.from_arrays(*COLUMNS, memory_limit=6, weights=weights)


def test_weights_change_the_digest_unless_all_are_one() -> None:
    plain, ones = Instance.from_arrays(*COLUMNS, memory_limit=6), weighted(1, 1, 1)
    assert ones == plain
    assert ones.digest == plain.digest
    ones.refuse_weights("is not 1")
    assert len({weighted(*w).digest for w in ((1, 1, 1), (1, 5, 2), (5, 1, 2), (1, 2, 5))}) == 4
    assert weighted(1, 5, 2).of([2, 1]).weights.tolist() == [2, 5]


def test_weights_are_shown_only_where_there_are_any() -> None:
    instance = weighted(1, 5, 2)
    assert instance.frame()["weight"].tolist() == [1, 5, 2]
    assert Schedule(instance, [0, 2, 4]).frame()["weight"].tolist() == [1, 5, 2]
    assert "weight" in instance._repr_html_()
    assert "weight" not in weighted(1, 1, 1).frame()
    assert "weight" not in weighted(1, 1, 1)._repr_html_()
    assert "weight" not in Workload([0.0], [1], [1], memory_limit=4).frame()


LENGTHS = ([2, 3, 1], [4, 2, 3])
FLEET = Instance.from_arrays(*LENGTHS, [0, 0, 1], memory_limit=6, replicas=2)
MACHINE: dict[str, Any] = {"memory_limit": 6, "batch_time": AffineTime(0.25, 0.5)}
TIMED = Workload([0.0, 0.5, 1.0], *LENGTHS, replicas=2, **MACHINE)


@pytest.mark.parametrize("problem", [FLEET, TIMED], ids=["rounds", "seconds"])
def test_one_replica_is_the_problem_as_it_was(problem: Instance | Workload) -> None:
    alone = problem.alone()
    assert (alone.replicas, alone.digest) == (1, problem.replaced(replicas=1).digest)
    assert len({problem.replaced(replicas=count).digest for count in (1, 2, 3)}) == 3
    assert "replicas=2" in repr(problem)
    assert "replicas" not in repr(alone)
    kept = [problem.of([0, 2]), problem.replaced(memory_rule=MemoryRule(block_size=2))]
    assert [one.replicas for one in kept] == [2, 2]
    assert problem.alone([0, 2]).ids == (0, 2)


def test_with_one_replica_digests_are_those_of_older_versions() -> None:
    assert FLEET.alone().digest.startswith("31ebdef5")
    assert TIMED.alone().digest.startswith("9efc532b")


def test_a_fleet_in_seconds_costs_what_its_replicas_cost() -> None:
    parts = [
        SecondsSchedule(TIMED.alone(own), rows)
        for own, rows in (([0], [(0, 1, 4)]), ([1, 2], [(0, 1, 2), (1, 3, 3)]))
    ]
    schedule = FleetSchedule(TIMED, [0, 1, 1], parts)
    assert schedule.is_feasible
    assert schedule.total_latency == pytest.approx(sum(part.total_latency for part in parts))
    assert schedule.latencies[1:].tolist() == parts[1].latencies.tolist()
    assert schedule.makespan == max(part.makespan for part in parts)
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # noqa: S301


def test_a_violation_names_its_replica_and_a_file_keeps_replicas(tmp_path) -> None:
    (crowded,) = FleetSchedule.from_starts(FLEET, [0, 1, 1], [0, 0, 1]).violations()
    assert str(crowded).endswith("on replica 1")
    assert FleetSchedule.from_starts(FLEET, [1, 1, 1], [0, 4, 6]).is_feasible
    save(FLEET, tmp_path / "fleet.json")
    assert load(tmp_path / "fleet.json") == FLEET


def test_w25_example_2() -> None:
    # [W25] Example 2: two batches of (s, o, n) that each fill M = 12, one after the other.
    instance = Instance.from_arrays([1] * 4 + [3] * 2, [2] * 4 + [3] * 2, memory_limit=12)
    both = [Schedule(instance, starts) for starts in ([0] * 4 + [2] * 2, [3] * 4 + [0] * 2)]
    assert all(one.is_feasible for one in both)
    assert [one.total_latency for one in both] == [18, 26]

"""Fleets: problems with several replicas, and their schedules."""

from __future__ import annotations

import pickle

import pytest

from instances import (
    FleetSchedule,
    Instance,
    MemoryRule,
    PreemptiveSchedule,
    SecondsSchedule,
    ServiceLevel,
    Workload,
    load,
    load_schedule,
    save,
    save_schedule,
)
from online import AffineTime

LENGTHS = ([2, 3, 1], [4, 2, 3])
FLEET = Instance.from_arrays(*LENGTHS, [0, 0, 1], memory_limit=6, replicas=2)
BATCH_TIME = AffineTime(0.25, 0.5, 0.0)
TIMED = Workload([0.0, 0.5, 1.0], *LENGTHS, memory_limit=6, replicas=2, batch_time=BATCH_TIME)


def timed_schedule() -> FleetSchedule:
    parts = [
        SecondsSchedule.from_start_rounds(TIMED.alone(own), starts)
        for own, starts in (([0], [0]), ([1, 2], [0, 2]))
    ]
    return FleetSchedule(TIMED, [0, 1, 1], parts)


@pytest.mark.parametrize("problem", [FLEET, TIMED], ids=["rounds", "seconds"])
def test_one_replica_is_the_problem_as_it_was(problem) -> None:
    alone = problem.alone()
    assert (alone.replicas, alone.digest) == (1, problem.with_replicas(1).digest)
    assert len({problem.with_replicas(count).digest for count in (1, 2, 3)}) == 3
    assert "replicas=2" in repr(problem)
    assert "replicas" not in repr(alone)
    kept = [problem.of([0, 2]), problem.under(MemoryRule(block_size=2))]
    assert [one.replicas for one in kept] == [2, 2]
    assert problem.alone([0, 2]).ids == (0, 2)


def test_with_one_replica_digests_are_those_of_older_versions() -> None:
    assert FLEET.alone().digest.startswith("31ebdef5")
    assert TIMED.alone().digest.startswith("9efc532b")


def test_costs_and_times_are_those_of_the_parts() -> None:
    schedule = FleetSchedule.from_starts(FLEET, [0, 1, 1], [0, 0, 2])
    # Replica 1 holds 5 tokens in round 2, and 2, 3, 4 from round 3 on.
    assert schedule.is_feasible
    assert schedule.completion_times.tolist() == [4, 2, 5]
    assert schedule.first_token_times.tolist() == [1, 1, 3]
    assert (schedule.total_latency, schedule.total_waiting, schedule.makespan) == (10, 1, 5)
    assert schedule.mean_latency == pytest.approx(10 / 3)
    assert schedule.on_time(ServiceLevel(latency=3)).tolist() == [False, True, False]
    in_seconds = timed_schedule()
    assert in_seconds.is_feasible
    each = [part.total_latency for part in in_seconds.parts]
    assert in_seconds.total_latency == pytest.approx(sum(each))
    assert in_seconds.latencies[1:].tolist() == in_seconds.parts[1].latencies.tolist()


def test_violations_name_the_replica() -> None:
    crowded = FleetSchedule.from_starts(FLEET, [0, 1, 1], [0, 0, 1])
    (violation,) = crowded.violations()
    assert (violation.kind, violation.replica, violation.round_index) == ("memory", 1, 2)
    assert str(violation).endswith("on replica 1")
    early = FleetSchedule.from_starts(FLEET, [1, 1, 0], [0, 4, 0])
    assert [(one.kind, one.replica) for one in early.violations()] == [("early-start", 0)]


def test_memory_is_that_of_one_replica() -> None:
    instance = Instance.from_arrays([3, 3], [2, 2], memory_limit=5, replicas=2)
    assert FleetSchedule.from_starts(instance, [0, 1], [0, 0]).is_feasible
    assert not FleetSchedule.from_starts(instance, [0, 0], [0, 0]).is_feasible


@pytest.mark.parametrize("kind", ["starts", "stretches", "empty replica"])
def test_files_keep_replicas_and_assignment(kind: str, tmp_path) -> None:
    if kind == "starts":
        schedule = FleetSchedule.from_starts(FLEET, [0, 1, 1], [0, 0, 2])
    elif kind == "stretches":
        part = PreemptiveSchedule(FLEET.alone([0, 1]), [[[1, 1], [4, 6]], [[2, 3]]])
        other = PreemptiveSchedule(FLEET.alone([2]), [[[2, 4]]])
        schedule = FleetSchedule(FLEET, [0, 0, 1], [part, other])
    else:
        schedule = FleetSchedule.from_starts(FLEET, [1, 1, 1], [0, 4, 6])
    save_schedule(schedule, tmp_path / "schedule.json")
    assert load_schedule(tmp_path / "schedule.json") == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # noqa: S301
    save(FLEET, tmp_path / "fleet.json")
    assert load(tmp_path / "fleet.json") == FLEET

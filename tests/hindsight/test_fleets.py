"""Fleets in rounds: results, starts, and functions that refuse a fleet."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import hindsight
from instances import (
    FleetSchedule,
    Instance,
    InvalidTypeError,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
    ServiceLevel,
    class_batches,
    one_long_and_units,
)

FLEET = Instance.from_arrays([2, 3, 1, 2], [4, 2, 3, 2], [0, 0, 1, 1], memory_limit=6, replicas=2)


@pytest.fixture(scope="module")
def solved() -> hindsight.Result:
    return hindsight.solve(FLEET, progress=False)


def test_a_result_shows_and_stores_its_fleet_schedule(solved: hindsight.Result) -> None:
    assert repr(solved).startswith("Result(Instance(4 requests, memory_limit=6, replicas=2)")
    known = solved.known_bounds()
    assert (known.upper_bound, known.start_times) == (solved.upper_bound, None)
    assert known.attached_to(FLEET).digest == FLEET.digest
    again = copy.deepcopy(solved)
    assert again.schedule == solved.schedule
    lines: list[Any] = []
    hindsight.solve(FLEET, progress=lines.append)
    assert lines
    assert lines[-1].upper_bound == lines[-1].lower_bound == solved.upper_bound


def test_replicas_beyond_the_requests_stay_empty() -> None:
    for replicas in (4, 5, 1_000):
        result = hindsight.solve(FLEET.replaced(replicas=replicas), progress=False)
        assert result.status == "optimal"
        assert result.upper_bound == FLEET.total_output_length
        assert len(result.schedule.parts) == replicas
        assert hindsight.build_model(FLEET.replaced(replicas=replicas)).nvariables() < 1000
    one = hindsight.solve(FLEET.of([0]), start=FleetSchedule.from_starts(FLEET.of([0]), [1], [3]))
    assert (one.status, one.upper_bound) == ("optimal", 4)


def test_a_start_is_taken_and_one_of_another_kind_is_refused(solved: hindsight.Result) -> None:
    def stop(_: object) -> bool:
        return True

    kept = hindsight.solve(FLEET, start=solved.schedule, progress=stop)
    assert kept.upper_bound == solved.upper_bound
    assert kept.stop_reason in ("interrupted", "proof")
    stopped = [PreemptiveSchedule.from_schedule(part) for part in solved.schedule.parts]
    preemptive = FleetSchedule(FLEET, solved.schedule.assignment, stopped)
    with pytest.raises(InvalidTypeError, match="is not a FleetSchedule of parts of type Schedule"):
        hindsight.solve(FLEET, start=preemptive, progress=False)
    with pytest.raises(InvalidTypeError, match="is not a FleetSchedule"):
        hindsight.solve(FLEET, start=Schedule(FLEET.alone(), [0, 9, 9, 20]), progress=False)
    with pytest.raises(InvalidValueError, match="another instance"):
        hindsight.solve(FLEET.replaced(replicas=3), start=solved.schedule, progress=False)


REFUSED: dict[str, Callable[[], object]] = {
    "class_batches": lambda: class_batches(FLEET),
    "one_long_and_units": lambda: one_long_and_units(FLEET),
    "transportation_bound": lambda: hindsight.transportation_bound(FLEET),
    "read_solution": lambda: hindsight.read_solution("missing.sol", FLEET),
    "check_bound": lambda: hindsight.check_bound(lambda instance: 0, [FLEET]),
    "solve with bounds": lambda: hindsight.solve(FLEET, bounds=lambda instance: 0, progress=False),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_made_for_one_machine_refuses_a_fleet_in_one_line(name: str) -> None:
    with pytest.raises(
        InvalidValueError, match="replicas = 2 is not 1|one replica.*replicas = 2,"
    ) as refusal:
        REFUSED[name]()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("replicas", [3, pytest.param(100_000, marks=pytest.mark.slow)])
def test_more_replicas_than_requests_serve_each_alone(replicas: int) -> None:
    fleet = Instance.from_arrays([2] * 3, [2] * 3, memory_limit=5, replicas=replicas)
    found = hindsight.solve(fleet, goal=hindsight.OnTime(ServiceLevel(latency=2), "serve"))
    assert (found.lower_bound, found.upper_bound) == (3, 3)
    assert found.schedule.latencies.tolist() == [2, 2, 2]
    assert hindsight.solve(fleet, goal=hindsight.Tail(1.0)).upper_bound == 2

"""The most requests on time, and the shortest tails, of fleets in rounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fleets import Level, is_feasible, least_quantile, most_on_time, rows_of, rule_of
from tiny_fleets import tiny_fleet

import hindsight
from instances import FleetSchedule, Instance, ServiceLevel


def levels_of(rng: np.random.Generator, fleet: Instance) -> list[Level]:
    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    return [(pick(2, 3, 4.5, 6), pick(None, 1, 2, 3.2), pick(None, None, 0.5, 1)) for _ in fleet]


def check_schedule(schedule: FleetSchedule) -> None:
    """It is feasible by the definition."""
    fleet = schedule.instance
    rounds = schedule.assignment.tolist(), schedule.start_times.tolist()
    assert is_feasible(rows_of(fleet), fleet.memory_limit, rule_of(fleet), *rounds)


def check_against_enumeration(seed: int, requests: int) -> None:
    rng = np.random.default_rng(seed)
    fleet = tiny_fleet(rng, requests)
    limits = levels_of(rng, fleet)
    levels = [ServiceLevel(*one) for one in limits]
    shape = fleet.memory_limit, fleet.replicas
    best = most_on_time(rows_of(fleet), *shape, limits, rule_of(fleet))
    formulation: Any = ("dense", "sparse")[seed % 2]
    found = hindsight.attainment(fleet, levels, formulation=formulation)
    assert (found.lower_bound, found.upper_bound, found.status) == (best, best, "optimal")
    if best:
        assert found.schedule.problem.digest == fleet.of(served(found)).digest
        check_schedule(found.schedule)
        assert len(found.schedule.problem) == best
    everybody = hindsight.attainment(fleet, levels, late="serve")
    check_schedule(everybody.schedule)
    assert everybody.schedule.problem.digest == fleet.digest
    assert int(everybody.schedule.on_time(levels).sum()) >= everybody.lower_bound == best
    at_once = hindsight.attainment(fleet, levels, 0.0)
    assert at_once.lower_bound <= best <= at_once.upper_bound


def served(found: hindsight.AttainmentResult) -> list[int]:
    """Positions of the requests of a schedule, by their ids."""
    return list(found.schedule.problem.ids)


@pytest.mark.parametrize("seed", range(15))
def test_small_optima_are_those_of_enumeration(seed: int) -> None:
    check_against_enumeration(seed, 5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_more_small_optima_are_those_of_enumeration(seed: int) -> None:
    check_against_enumeration(seed, 6)


def check_quantiles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet = tiny_fleet(rng, 4)
    shape = fleet.memory_limit, fleet.replicas
    for limit in ("latency", "first_token"):
        place = int(rng.integers(1, len(fleet) + 1))
        best = least_quantile(rows_of(fleet), *shape, place, limit == "first_token", rule_of(fleet))
        found = hindsight.tail(fleet, place / len(fleet), limit=limit)
        assert (found.lower_bound, found.upper_bound) == (best, best)
        check_schedule(found.schedule)
        assert found.schedule.problem.digest == fleet.digest


@pytest.mark.parametrize("seed", range(5))
def test_small_quantiles_are_those_of_enumeration(seed: int) -> None:
    check_quantiles(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_more_small_quantiles_are_those_of_enumeration(seed: int) -> None:
    check_quantiles(seed)


def test_memory_in_pieces_serves_fewer_than_in_one() -> None:
    # Each holds 4 tokens: there is room for one in 6 of them, and for three in 12.
    fleet = Instance.from_arrays([3] * 7, [1] * 7, memory_limit=6, replicas=2)
    assert hindsight.attainment(fleet, ServiceLevel(latency=2)).upper_bound == 4
    pooled = Instance(fleet, 12)
    assert hindsight.attainment(pooled, ServiceLevel(latency=2)).upper_bound == 6


@pytest.mark.parametrize("replicas", [3, 100_000])
def test_more_replicas_than_requests_serve_each_alone(replicas: int) -> None:
    fleet = Instance.from_arrays([2] * 3, [2] * 3, memory_limit=5, replicas=replicas)
    found = hindsight.attainment(fleet, ServiceLevel(latency=2), late="serve")
    assert (found.lower_bound, found.upper_bound) == (3, 3)
    assert found.schedule.latencies.tolist() == [2, 2, 2]
    assert hindsight.tail(fleet, 1.0).upper_bound == 2


@pytest.mark.parametrize("late", ["drop", "serve"])
def test_what_arrives_far_apart_counts_as_if_alone(late: Any) -> None:
    # Two at once need 8 of 6 tokens: with a latency of 2 a replica serves one of each three.
    fleet = Instance.from_arrays(
        [2] * 6, [2] * 6, [5] * 3 + [10**9] * 3, memory_limit=6, replicas=2
    )
    found = hindsight.attainment(fleet, ServiceLevel(latency=2), late=late)
    assert (found.lower_bound, found.upper_bound) == (4, 4)
    check_schedule(found.schedule)


def test_prices_bound_many_requests_and_schedules_are_checked() -> None:
    rng = np.random.default_rng(0)
    fleet = Instance.from_arrays(
        rng.integers(1, 60, 200),
        rng.integers(1, 80, 200),
        np.sort(rng.integers(0, 100, 200)),
        memory_limit=700,
        replicas=4,
    )
    level = ServiceLevel(latency=90)
    found = hindsight.attainment(fleet, level, 5.0, gap=0.06)
    assert found.stop_reason == "gap"
    assert found.lower_bound < found.upper_bound < 200
    assert (found.best_bound, found.certified) == ("memory prices", True)
    check_schedule(found.schedule)
    kept = found.schedule.on_time(level)
    assert kept.all()
    assert len(kept) == found.lower_bound

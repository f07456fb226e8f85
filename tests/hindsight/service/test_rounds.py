"""The most requests on time in rounds, and the shortest tails."""

from __future__ import annotations

import numpy as np
import pytest
from tiny_problems import drawn_instance, drawn_levels, most_on_time

import hindsight
from hindsight import build_model
from hindsight.exact.pyomo_model import model_size
from hindsight.exact.starts import latest_starts
from instances import Instance, MemoryRule, Request, ServiceLevel
from instances.service_level import limits_of


def test_prices_bound_many_requests_and_schedules_are_checked() -> None:
    rng = np.random.default_rng(0)
    instance = Instance.from_arrays(
        rng.integers(1, 60, 300),
        rng.integers(1, 80, 300),
        np.sort(rng.integers(0, 600, 300)),
        memory_limit=1000,
    )
    told = []
    found = hindsight.solve(
        instance,
        10,
        goal=hindsight.OnTime(ServiceLevel(latency=90)),
        gap=0.06,
        progress=told.append,
    )
    assert found.stop_reason == "gap"
    assert found.lower_bound < found.upper_bound < 300
    assert found.best_bound == "memory prices"
    assert found.certified
    kept = found.schedule.on_time(ServiceLevel(latency=90))
    assert kept.all()
    assert len(kept) == found.lower_bound
    assert (told[-1].lower_bound, told[-1].upper_bound) == (found.lower_bound, found.upper_bound)


@pytest.mark.parametrize("rule", [MemoryRule(), MemoryRule(block_size=2)])
def test_what_arrives_far_apart_counts_as_if_alone(rule: MemoryRule) -> None:
    # Two at once need 8 of 6 tokens; the last of three takes 6 rounds.
    once = Instance.from_arrays([2] * 3, [2] * 3, memory_limit=6, memory_rule=rule)
    twice = Instance.from_arrays(
        [2] * 6, [2] * 6, [5] * 3 + [10**9] * 3, memory_limit=6, memory_rule=rule
    )
    for level, best in ((ServiceLevel(latency=4), 2), (ServiceLevel(time_per_token=1), 3)):
        assert hindsight.solve(once, goal=hindsight.OnTime(level)).lower_bound == best
        for late in ("drop", "serve"):
            found = hindsight.solve(twice, goal=hindsight.OnTime(level, late))
            assert (found.lower_bound, found.upper_bound) == (2 * best, 2 * best)
            assert found.schedule.is_feasible
            assert int(found.schedule.on_time(level).sum()) == 2 * best
    assert found.schedule.start_times.max() < 10**9 + 10
    last = hindsight.solve(twice, goal=hindsight.Tail(1.0))
    assert (last.lower_bound, last.upper_bound) == (6, 6)


def test_a_program_with_a_level_is_sized_by_its_starts_in_time() -> None:
    level = ServiceLevel(latency=3)
    instance = Instance.from_arrays([1] * 3, [1] * 3, [0, 50, 50], memory_limit=2)
    last = latest_starts(instance, limits_of(level, 3))
    assert last.tolist() == [2, 52, 52]
    assert latest_starts(instance, limits_of(ServiceLevel(latency=99), 3))[0] >= 52
    assert model_size(instance, "dense", 53, last).columns == 9
    assert model_size(instance, "sparse", 53, last).columns == 6 + 2 * 53
    assert len(build_model(instance, "sparse", goal=hindsight.OnTime(level)).x) == 6


@pytest.mark.parametrize("seed", range(8))
def test_late_requests_run_at_the_end_where_rounds_are_too_many(seed: int) -> None:
    """The last request comes so late that a memory profile would be too long."""
    rng = np.random.default_rng(seed)
    instance = drawn_instance(seed)
    levels = [*drawn_levels(rng, len(instance)), ServiceLevel(latency=1)]
    whole = instance.replaced(requests=[*instance.requests, Request(10**8, 1, 1)])
    found = hindsight.solve(whole, goal=hindsight.OnTime(levels, "serve"))
    assert found.schedule.is_feasible
    assert int(found.schedule.on_time(levels).sum()) >= most_on_time(instance, levels[:-1]) + 1


@pytest.mark.parametrize("replicas", [1, 2])
def test_late_requests_run_after_all_others_where_rounds_are_too_many(replicas: int) -> None:
    """Beyond an idle gap too: those of the first block wait until the second is served."""
    long = 20
    first, later = 2 * replicas, 3 * replicas
    arrivals = [0] * first + [4 * long * replicas + 2] * later + [10**8]
    n = first + later + 1
    instance = Instance.from_arrays(
        [1] * n, [long] * n, arrivals, memory_limit=long + 1, replicas=replicas
    )
    goal = hindsight.OnTime(ServiceLevel(latency=long), "serve")
    found = hindsight.solve(instance, 5, goal=goal, threads=1)
    assert found.schedule.violations() == []
    assert found.lower_bound == 2 * replicas + 1

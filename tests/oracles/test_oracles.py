"""The oracles themselves: the search with pruning against plain enumeration without any."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from typing import Any

import fleets
import numpy as np
import pytest
from brute_force import (
    all_feasible_schedules,
    is_feasible_by_definition,
    makespan_by_definition,
    memory_by_definition,
    memory_in_round,
    optimal_makespan,
    optimal_total_latency,
    rows_of,
    sound_horizon,
    total_latency_by_definition,
)
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from preemptive_by_definition import is_feasible_in_rounds, preemptive_optimum
from seconds_optimum import optimum
from strategies import instances, packed_schedules, serial_schedules
from tiny_fleets import tiny_fleet

from instances import Instance, Request, Schedule

tiny = st.one_of(
    instances(max_requests=3, max_memory=6, max_arrival=4),
    instances(max_requests=4, max_memory=4, max_arrival=2),
)


def test_memory_by_definition_counts_by_hand() -> None:
    instance = Instance([Request(0, 3, 2), Request(0, 1, 3)], 9)
    # Rounds 0..4; the first holds 4, 5 in rounds 1, 2; the second 2, 3, 4 in rounds 2, 3, 4.
    assert memory_by_definition(instance, [0, 1]) == [0, 4, 7, 3, 4]
    for starts in ([0, 1], [-1, 3], [-5, 0], [-2, -3], [-9, -9]):
        rounds = range(makespan_by_definition(instance, starts) + 1)
        held = [memory_in_round(instance, starts, r) for r in rounds]
        assert memory_by_definition(instance, starts) == held


@pytest.mark.parametrize(
    ("rows", "limit", "total"),
    [
        # 3 and 4 tokens processed and resident, then 1 and 5.
        ([(Fraction(1, 3), 3, 2)], 5, Fraction(11 + 10, 8)),
        # Both in one round; where memory holds one only, one after the other.
        ([(Fraction(0), 1, 1)] * 2, 4, Fraction(10 + 10, 8)),
        ([(Fraction(0), 1, 1)] * 2, 3, Fraction(7 + 14, 8)),
        # The second begins when the first ends, or when it arrives.
        ([(Fraction(0), 1, 1), (Fraction(1, 2), 1, 1)], 3, Fraction(7 + 14 - 4, 8)),
        ([(Fraction(0), 1, 1), (Fraction(7), 1, 1)], 3, Fraction(7 + 7, 8)),
    ],
)
def test_the_search_in_seconds_by_hand(rows: Any, limit: int, total: Fraction) -> None:
    found = optimum(
        *zip(*rows, strict=True),
        limit,
        lambda tokens, resident: Fraction(4 + tokens + resident, 8),
    )
    assert found == total


def test_enumeration_counts_by_hand() -> None:
    instance = Instance([Request(0, 1, 1), Request(1, 1, 1)], 2)
    # Completions by round 3, never together: (0,1) (0,2) (1,2) (2,1).
    assert sorted(all_feasible_schedules(instance, 3)) == [(0, 1), (0, 2), (1, 2), (2, 1)]


def test_enumeration_is_the_definition_filtered() -> None:
    instance = Instance([Request(0, 2, 2), Request(1, 1, 3)], 6)
    horizon = 7
    every = [
        (first, second)
        for first in range(horizon + 1)
        for second in range(horizon + 1)
        if is_feasible_by_definition(instance, (first, second))
        and makespan_by_definition(instance, (first, second)) <= horizon
    ]
    assert sorted(all_feasible_schedules(instance, horizon)) == every


@settings(max_examples=examples(80))
@given(tiny)
def test_search_finds_what_enumeration_finds(instance: Instance) -> None:
    # A round beyond the horizon, so that an unsound horizon would be seen as well.
    everything = list(all_feasible_schedules(instance, sound_horizon(instance) + 1))
    latency, starts = optimal_total_latency(instance)
    assert latency == min(total_latency_by_definition(instance, x) for x in everything)
    assert is_feasible_by_definition(instance, starts)
    assert total_latency_by_definition(instance, starts) == latency
    makespan, starts = optimal_makespan(instance)
    assert makespan == min(makespan_by_definition(instance, x) for x in everything)
    assert is_feasible_by_definition(instance, starts)
    assert makespan_by_definition(instance, starts) == makespan


@settings(max_examples=examples(80))
@given(
    st.one_of(
        instances(max_requests=2, max_memory=6, max_arrival=3),
        instances(max_requests=3, max_memory=4, max_arrival=2),
    )
)
def test_preemptive_search_finds_what_enumeration_of_rounds_finds(instance: Instance) -> None:
    rows = rows_of(instance)
    horizon = sound_horizon(instance)
    own = [list(combinations(range(a + 1, horizon + 1), o)) for a, _, o in rows]
    assert preemptive_optimum(rows, instance.memory_limit) == min(
        sum(one[-1] - a for one, (a, _, _) in zip(rounds, rows, strict=True))
        for rounds in product(*own)
        if is_feasible_in_rounds(rows, instance.memory_limit, rounds)
    )


def test_an_optimum_may_delay_a_request_that_fits() -> None:
    # Starting the long request at once fits, but then it is in the way of all the short ones.
    instance = Instance([Request(0, 1, 9), *[Request(1, 9, 1, f"short{k}") for k in range(4)]], 10)
    latency, starts = optimal_total_latency(instance)
    assert starts[0] > 0
    at_once = [s for s in all_feasible_schedules(instance, 14) if s[0] == 0]
    assert latency < min(total_latency_by_definition(instance, s) for s in at_once)


@pytest.mark.parametrize(("strategy"), [packed_schedules(), serial_schedules()])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_feasible_schedule_strategies_are_feasible(strategy, data) -> None:
    schedule: Schedule = data.draw(strategy)
    assert is_feasible_by_definition(schedule.instance, schedule.start_times.tolist())


@pytest.mark.parametrize("seed", range(8))
def test_optima_of_fleets_are_those_of_every_assignment_and_start(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet = tiny_fleet(rng, 3)
    rows, rule, n = fleets.rows_of(fleet), fleets.rule_of(fleet), len(fleet)
    end = fleets.last_round(rows) + 1
    starts = list(product(*(range(a, end - o + 1) for a, _, o, _ in rows)))
    assignments = product(range(fleet.replicas), repeat=n)
    every = [
        [start + o - a for start, (a, _, o, _) in zip(chosen, rows, strict=True)]
        for assignment in assignments
        for chosen in starts
        if fleets.is_feasible(rows, fleet.memory_limit, rule, assignment, chosen)
    ]
    weights = fleet.weights.tolist()
    costs = [sum(w * one for w, one in zip(weights, own, strict=True)) for own in every]
    shape = (fleet.memory_limit, fleet.replicas)
    assert fleets.least_total_latency(rows, *shape, rule) == min(costs)
    for place in range(1, n + 1):
        found = fleets.least_quantile(rows, *shape, place, False, rule)
        assert found == min(sorted(own)[place - 1] for own in every)
    most = [int(rng.integers(1, 7)) for _ in rows]
    levels = [(one, None, None) for one in most]
    assert fleets.most_on_time(rows, *shape, levels, rule) == max(
        sum(one <= limit for one, limit in zip(own, most, strict=True)) for own in every
    )

"""The oracles themselves: searches with pruning against plain enumeration without any."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import enumeration
import numpy as np
import pytest
from brute_force import (
    all_feasible_schedules,
    feasible_total,
    makespan_by_definition,
    memory_by_definition,
    memory_in_round,
    optimal_total_latency,
    rows_of,
    sound_horizon,
    total_latency_by_definition,
)
from certificates_by_definition import is_feasible
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances
from tiny_fleets import tiny_fleet
from tiny_problems import InSeconds, in_rounds, least_total_latency

from instances import Instance, Request, ServiceLevel, Workload
from online import AffineTime

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
def test_the_enumeration_in_seconds_by_hand(rows: Any, limit: int, total: Fraction) -> None:
    requests = tuple(enumeration.Request(*row) for row in rows)

    def seconds(works: Sequence[enumeration.Work]) -> Fraction:
        return Fraction(4 + sum(one.tokens + one.stored for one in works), 8)

    for preemption in ("keep", "recompute"):
        problem = enumeration.Problem(requests, limit, preemption=preemption, seconds=seconds)
        assert enumeration.least_total_latency(problem) == total


def test_a_chunk_kept_outside_the_cache_is_worth_its_round() -> None:
    # Before the second request arrives there is time for one token of the first prompt. Then both
    # others run in turn, and the first comes back with its token processed.
    workload = Workload([0.0, 0.5, 0.875], [2, 3, 2], [3, 1, 2], memory_limit=5)
    time = AffineTime(0.125, 0.125, 0.125)
    best = InSeconds.of(workload, time).least_total_latency()
    again = InSeconds.of(workload, time, "recompute").least_total_latency()
    assert (best, again) == (Fraction(67, 8), Fraction(17, 2))


def test_a_round_may_wait_for_an_arrival() -> None:
    # Alone first: 1 + 1.1 + 0.9 seconds of latency; a tenth later together: 1.1 + 1.
    workload = Workload([0.0, 0.1], [1, 1], [1, 1], memory_limit=4)
    assert InSeconds.of(workload, AffineTime(1.0)).least_total_latency() == Fraction(21, 10)


@settings(max_examples=examples(80))
@given(tiny)
def test_search_finds_what_enumeration_finds(instance: Instance) -> None:
    # A round beyond the horizon, so that an unsound horizon would be seen as well.
    everything = list(all_feasible_schedules(instance, sound_horizon(instance) + 1))
    latency, starts = optimal_total_latency(instance)
    assert latency == min(total_latency_by_definition(instance, x) for x in everything)
    assert feasible_total(instance, starts) == latency
    problem = in_rounds(instance)
    assert enumeration.least_total_latency(problem) == latency
    least = min(makespan_by_definition(instance, x) for x in everything)
    assert enumeration.least_makespan(problem) == least


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
    part = {"requests": rows, "memory_limit": instance.memory_limit}
    assert least_total_latency(instance, preemptive=True) == min(
        sum(one[-1] - a for one, (a, _, _) in zip(rounds, rows, strict=True))
        for rounds in product(*own)
        if is_feasible({"instance": part, "stretches": [[(r, r) for r in one] for one in rounds]})
    )


def test_an_optimum_may_delay_a_request_that_fits() -> None:
    # Starting the long request at once fits, but then it is in the way of all the short ones.
    instance = Instance([Request(0, 1, 9), *[Request(1, 9, 1, f"short{k}") for k in range(4)]], 10)
    latency, starts = optimal_total_latency(instance)
    assert starts[0] > 0
    at_once = [s for s in all_feasible_schedules(instance, 14) if s[0] == 0]
    assert latency < min(total_latency_by_definition(instance, s) for s in at_once)


@pytest.mark.parametrize("seed", range(8))
def test_optima_of_fleets_are_those_of_every_assignment_and_start(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fleet = tiny_fleet(rng, 3)
    problem, n = in_rounds(fleet), len(fleet)
    size, emitted, _ = problem.rule
    end = int(fleet.arrival_times.max() + fleet.output_lengths.sum()) + 1
    every = []
    for chosen in product(*(range(q.arrival, end - q.output + 1) for q in problem.requests)):
        for assignment in product(range(fleet.replicas), repeat=n):
            held: Counter[tuple[int, int]] = Counter()
            for q, start, k in zip(problem.requests, chosen, assignment, strict=True):
                for token in range(1, q.output + 1):
                    stored = q.prompt + token - (emitted == "next")
                    held[k, start + token] += -(-stored // size)
            if max(held.values()) <= fleet.memory_limit // size:
                own = zip(problem.requests, chosen, strict=True)
                every.append([start + q.output - q.arrival for q, start in own])
    weights = fleet.weights.tolist()
    costs = [sum(w * one for w, one in zip(weights, own, strict=True)) for own in every]
    assert enumeration.least_total_latency(problem) == min(costs)
    for place in range(1, n + 1):
        found = enumeration.least_quantile(problem, place, first_token=False)
        assert found == min(sorted(own)[place - 1] for own in every)
    most = [int(rng.integers(1, 7)) for _ in range(n)]
    levels = [ServiceLevel(latency=one) for one in most]
    assert enumeration.most_on_time(in_rounds(fleet, levels=levels)) == max(
        sum(one <= limit for one, limit in zip(own, most, strict=True)) for own in every
    )

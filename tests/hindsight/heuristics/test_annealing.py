"""Annealing against brute force; every feasible schedule can be encoded."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import (
    is_feasible_by_definition,
    optimal_total_latency,
    total_latency_by_definition,
)
from drawn_instances import columns_of, drawn_instance
from effort import sweep
from hypothesis import given
from strategies import schedules

from hindsight.heuristics.annealing import LocalSearch, SearchResult, improve
from hindsight.heuristics.schedule_decoder import earliest_fit
from instances import Instance, Schedule


def tiny(seed: int) -> Instance:
    last = 5 if seed % 2 else None
    return drawn_instance([53, seed], (5, 5), (6, 11), prompts=(1, 3), outputs=7, last_arrival=last)


def columns(instance: Instance) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    return *columns_of(instance), instance.memory_limit


def assert_sound(instance: Instance, result: SearchResult) -> None:
    starts = result.start_times.tolist()
    assert is_feasible_by_definition(instance, starts)
    assert total_latency_by_definition(instance, starts) == result.total_latency


@pytest.mark.parametrize("seed", sweep(range(24)))
def test_small_optima_are_reached(seed: int) -> None:
    instance = tiny(seed)
    result = improve(*columns(instance), seed=seed, move_limit=20_000)
    assert_sound(instance, result)
    assert result.total_latency == optimal_total_latency(instance)[0]


@given(schedules())
def test_every_feasible_schedule_is_decodable(schedule: Schedule) -> None:
    search = LocalSearch(*columns(schedule.instance), schedule.start_times)
    starts = schedule.start_times.copy()
    order, delay, _ = search._encode(starts)
    decoded = search._decode(order, delay)
    assert decoded is not None
    assert decoded.tolist() == starts.tolist()


@pytest.mark.parametrize("seed", sweep(range(50)))
def test_earliest_fit_by_trying_every_start(seed: int) -> None:
    rng = np.random.default_rng(seed)
    profile = rng.integers(0, 12, 40) * rng.integers(0, 2, 40)
    prompt, output, limit = (int(rng.integers(0, 4)), int(rng.integers(1, 6)), 14)
    for start in range(40):
        fitting = [
            t
            for t in range(start, 40 - output)
            if all(profile[t + j] + prompt + j <= limit for j in range(1, output + 1))
        ]
        found = earliest_fit(profile, start, prompt, output, limit)
        assert found == (fitting[0] if fitting else -1)


def test_deterministic_and_independent_of_slices() -> None:
    rng = np.random.default_rng(1)
    arguments = (rng.integers(1, 5, 20), rng.integers(1, 20, 20), None, 25)
    one = improve(*arguments, seed=3, move_limit=30_000)
    search = LocalSearch(*arguments, seed=3)
    for _ in range(10):
        two = search.run(move_limit=3_000)
    assert one.start_times.tolist() == two.start_times.tolist()
    assert one.moves == two.moves == 30_000


@pytest.mark.parametrize("n", [12, 400])
def test_time_limit_first_schedule_and_callback(n: int) -> None:
    rng = np.random.default_rng(0)
    prompts, outputs = rng.integers(1, 6, n), rng.integers(1, 30, n)
    arrivals = np.sort(rng.integers(0, 50, n))
    instance = Instance.from_arrays(prompts, outputs, arrivals, memory_limit=40)
    improve(*columns(instance), move_limit=10)  # compile
    given_starts = np.cumsum(np.r_[arrivals.max(), outputs])[:-1]
    seen: list[int] = []
    result = improve(
        *columns(instance),
        given_starts,
        time_limit=0.4,
        on_improvement=lambda starts, latency: seen.append(latency),
    )
    assert result.runtime < 1.5
    assert seen[0] == total_latency_by_definition(instance, given_starts.tolist())
    assert seen[-1] == result.total_latency
    assert seen == sorted(set(seen), reverse=True)
    assert [latency for _, _, latency in result.history] == seen
    assert_sound(instance, result)


def test_the_next_cycle_begins_from_what_is_offered() -> None:
    instance = tiny(0)
    optimum = improve(*columns(instance), move_limit=20_000)
    last = int(instance.arrival_times.max())
    one_by_one = last + np.cumsum(np.r_[0, instance.output_lengths])[:-1]
    search = LocalSearch(*columns(instance), one_by_one)
    search.offer(optimum.start_times)
    search.offer(one_by_one)
    assert search.best_cost == optimum.total_latency


def test_a_longer_schedule_that_is_better_finds_room() -> None:
    instance = Instance.from_arrays([1] * 10, [1] * 10, None, memory_limit=20)
    search = LocalSearch(*columns(instance), [20] * 10)
    offered = np.array([0] * 9 + [150])
    search.offer(offered)
    assert search.best_cost == 160
    order, delay, _ = search._encode(offered)
    decoded = search._decode(order, delay)
    assert decoded is not None
    assert decoded.tolist() == offered.tolist()


def test_one_request_and_bad_input() -> None:
    assert improve([2], [3], [4], 5, time_limit=1.0).total_latency == 3
    with pytest.raises(ValueError, match="1"):
        improve([1, 2], [1, 4], None, 5, time_limit=1.0)
    with pytest.raises(ValueError, match="not feasible"):
        improve([1, 1], [4, 4], None, 5, [0, 0], time_limit=1.0)
    with pytest.raises(ValueError, match="give one"):
        improve([1], [1], None, 5)

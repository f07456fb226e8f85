"""Annealing against brute force; every feasible schedule can be encoded."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import (
    is_feasible_by_definition,
    optimal_total_latency,
    total_latency_by_definition,
)
from drawn_instances import drawn_instance
from effort import sweep
from hypothesis import given
from strategies import schedules

from hindsight.heuristics import annealing
from hindsight.heuristics.annealing import LocalSearch
from hindsight.heuristics.schedule_decoder import earliest_fit
from hindsight.schedules.lists import one_after_another
from instances import Instance, Schedule
from instances.arrays import IntArray


def tiny(seed: int) -> Instance:
    last = 5 if seed % 2 else None
    return drawn_instance([53, seed], (5, 5), (6, 11), prompts=(1, 3), outputs=7, last_arrival=last)


def crowd(n: int) -> Instance:
    rng = np.random.default_rng(n)
    prompts, outputs, arrivals = (rng.integers(1, top, n) for top in (6, 30, 50))
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=40)


def annealed(instance: Instance, *slices: int, starts: IntArray | None = None) -> LocalSearch:
    """What a search holds after some calls of ``run`` is feasible and no worse than before."""
    search = LocalSearch(instance, starts, 3)
    for moves in slices:
        before = search.best_cost
        search.run(moves)
        assert search.best_cost <= before
        reached = search.best_starts.tolist()
        assert is_feasible_by_definition(instance, reached)
        assert total_latency_by_definition(instance, reached) == search.best_cost
    return search


def assert_decodable(search: LocalSearch, starts: IntArray) -> None:
    order, delay, _ = search._encode(starts)
    decoded = search._decode(order, delay)
    assert decoded is not None
    assert decoded.tolist() == starts.tolist()


@pytest.mark.parametrize("seed", sweep(range(24)))
def test_small_optima_are_reached(seed: int) -> None:
    search = annealed(tiny(seed), 20_000)
    assert search.best_cost == optimal_total_latency(tiny(seed))[0]


@given(schedules())
def test_every_feasible_schedule_is_decodable(schedule: Schedule) -> None:
    search = LocalSearch(schedule.instance, schedule.start_times)
    assert_decodable(search, schedule.start_times.copy())


@pytest.mark.parametrize("block_size", [None, 1, 3])
@pytest.mark.parametrize("seed", sweep(range(50)))
def test_earliest_fit_by_trying_every_start(seed: int, block_size: int | None) -> None:
    rng = np.random.default_rng(seed)
    profile = rng.integers(0, 12, 40) * rng.integers(0, 2, 40)
    prompt, output, limit = (int(rng.integers(0, 4)), int(rng.integers(1, 6)), 14)
    if block_size == 3:
        profile, limit = profile // 3, 4
    size = block_size or 1
    for start in range(40):
        fitting = [
            t
            for t in range(start, 40 - output)
            if all(profile[t + j] + -(-(prompt + j) // size) <= limit for j in range(1, output + 1))
        ]
        found = earliest_fit(profile, start, prompt, output, limit, block_size)
        assert found == (fitting[0] if fitting else -1)


@pytest.mark.parametrize(("n", "slices"), [(20, 10), (400, 3)])
def test_deterministic_and_independent_of_slices(n: int, slices: int) -> None:
    """Whole, and in windows, of which the three slices reach the third."""
    first = one_after_another(crowd(n)).start_times
    whole, parts = [3_000 * slices], [3_000] * slices
    one, two = (annealed(crowd(n), *moves, starts=first) for moves in (whole, parts))
    assert one.best_starts.tolist() == two.best_starts.tolist()
    assert one.moves == two.moves == 3_000 * slices
    assert one.best_cost < total_latency_by_definition(crowd(n), first.tolist())


def test_a_longer_schedule_that_is_better_finds_room() -> None:
    instance = Instance.from_arrays([1] * 10, [1] * 10, None, memory_limit=20)
    search = LocalSearch(instance, np.array([20] * 10))
    offered = np.array([0] * 9 + [150])
    search.offer(offered)
    assert search.best_cost == 160
    assert_decodable(search, offered)


def test_a_search_goes_on_after_it_found_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    search = LocalSearch(tiny(0), None)

    def fails(*_: object) -> float:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(annealing, "anneal", fails)
        with pytest.raises(MemoryError):
            search.run(10)
    moves = search.moves
    search.run(10)
    assert search.moves == moves + 10

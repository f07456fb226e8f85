"""Large instances: always a feasible schedule and a valid interval, whatever the limits."""

from __future__ import annotations

import numpy as np
import pytest

import hindsight
from hindsight import best_list_schedule
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.prices.volume import mean_busy_time_bound
from hindsight.rounds import program, solving
from hindsight.schedules import improving
from hindsight.schedules.improving import Improvement
from hindsight.schedules.lists import first_schedule, one_after_another
from instances import Instance, generate


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles stay short, and two of them that find nothing end a search."""
    for name, value in {"FIRST_MOVES": 20, "MOST_MOVES": 80, "PATIENCE": 2}.items():
        monkeypatch.setattr(improving, name, value)


def begun(instance: Instance, seed: int = 0, threads: int = 1) -> tuple[Interval, Improvement]:
    interval = Interval(Problem(instance))
    interval.offer(one_after_another(instance))
    return interval, Improvement(interval, seed, threads)


def searched(instance: Instance, rounds: int, seed: int = 0, threads: int = 1) -> Interval:
    interval, search = begun(instance, seed, threads)
    search.run_beams()
    search.run(rounds)
    return interval


def medium(seed: int, n: int = 80) -> Instance:
    rng = np.random.default_rng([83, seed])
    outputs = rng.integers(1, 40, n)
    arrivals = rng.integers(0, 200, n) if seed % 2 else np.zeros(n, dtype=np.int64)
    return Instance.from_arrays(rng.integers(1, 40, n), outputs, arrivals, memory_limit=160)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_rounds_seed_and_threads_decide_the_schedule(seed: int, threads: int) -> None:
    instance = medium(seed, n=160)
    first, second = (searched(instance, 8, 5, threads) for _ in range(2))
    assert first.schedule == second.schedule
    assert first.schedule.is_feasible
    interval, search = begun(instance, seed)
    search.run(0)
    assert (interval.schedule, search.rounds) == (one_after_another(instance), 0)


def test_beams_without_a_schedule_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(improving, "beam_schedule", lambda *_: None)
    interval, search = begun(medium(0))
    search.run_beams()
    assert interval.schedule == one_after_another(medium(0))


@pytest.mark.parametrize("seed", range(4))
def test_the_search_beats_the_list_schedules(seed: int) -> None:
    instance = medium(seed)
    assert searched(instance, 20).upper_bound < best_list_schedule(instance).total_latency


@pytest.mark.parametrize("arriving", [False, True])
def test_no_time_still_gives_an_interval(arriving: bool) -> None:
    rate = 0.05 if arriving else None
    instance = generate("mixed-long-short", seed=1, n=1500, arrival_rate=rate)
    result = hindsight.solve(instance, 0.0)
    assert result.stop_reason == "time-limit"
    assert result.schedule.is_feasible
    assert 0 < result.certified_lower_bound <= result.upper_bound
    # The first schedule is there whatever the limit: everything later only shrinks the interval.
    assert result.log[0].upper_bound == first_schedule(instance).total_latency
    assert result.log[1].lower_bound >= int(instance.output_lengths.sum())


def test_large_instances_are_solved_by_beams() -> None:
    instance = generate("mixed-long-short", seed=2, n=60)
    listed = best_list_schedule(instance).total_latency
    result = hindsight.solve(instance, method="beams", threads=1)
    assert result.stop_reason == "stalled"
    assert result.upper_bound < listed
    assert result.certified_lower_bound >= mean_busy_time_bound(instance)
    assert any(line.phase == "search" for line in result.log)


@pytest.mark.parametrize("limit", [None, 0.2])
def test_beams_take_over_where_the_program_has_no_chance(
    monkeypatch: pytest.MonkeyPatch, limit: float | None
) -> None:
    monkeypatch.setattr(program, "MOST_ENTRIES", 0)
    monkeypatch.setattr(solving, "refusal", lambda interval: "needs a small memory_limit")
    instance = Instance.from_arrays([3, 1, 2, 1, 3, 2], [6, 9, 4, 7, 3, 8], memory_limit=12)
    result = hindsight.solve(instance, limit, threads=1)
    assert result.stop_reason == ("stalled" if limit is None else "time-limit")
    # Whoever asks for the program gets the program.
    asked = hindsight.solve(instance, limit and 60.0, threads=1, method="mip")
    assert asked.stop_reason == "size"

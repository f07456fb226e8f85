"""`held_tokens` and `MemoryForecast` against plain loops over the definition."""

from __future__ import annotations

import numpy as np
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from instances.problem.memory import MemoryForecast, held_tokens

# A run: it started at `start` with a prompt of `prompt` tokens and runs `rounds` rounds.
Run = tuple[int, int, int]
NOW = 8


def held(runs: list[Run], round_index: int) -> int:
    """Tokens that ``runs`` hold in a round, counted one by one."""
    total = 0
    for start, prompt, rounds in runs:
        if start < round_index <= start + rounds:
            total += prompt + round_index - start
    return total


def fits_by_definition(limit: int, runs: list[Run], newcomer: Run) -> bool:
    start, _, _ = newcomer
    everyone = [*runs, newcomer]
    last = max(start + rounds for start, _, rounds in everyone)
    return all(held(everyone, r) <= limit for r in range(start + 1, last + 1))


@st.composite
def running(draw: st.DrawFn, min_size: int = 0) -> list[Run]:
    """Requests that started by ``NOW`` and still run in round ``NOW`` + 1."""
    runs = []
    for _ in range(draw(st.integers(min_size, 6))):
        start = draw(st.integers(0, NOW))
        ahead = draw(st.integers(1, 9))
        runs.append((start, draw(st.integers(0, 5)), NOW - start + ahead))
    return runs


@st.composite
def crowds(draw: st.DrawFn, min_size: int = 0) -> tuple[int, list[Run]]:
    """Running requests and a limit that they keep, often just so."""
    runs = draw(running(min_size))
    ends = [start + rounds for start, _, rounds in runs]
    peak = max([held(runs, r) for r in range(NOW + 1, max(ends, default=NOW) + 1)], default=1)
    return peak + draw(st.integers(0, 12)), runs


def forecast_of(limit: int, runs: list[Run]) -> MemoryForecast:
    forecast = MemoryForecast(limit)
    for run in runs:
        forecast.add(*run)
    return forecast


def assert_same_future(forecast: MemoryForecast, runs: list[Run], after: int) -> None:
    last = max([start + rounds for start, _, rounds in runs], default=after)
    for r in range(after + 1, last + 3):
        assert forecast.memory_at(r) == held(runs, r)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 9)), max_size=8),
       st.integers(0, 4))  # fmt: skip
def test_profile_is_the_definition(runs: list[Run], beyond: int) -> None:
    """[J25] Section 2."""
    horizon = max([start + rounds for start, _, rounds in runs], default=0) + beyond
    columns = [np.array([run[k] for run in runs], dtype=np.int64) for k in range(3)]
    profile = held_tokens(np.arange(horizon + 1), *columns)
    assert profile.dtype == np.int64
    assert profile.tolist() == [held(runs, r) for r in range(horizon + 1)]


def test_fits_at_a_start_past_a_completion_without_advance() -> None:
    """The docstring promises every *later* round: a request that ended by then is no obstacle."""
    forecast = MemoryForecast(6)
    forecast.add(0, 5, 1)
    assert not forecast.fits(5, 1, 0)
    assert forecast.fits(5, 1, 1)


@settings(max_examples=examples(400))
@given(crowds(), st.integers(0, 6), st.integers(1, 12), st.integers(0, 4), st.integers(0, 8))
def test_earliest_fit(
    crowd: tuple[int, list[Run]], prompt: int, rounds: int, skip: int, span: int
) -> None:
    limit, runs = crowd
    next_end = min((start + length for start, _, length in runs), default=None)
    first = NOW + skip
    last = first + span if next_end is None else min(first + span, next_end - 1)
    expected = None
    for start in range(first, last + 1):
        if fits_by_definition(limit, runs, (start, prompt, rounds)):
            expected = start
            break
    found = forecast_of(limit, runs).earliest_fit(prompt, rounds, first, last)
    assert found == expected
    assert found is None or type(found) is int


@settings(max_examples=examples(150))
@given(st.data())
def test_a_long_life_of_additions_removals_and_rounds(data: st.DataObject) -> None:
    """[J25] Equation (5) in random use: the forecast and a plain list must never differ."""
    limit = data.draw(st.integers(4, 30))
    forecast, runs = MemoryForecast(limit), []
    now = 0
    for _ in range(data.draw(st.integers(1, 10))):
        now += data.draw(st.sampled_from([1, 1, 1, 4]))
        forecast.advance(now)
        runs = [run for run in runs if run[0] + run[2] > now]
        if runs and data.draw(st.booleans()):
            victim = data.draw(st.sampled_from(runs))
            forecast.remove(*victim)
            runs.remove(victim)
        for _ in range(data.draw(st.integers(0, 3))):
            prompt, rounds = data.draw(st.integers(0, 6)), data.draw(st.integers(1, 8))
            newcomer = (now, prompt, rounds)
            fits = forecast.fits(prompt, rounds, now)
            assert fits == fits_by_definition(limit, runs, newcomer)
            if fits:
                forecast.add(*newcomer)
                runs.append(newcomer)
        assert len(forecast) == len(runs)
        assert forecast.next_end() == min((run[0] + run[2] for run in runs), default=None)
        assert_same_future(forecast, runs, now)

"""The exact search in seconds, against an exhaustive search in fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np
import pytest
from effort import examples, sweep
from hypothesis import given, settings
from hypothesis import strategies as st
from seconds_cases import exhaustive_optimum, replayed_total
from seconds_optimum import optimum

import hindsight
from hindsight.runtime.clock import never
from hindsight.seconds import exact_search, solving
from hindsight.seconds.exact_search import NAME, ExactSearch
from hindsight.seconds.results import Preemption, exact_total_latency
from instances import MemoryRule, SecondsSchedule, Workload
from instances.batch_time import (
    AffineTime,
    IterationTime,
    PiecewiseLinearTime,
    TiledTime,
    UnitTime,
)

FAR = Fraction(10**6)
"""More than any total here."""


def drawn(seed: int) -> tuple[Workload, AffineTime]:
    """Two to four requests that get in each other's way; all numbers exact in floats."""
    rng = np.random.default_rng(seed)
    n = 4 if seed % 5 == 1 else int(rng.choice([2, 3, 3]))
    most = 4 if n == 2 else 3 if n == 3 else 2
    s, o = rng.integers(1, most + 1, n), rng.integers(1, most + 1, n)
    if seed % 7 == 3:
        s[:], o[:] = s[0], o[0]
    times = np.sort(rng.integers(0, 32, n)) / 16 if seed % 4 else np.zeros(n)
    limit = int(max((s + o).max(), rng.integers(3, 9)))
    d0, d1, d2 = rng.integers(1, 9) / 8, rng.integers(0, 9) / 16, rng.integers(0, 5) / 32
    return Workload(times, s, o, memory_limit=limit), AffineTime(float(d0), float(d1), float(d2))


def searched(workload: Workload, time: Any, recomputes: bool) -> tuple[Fraction, SecondsSchedule]:
    """The optimum and its schedule, which is feasible and one of this model."""
    bound, schedule = ExactSearch(workload, time, recomputes).run(FAR, never)
    assert bound is not None
    assert schedule is not None
    assert schedule.is_feasible
    assert not (recomputes and schedule.keeps_tokens)
    assert bound.certified
    assert bound.total == exact_total_latency(schedule)
    return bound.total, schedule


@pytest.mark.parametrize("recomputes", [False, True], ids=["keep", "recompute"])
@pytest.mark.parametrize("seed", sweep(range(300), one_in=15))
def test_it_finds_the_exhaustive_optimum(seed: int, recomputes: bool) -> None:
    workload, time = drawn(seed)
    total, schedule = searched(workload, time, recomputes)
    assert replayed_total(schedule, time) == total
    states = 6_000 if seed % 15 else 600
    best = exhaustive_optimum(workload, time, states=states, keeps=not recomputes)
    assert best is None or total == best


@pytest.mark.parametrize("recomputes", [False, True], ids=["keep", "recompute"])
@pytest.mark.parametrize("seed", sweep(range(40), one_in=10))
def test_it_finds_the_optimum_where_held_requests_take_no_time(seed: int, recomputes: bool) -> None:
    workload, _ = drawn(seed)
    d0, d1 = Fraction(1, 2), Fraction(seed % 3, 16)
    total, _ = searched(workload, IterationTime(float(d0), float(d1)), recomputes)
    best = optimum(
        [Fraction(one) for one in workload.arrival_times.tolist()],
        workload.prompt_lengths.tolist(),
        workload.output_lengths.tolist(),
        workload.memory_limit,
        lambda tokens, resident: d0,
        states=1_000,
        length=lambda work: d0 + d1 * sum(one[2] for one in work),
        keeps=not recomputes,
    )
    assert best is None or total == best


def test_a_chunk_kept_outside_the_cache_is_worth_its_round() -> None:
    # Before the second request arrives there is time for one token of the first prompt. Then both
    # others run in turn, and the first comes back with its token processed.
    workload = Workload([0.0, 0.5, 0.875], [2, 3, 2], [3, 1, 2], memory_limit=5)
    time = AffineTime(0.125, 0.125, 0.125)
    total, schedule = searched(workload, time, recomputes=False)
    assert schedule.chunk_tokens[schedule.request == 0].tolist() == [1, -1]
    assert schedule.prompt_left[schedule.request == 0].tolist() == [2, 1]
    assert schedule.round_starts.tolist()[:2] == [0.0, 0.5]
    again, _ = searched(workload, time, recomputes=True)
    assert total == Fraction(67, 8) < again


def test_a_round_may_wait_for_an_arrival() -> None:
    # Alone first: 1 + 1.1 + 0.9 seconds of latency; a tenth later together: 1.1 + 1.
    workload = Workload([0.0, 0.1], [1, 1], [1, 1], memory_limit=4)
    total, schedule = searched(workload, UnitTime(1.0), recomputes=False)
    assert total == Fraction(21, 10)
    assert schedule.round_starts.tolist() == [0.1]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("preemption", ["keep", "recompute"])
def test_a_solve_proves_a_small_optimum(seed: int, preemption: Preemption) -> None:
    rng = np.random.default_rng(seed)
    s, o = rng.integers(1, 4, 5), rng.integers(1, 5, 5)
    arrivals = np.sort(rng.uniform(0, 1, 5))  # as many decimals as a float has
    workload = Workload(arrivals, s, o, memory_limit=12)
    time = AffineTime(0.2, 2e-3, 1e-5)
    result = hindsight.solve(workload, batch_time=time, preemption=preemption)
    assert (result.status, result.stop_reason) == ("optimal", "proof")
    assert result.lower_bound == result.upper_bound == exact_total_latency(result.schedule)
    assert not (preemption == "recompute" and result.schedule.keeps_tokens)
    assert result.log[-1].phase in {"bounds", "exact search"}


@given(seed=st.integers(0, 10**6), recomputes=st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_the_optimum_is_in_the_interval_of_a_solve_without_search(
    seed: int, recomputes: bool
) -> None:
    workload, time = drawn(seed)
    total, _ = searched(workload, time, recomputes)
    preemption: Preemption = "recompute" if recomputes else "keep"
    with mock.patch.object(solving, "LONGEST_TABLE", -1.0):
        result = hindsight.solve(workload, 0.05, 1, batch_time=time, preemption=preemption)
    assert NAME not in result.lower_bounds
    assert result.lower_bound <= total <= result.upper_bound


@pytest.mark.parametrize("recomputes", [False, True], ids=["keep", "recompute"])
@pytest.mark.parametrize("seed", [1, 5, 6, 7, 11])
def test_a_stopped_search_has_a_bound_below_the_optimum(
    monkeypatch: pytest.MonkeyPatch, seed: int, recomputes: bool
) -> None:
    monkeypatch.setattr(exact_search, "PATIENCE", 1)
    workload, time = drawn(seed)
    total, _ = searched(workload, time, recomputes)
    latest = Fraction(0)
    for polls in itertools.count(1):
        left = iter(range(polls))
        stop = lambda left=left: next(left, None) is None  # noqa: E731
        bound, schedule = ExactSearch(workload, time, recomputes).run(FAR, stop)
        if schedule is not None:
            break
        if bound is not None:
            assert latest <= bound.total <= total
            latest = bound.total
    assert latest > 0


def test_too_many_states_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    workload, time = drawn(7)
    total, _ = searched(workload, time, False)
    monkeypatch.setattr(exact_search, "PATIENCE", 1)
    monkeypatch.setattr(exact_search, "MOST_STATES", 3)
    bound, schedule = ExactSearch(workload, time, False).run(FAR, never)
    assert schedule is None
    assert bound is not None
    assert 0 < bound.total <= total


@pytest.mark.parametrize("recomputes", [False, True], ids=["keep", "recompute"])
def test_nothing_below_the_bound_given_proves_it(recomputes: bool) -> None:
    workload, time = drawn(7)
    total, _ = searched(workload, time, recomputes)
    bound, schedule = ExactSearch(workload, time, recomputes).run(total, never)
    assert schedule is None
    assert bound is not None
    assert bound.total == total
    bound, schedule = ExactSearch(workload, time, recomputes).run(total + Fraction(1, 64), never)
    assert schedule is not None
    assert bound is not None
    assert bound.total == total


PAIR = Workload([0.0, 0.5], [2, 1], [2, 3], memory_limit=4)


@pytest.mark.parametrize(
    ("workload", "time"),
    [
        (Workload(np.zeros(17), [1] * 17, [1] * 17, memory_limit=4), UnitTime()),
        (Workload(np.zeros(4), [1] * 4, [100] * 4, memory_limit=200), UnitTime()),
        (PAIR, AffineTime(0.1 + 0.2, 1e-17, 1e-300)),
        (PAIR, PiecewiseLinearTime([1, 4], [1.0, 9.0])),
        (PAIR, TiledTime([2, 4], [1.0, 9.0], tile=2)),
        (PAIR.under(MemoryRule(1, "next")), UnitTime()),
        (PAIR.under(MemoryRule(1, "now", "chunks")), UnitTime()),
    ],
)
def test_what_the_proofs_do_not_cover_is_not_searched(workload: Workload, time: Any) -> None:
    assert ExactSearch(workload, time, False).seconds == float("inf")

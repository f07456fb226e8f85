"""The makespan as objective: idle gaps, sizes, and results that pass for no others."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from tiny_problems import check_in_rounds, in_rounds

import hindsight
from hindsight import Progress
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.prices.volume import makespan_lower_bound
from hindsight.rounds.openings import open_makespan
from hindsight.rounds.program import close_makespan
from hindsight.runtime.clock import Clock
from hindsight.runtime.search import Search
from hindsight.schedules.lists import one_after_another
from instances import Instance, InvalidValueError, Request

# Two requests of 3 tokens a round, M = 5, do not overlap; the first bounds say 2 and 2.
GAP = Instance.from_arrays([2, 2, 2], [1, 1, 1], memory_limit=5)


def test_a_search_raises_the_solver_bound_only() -> None:
    result = hindsight.solve(GAP, goal="makespan", threads=1)
    assert (result.upper_bound, result.lower_bound) == (3, 3)
    assert result.certified_lower_bound == makespan_lower_bound(GAP) == 2
    assert result.gap == 0


def test_all_numbers_count_rounds_from_round_0_after_an_idle_gap() -> None:
    late = Instance.from_arrays([1, 2, 2, 2], [1] * 4, [0, 1000, 1000, 1000], memory_limit=5)
    seen: list[tuple[float, float]] = []

    def note(progress: Progress) -> None:
        seen.append((progress.lower_bound, progress.upper_bound))

    result = hindsight.solve(late, goal="makespan", gap=0.01, threads=1, progress=note)
    assert result.text == "makespan [1002, 1003] rounds"
    assert result.stop_reason == "gap"
    assert (result.lower_bound, result.upper_bound) == seen[-1] == (1002, 1003)
    with pytest.raises(InvalidValueError, match="1004 exceeds the makespan of a schedule, 1003"):
        hindsight.solve(late, goal="makespan", bounds=lambda _: 1004, threads=1)


def test_what_follows_a_long_idle_gap_is_scheduled_at_once() -> None:
    # Three requests long before, two after: rounds 3,000,001 and 3,000,002 at best.
    instance = Instance.from_arrays(
        [2, 2, 2, 2, 2], [1] * 5, [0, 3_000_000, 0, 1, 3_000_000], memory_limit=5
    )
    lines: list[Any] = []
    result = hindsight.solve(instance, goal="makespan", threads=1, progress=lines.append)
    assert (result.upper_bound, result.lower_bound) == (3_000_002, 3_000_002)
    check_in_rounds(in_rounds(instance), result.schedule)
    assert {line.upper_bound for line in lines} == {3_000_002}
    assert [line.lower_bound for line in result.log][-1] == 3_000_002


def test_a_model_too_large_is_not_built() -> None:
    """The requests of `GAP`, of a million rounds each."""
    long = GAP.replaced(
        requests=[Request(q.arrival_time, q.prompt_length, 10**6) for q in GAP.requests],
        memory_limit=GAP.memory_limit + 10**6,
    )
    result = hindsight.solve(long, goal="makespan", method="mip", threads=1)
    assert (result.status, result.stop_reason) == ("feasible", "size")


def test_starts_too_many_are_counted_not_listed() -> None:
    # No two of 2,500 requests fit beside each other; their volumes leave 1,500 rounds.
    instance = Instance.from_arrays([5] * 2500, [1] * 2500, memory_limit=10)
    interval = Interval(Problem(instance, "makespan"))
    interval.offer(one_after_another(instance))
    interval.prove(makespan_lower_bound(instance), "last completion")
    tracemalloc.start()
    try:
        close_makespan(interval, Search(threads=1))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert interval.stop_reason == "size"
    # All 3,750,000 of them would be 30 MB.
    assert peak < 3_000_000


def test_lists_of_a_fleet_that_raise_total_latency_are_offered_too() -> None:
    # One request fits at a time. Shortest first ends in rounds 1, 1, 2, 4, longest first in 3, 1,
    # 2, 3.
    fleet = Instance.from_arrays([5] * 4, [1, 1, 1, 3], memory_limit=9, replicas=2)
    interval = Interval(Problem(fleet, goal="makespan"), Search(Clock()))
    open_makespan(interval, None)
    assert (interval.lower_bound, interval.upper_bound) == (3, 3)

"""The flow of a solve: parts in turns, and a search in the background."""

from __future__ import annotations

from threading import Event, current_thread, main_thread
from threading import enumerate as enumerate_threads

import pytest

from hindsight.outcomes.flow import BACKGROUND, Background, Part, run_turns
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.runtime.clock import Clock
from hindsight.runtime.search import Search
from hindsight.schedules.lists import first_schedule, one_after_another
from instances import generate

INSTANCE = generate("arrival-model-1", 0, n=8)


@pytest.fixture
def interval() -> Interval:
    made = Interval(Problem(INSTANCE), Search(Clock()))
    made.offer(one_after_another(INSTANCE))
    return made


def test_parts_that_fit_run_in_turns_in_their_shares(interval: Interval) -> None:
    calls, shares = [], []

    def run() -> None:
        calls.append(interval.phase)
        shares.append(interval.clock.limit_left())

    interval.clock.allow(100.0)
    parts = [Part(run, "first", 0.5), Part(run, "second", 0.5, once=True)]
    run_turns(interval, [*parts, Part(run, "third", fits=False)], lambda: len(calls) < 4)
    assert calls == ["first", "second", "first", "first"]
    assert all(share is not None and 49 < share <= 50 for share in shares)


def test_turns_without_progress_end_a_solve_without_a_limit(interval: Interval) -> None:
    turns: list[int] = []

    def run() -> None:
        turns.append(1)
        if len(turns) == 2:
            interval.prove(1, "mine")

    run_turns(interval, [Part(run, "search")], lambda: len(turns) < 9, patience=3)
    assert len(turns) == 5
    turns.clear()
    interval.clock.allow(100.0)
    run_turns(interval, [Part(run, "search")], lambda: len(turns) < 9, patience=3)
    assert len(turns) == 9


def test_the_latest_schedule_is_offered_in_the_thread_of_the_block(interval: Interval) -> None:
    better, handed_over = first_schedule(INSTANCE), Event()
    assert better.total_latency < interval.upper_bound
    search = Background(interval, 2, lambda own: step(own))

    def step(own: Interval) -> bool:
        assert current_thread() is not main_thread()
        assert own.upper_bound == one_after_another(INSTANCE).total_latency
        own.offer(better)
        handed_over.set()
        return False

    with search.running():
        search.advance()
        assert handed_over.wait(60)
        search.wait()
        search.must_stop()
        assert interval.schedule == better
    assert not any(thread.name.startswith(BACKGROUND) for thread in enumerate_threads())


def test_an_error_of_the_search_is_raised_where_schedules_are_taken(interval: Interval) -> None:
    def fail(own: Interval) -> None:
        own.offer(first_schedule(INSTANCE))
        raise ZeroDivisionError

    search = Background(interval, 2, fail)
    with pytest.raises(ZeroDivisionError), search.running():
        search.wait()
    assert interval.schedule == first_schedule(INSTANCE)


def test_one_thread_searches_in_the_stop_callback(interval: Interval) -> None:
    better, steps = first_schedule(INSTANCE), []

    def step(own: Interval) -> None:
        steps.append(own)
        own.offer(better)

    search = Background(interval, 1, step, share=1e9)
    with search.running():
        assert not search.must_stop()
    assert (steps, interval.schedule) == ([interval], better)

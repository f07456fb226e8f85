"""A search beside another one: what is taken from it, and how both end."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, current_thread, main_thread
from threading import enumerate as enumerate_threads

import pytest

from hindsight.runtime.beside import BESIDE, Beside

PATIENCE = 60.0
"""Seconds until a test gives up what it waits for."""


def test_the_latest_result_is_taken_in_the_thread_of_the_block() -> None:
    taken, handed_over = [], Event()

    def search(found: Callable[[int], object], must_stop: Callable[[], bool]) -> None:
        assert current_thread() is not main_thread()
        found(1)
        found(2)
        handed_over.set()
        while not must_stop():
            Event().wait(0.001)
        found(3)

    beside = Beside(search, lambda one: taken.append((one, current_thread() is main_thread())))
    with beside.running():
        assert handed_over.wait(PATIENCE)
        beside.take()
        beside.take()
        assert not beside.ends_within(0)
        assert taken == [(2, True)]
    assert taken == [(2, True), (3, True)]
    assert not any(thread.name.startswith(BESIDE) for thread in enumerate_threads())


def test_an_error_of_the_search_is_raised_where_results_are_taken() -> None:
    taken: list[int] = []

    def search(found: Callable[[int], object], must_stop: Callable[[], bool]) -> None:
        found(1)
        raise ZeroDivisionError

    beside = Beside(search, taken.append)
    with pytest.raises(ZeroDivisionError), beside.running():
        assert beside.ends_within(PATIENCE)
    with pytest.raises(ZeroDivisionError):
        beside.take()
    assert taken == [1]

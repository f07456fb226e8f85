"""Ending a computation early instead of losing it: at Ctrl-C, or when its time is up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed inside the ``with`` block.

    The first Ctrl-C only sets the flag; a second one raises KeyboardInterrupt as usual. Outside
    the main thread signals cannot be caught, and the flag stays False.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    previous = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        if pressed.is_set():
            if callable(previous):
                previous(number, frame)
            raise KeyboardInterrupt
        pressed.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous)


SLICE_SECONDS = 0.05
"""Long loops look at the clock about this often."""


def never() -> bool:
    """For a computation that nothing breaks off."""
    return False


class StoppedEarlyError(Exception):
    """A part of a computation was told to stop before it had anything to show."""


def timed_slices(count: int, should_stop: Callable[[], bool]) -> Iterator[slice]:
    """Consecutive slices of ``range(count)`` whose loop bodies take about `SLICE_SECONDS` each.

    ``should_stop`` is asked between them, once that long has passed: work that is over sooner is
    never broken off.

    Raises
    ------
    StoppedEarlyError: ``should_stop`` said so.
    """
    done, step = 0, 1
    asked = time.perf_counter()
    while done < count:
        begun = time.perf_counter()
        yield slice(done, min(done + step, count))
        done += step
        now = time.perf_counter()
        if done < count and now - asked >= SLICE_SECONDS:
            if should_stop():
                raise StoppedEarlyError
            asked = now
        if now - begun > 2 * SLICE_SECONDS:
            step = max(1, step // 2)
        elif now - begun < SLICE_SECONDS:
            step *= 2

"""Ending a computation early instead of losing it: at Ctrl-C, or when its time is up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from instances.ctrl_c import Interruption


@contextmanager
def interruption(raises_from: float = 2) -> Iterator[Interruption]:
    """Yield a function that tells whether Ctrl-C was pressed inside the ``with`` block.

    The first Ctrl-C only sets the flag; a later one, `FLURRY_SECONDS` after it or more, raises
    KeyboardInterrupt as usual. Outside the main thread signals cannot be caught, and the flag stays
    False.

    Parameters
    ----------
    raises_from : float, default 2
        The press from which on each raises; infinity only counts them.
    """
    pressed = Interruption(raises_from)
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    previous = signal.getsignal(signal.SIGINT)
    pressed.listen()
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, previous)


def stop_or_interruption(
    should_stop: Callable[[], bool] | None,
) -> AbstractContextManager[Callable[[], bool]]:
    """``should_stop`` where the caller brings one, else Ctrl-C."""
    return interruption() if should_stop is None else nullcontext(should_stop)


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
    StoppedEarlyError
        ``should_stop`` said so.
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

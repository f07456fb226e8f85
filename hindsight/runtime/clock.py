"""When a computation must stop: at its time limit, or when someone interrupts it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from .interruption import interruption

SLICE_SECONDS = 0.05
"""Long loops look at the clock about this often."""


def never() -> bool:
    """Return False: nothing breaks the computation off."""
    return False


class StoppedEarlyError(Exception):
    """A part of a computation was told to stop before it had anything to show."""


class Clock:
    """Began when it was made; runs out, or is interrupted, which it remembers.

    Parameters
    ----------
    time_limit : float or None, default None
        Seconds from now on.
    should_stop : Callable[[], bool] or None, default None
        Polled; True interrupts.

    Attributes
    ----------
    is_interrupted : bool
        As far as anyone has asked.
    """

    def __init__(
        self, time_limit: float | None = None, should_stop: Callable[[], bool] | None = None
    ) -> None:
        self._began = time.monotonic()
        self._should_stop = should_stop
        self.is_interrupted = False
        self.allow(time_limit)

    def allow(self, seconds: float | None) -> None:
        """Run out so many seconds from now on; never for None."""
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Run out after ``seconds`` at the latest in the ``with`` block, then as before."""
        whole = self._deadline
        self._deadline = min(whole, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._deadline = whole

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let Ctrl-C interrupt in the ``with`` block, unless a function is polled."""
        if self._should_stop is not None:
            yield
            return
        with interruption() as self._should_stop:
            yield

    def interrupt(self) -> None:
        """Have it stopped from now on."""
        self.is_interrupted = True

    def seconds(self) -> float:
        """Return the seconds since it was made."""
        return time.monotonic() - self._began

    def seconds_left(self) -> float:
        """Infinite without a limit, negative after it."""
        return self._deadline - time.monotonic()

    def limit_left(self) -> float | None:
        """`seconds_left` as a time limit: not negative, and None for no limit."""
        left = self.seconds_left()
        return None if math.isinf(left) else max(0.0, left)

    def must_stop(self) -> bool:
        """Tell whether it ran out or was interrupted; long computations poll this."""
        if self._should_stop is not None and self._should_stop():
            self.is_interrupted = True
        return self.is_interrupted or self.seconds_left() <= 0

    def stop_reason(self, spare: float = 0.0) -> Literal["interrupted", "time-limit", "stalled"]:
        """Return why an unfinished computation ended; ``spare`` seconds left count as none."""
        if self.is_interrupted:
            return "interrupted"
        return "time-limit" if self.seconds_left() <= spare else "stalled"


class Slices:
    """Lengths of the slices of a long loop, so that the body of each takes `SLICE_SECONDS`."""

    def __init__(self) -> None:
        self._length = 1

    @contextmanager
    def next(self, most: int) -> Iterator[int]:
        """Yield how many items, 1 to ``most``, the ``with`` block is to work on."""
        length = min(self._length, most)
        begun = time.monotonic()
        yield length
        spent = time.monotonic() - begun
        if spent > 2 * SLICE_SECONDS:
            self._length = max(1, self._length // 2)
        elif spent < SLICE_SECONDS and length == self._length:
            self._length *= 2


def timed_slices(count: int, should_stop: Callable[[], bool]) -> Iterator[slice]:
    """Consecutive slices of ``range(count)`` whose loop bodies take about `SLICE_SECONDS` each.

    ``should_stop`` is asked between them, once that long has passed: work that is over sooner is
    never broken off.

    Raises
    ------
    StoppedEarlyError
        ``should_stop`` said so.
    """
    slices, done = Slices(), 0
    asked = time.monotonic()
    while done < count:
        with slices.next(count - done) as length:
            yield slice(done, done + length)
        done += length
        now = time.monotonic()
        if done < count and now - asked >= SLICE_SECONDS:
            if should_stop():
                raise StoppedEarlyError
            asked = now

"""Clock that stops a computation at its time limit or at an interruption."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, wait
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

from instances.arrays import IntArray
from instances.ctrl_c import Interruption

SPARE_SECONDS = 0.05
"""Seconds left at the end of a solve up to which it counts as stopped by its time limit."""

SLICE_SECONDS = 0.05
"""Target interval between two polls of the clock in long loops, in seconds."""


POLL_SECONDS = 0.002
"""Interval between two polls of the clock while other threads work, in seconds."""


def never() -> bool:
    """Return False: a stop callback that never stops a computation."""
    return False


class StoppedEarlyError(Exception):
    """A part of a computation was stopped before it produced a result."""


class Clock:
    """Time limit and interruption of a computation that starts when the clock is created.

    Parameters
    ----------
    time_limit : float or None, default None
        Seconds from now on; None for no limit.
    should_stop : Callable[[], bool] or None, default None
        Polled by the clock; once it returns True, the computation stays interrupted.

    Attributes
    ----------
    is_interrupted : bool
        Whether the computation was interrupted.
    """

    def __init__(
        self, time_limit: float | None = None, should_stop: Callable[[], bool] | None = None
    ) -> None:
        self._began = time.monotonic()
        self._should_stop = should_stop
        self.is_interrupted = False
        self.allow(time_limit)

    def allow(self, seconds: float | None) -> None:
        """Set the time limit to ``seconds`` from now on; None removes it."""
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit the time to ``seconds`` within the ``with`` block."""
        whole = self._deadline
        self._deadline = min(whole, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._deadline = whole

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let Ctrl-C interrupt the ``with`` block, unless the clock polls ``should_stop``."""
        stop = self._should_stop
        with Interruption() if stop is None else nullcontext(stop) as self._should_stop:
            yield

    def interrupt(self) -> None:
        """Mark the computation as interrupted from now on."""
        self.is_interrupted = True

    def seconds(self) -> float:
        """Return the seconds since the clock was created."""
        return time.monotonic() - self._began

    def seconds_left(self) -> float:
        """Return the seconds left: infinite without a time limit, negative after it."""
        return self._deadline - time.monotonic()

    def limit_left(self) -> float | None:
        """Return `seconds_left` as a time limit: not negative, and None for no limit."""
        left = self.seconds_left()
        return None if math.isinf(left) else max(0.0, left)

    def affordable(self, steps: int, seconds_each: float) -> int:
        """Return ``steps``, or fewer if not all are likely to fit the time left, but at least one.

        ``seconds_each`` 0 means that the time of a step is unknown; then all are returned.
        """
        left = self.seconds_left()
        if not seconds_each or seconds_each * steps <= left:
            return steps
        return max(1, int(0.97 * left / seconds_each))

    def must_stop(self) -> bool:
        """Return whether the time is up or the computation was interrupted; call this often."""
        if self._should_stop is not None and self._should_stop():
            self.is_interrupted = True
        return self.is_interrupted or self.seconds_left() <= 0

    def stop_reason(self, spare: float = 0.0) -> Literal["interrupted", "time-limit", "stalled"]:
        """Return why a computation ended unfinished; up to ``spare`` seconds left count as none."""
        if self.is_interrupted:
            return "interrupted"
        return "time-limit" if self.seconds_left() <= spare else "stalled"


def run_parts(
    pool: Executor,
    work: Callable[[Any], Any],
    parts: Iterable[Any],
    should_stop: Callable[[], bool],
    stop: IntArray,
) -> list[Any] | None:
    """Run ``work`` on each part in a thread pool; return the results, or None if stopped.

    ``stop[0]`` is set to 1 once ``should_stop`` returns True or an exception is raised. Compiled
    loops read ``stop[0]``, because they cannot call Python functions.
    """
    tasks = [pool.submit(work, part) for part in parts]
    try:
        while wait(tasks, POLL_SECONDS).not_done:
            if should_stop():
                stop[0] = 1
    except BaseException:
        stop[0] = 1
        raise
    results = [task.result() for task in tasks]
    return None if stop[0] else results


class Slices:
    """Splitter of a long loop into slices that take about `SLICE_SECONDS` each."""

    def __init__(self) -> None:
        self._length = 1

    @contextmanager
    def next(self, most: int) -> Iterator[int]:
        """Yield the number of items, 1 to ``most``, that the ``with`` block should process."""
        length = min(self._length, most)
        begun = time.monotonic()
        yield length
        spent = time.monotonic() - begun
        if spent > 2 * SLICE_SECONDS:
            self._length = max(1, self._length // 2)
        elif spent < SLICE_SECONDS and length == self._length:
            self._length *= 2


def timed_slices(count: int, should_stop: Callable[[], bool]) -> Iterator[slice]:
    """Yield consecutive slices of ``range(count)`` that take about `SLICE_SECONDS` each.

    ``should_stop`` is polled between slices, at most once per `SLICE_SECONDS`. So shorter work is
    never interrupted.

    Raises
    ------
    StoppedEarlyError
        ``should_stop`` returned True.
    """
    slices, done, asked = Slices(), 0, time.monotonic()
    while done < count:
        with slices.next(count - done) as length:
            yield slice(done, done + length)
        done += length
        if done < count and time.monotonic() - asked >= SLICE_SECONDS:
            if should_stop():
                raise StoppedEarlyError
            asked = time.monotonic()

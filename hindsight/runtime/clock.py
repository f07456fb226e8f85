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
"""A solve that ends at most this many seconds before its limit counts as ended by the limit."""

SLICE_SECONDS = 0.05
"""Time in seconds that a long loop tries to run between two calls of its stop callback."""


POLL_SECONDS = 0.002
"""Seconds between two calls of the stop callback while `run_parts` waits for a thread pool."""


def never() -> bool:
    """Return False. This is the stop callback of computations that are never stopped early."""
    return False


class StoppedEarlyError(Exception):
    """Error that ends a part of a computation early, raised when a stop callback returns True."""


class Clock:
    """Time limit and interruption of a computation, which begins when the clock is created.

    Parameters
    ----------
    time_limit : float or None, default None
        Seconds that the computation may take from now on. None for no limit.
    should_stop : Callable[[], bool] or None, default None
        Stop callback of the user. The clock polls it in `must_stop`. Once it returns True, the
        computation counts as interrupted for good.

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
        """Replace the time limit by ``seconds`` from now on. None removes the limit."""
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Shorten the time left to at most ``seconds`` during the ``with`` block.

        After the block, the time limit is again the one that held before the block.
        """
        whole = self._deadline
        self._deadline = min(whole, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._deadline = whole

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let Ctrl-C interrupt the computation in the ``with`` block.

        Ctrl-C then makes `must_stop` return True. But if the user gave the clock a stop callback
        ``should_stop``, Ctrl-C is not caught, because that callback decides on interruptions.
        """
        stop = self._should_stop
        with Interruption() if stop is None else nullcontext(stop) as self._should_stop:
            yield

    def interrupt(self) -> None:
        """Mark the computation as interrupted: from now on `must_stop` returns True."""
        self.is_interrupted = True

    def seconds(self) -> float:
        """Return the seconds since the clock was created."""
        return time.monotonic() - self._began

    def seconds_left(self) -> float:
        """Return the seconds until the time limit.

        They are infinite if there is no limit, and negative if the limit has passed.
        """
        return self._deadline - time.monotonic()

    def limit_left(self) -> float | None:
        """Return the seconds until the time limit, but at least 0. None if there is no limit."""
        left = self.seconds_left()
        return None if math.isinf(left) else max(0.0, left)

    def affordable(self, steps: int, seconds_each: float) -> int:
        """Return the number of steps that will probably end before the time limit, 1 to ``steps``.

        Parameters
        ----------
        steps : int
            Number of steps wanted.
        seconds_each : float
            Estimated seconds of one step. 0 means that there is no estimate. Then ``steps`` is
            returned.
        """
        left = self.seconds_left()
        if not seconds_each or seconds_each * steps <= left:
            return steps
        return max(1, int(0.97 * left / seconds_each))

    def must_stop(self) -> bool:
        """Return whether the time limit has passed or the computation was interrupted.

        This also calls the user's stop callback. Once that returns True, the computation counts as
        interrupted for good. Long computations must call this method often.
        """
        if self._should_stop is not None and self._should_stop():
            self.is_interrupted = True
        return self.is_interrupted or self.seconds_left() <= 0

    def stop_reason(self, spare: float = 0.0) -> Literal["interrupted", "time-limit", "stalled"]:
        """Return why a computation ended before it was complete.

        ``"interrupted"``: Ctrl-C or a callback of the user stopped it. ``"time-limit"``: at most
        ``spare`` seconds of the time limit are left. ``"stalled"``: neither, so it could make no
        further progress.
        """
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
    """Run ``work`` on each part in a thread pool, and wait for the results.

    Parameters
    ----------
    pool : Executor
        The thread pool.
    work : Callable[[Any], Any]
        Function of one part. Its compiled loops poll ``stop[0]``, because they cannot call Python
        functions, and end early once it is 1.
    parts : Iterable[Any]
        Arguments of ``work``, one for each task of the pool. Tasks that begin after the stop are
        left out.
    should_stop : Callable[[], bool]
        Stop callback, called every `POLL_SECONDS` by the calling thread. Once it returns True,
        ``stop[0]`` is set to 1, and the result is None.
    stop : int64 array, shape (1,)
        Stop flag that is shared with ``work``. ``stop[0]`` is set to 1 once ``should_stop`` returns
        True, or if an exception is raised while this thread waits.

    Returns
    -------
    list or None
        The results in the order of ``parts``, or None if the work was stopped.
    """
    tasks = [pool.submit(lambda one: stop[0] or work(one), part) for part in parts]
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
    """Chooser of slice lengths for a long loop: each slice should take about `SLICE_SECONDS`.

    A slice is a number of consecutive items of the loop. Between two slices, the caller can call
    its stop callback. The first slice has one item. The length is doubled after a slice that took
    less than `SLICE_SECONDS`, and halved after one that took more than 2 `SLICE_SECONDS`.
    """

    def __init__(self) -> None:
        self._length = 1

    @contextmanager
    def next(self, most: int) -> Iterator[int]:
        """Yield the length of the next slice, 1 to ``most`` items of the loop.

        Use it as ``with slices.next(most) as length``: the block must run the loop over ``length``
        items. The duration of the block decides the length of the next slice.
        """
        length = min(self._length, most)
        begun = time.monotonic()
        yield length
        spent = time.monotonic() - begun
        if spent > 2 * SLICE_SECONDS:
            self._length = max(1, self._length // 2)
        elif spent < SLICE_SECONDS and length == self._length:
            self._length *= 2


def timed_slices(count: int, should_stop: Callable[[], bool]) -> Iterator[slice]:
    """Split ``range(count)`` into consecutive slices, and yield one at a time.

    The lengths are chosen so that the caller needs about `SLICE_SECONDS` to work on each slice. The
    stop callback ``should_stop`` is called between two slices, at most once in `SLICE_SECONDS`. So
    a loop over all slices that takes less than `SLICE_SECONDS` is never stopped.

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

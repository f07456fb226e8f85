"""A search for schedules that runs next to the computation of lower bounds.

With two threads, the search runs in the second one. With one thread, it takes a share of the time:
the stop callback of the other computation also runs steps of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

from hindsight.outcomes.interval import Interval
from hindsight.runtime.beside import Beside


class Background:
    """A search for schedules that runs next to the computation of lower bounds.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    cores : int
        Number of available threads. With two or more, the search runs in a second thread.
    *steps : Callable[[Interval], object]
        Functions that search for a while, and offer better schedules to the interval that they get.
        The second thread runs them in turn, again and again. If there is no second thread,
        `advance` runs the first step, and `must_stop` runs the last step.
    share : float, default 0.0
        Largest share of time that `must_stop` may spend on the last step. It is a share of the time
        since the end of the ``after`` seconds.
    after : float, default 0.0
        Number of seconds, from the creation of this object, in which `must_stop` runs no step.
    """

    def __init__(
        self,
        interval: Interval,
        cores: int,
        *steps: Callable[[Interval], object],
        share: float = 0.0,
        after: float = 0.0,
    ) -> None:
        self._interval, self._cores, self._steps, self._share = interval, cores, steps, share
        self._begun, self._spent = interval.clock.seconds() + after, 0.0
        self._thread: Beside[Any] | None = None

    @contextmanager
    def running(self, *, wanted: bool = True) -> Iterator[None]:
        """Repeat the steps of the search in a second thread during the ``with`` block.

        No thread is started if ``wanted`` is False, if only one core is available, or if the solve
        is done.
        """
        if self._cores == 1 or not wanted or self._interval.is_done():
            yield
            return
        self._thread = Beside(self._search, self._interval.offer)
        try:
            with self._thread.running():
                yield
        finally:
            self._thread = None
        # The last schedule from the second thread may have closed the gap of bounds. Then `is_done`
        # records this as the reason why the solve ends.
        self._interval.is_done()

    def _search(self, found: Callable[[Any], object], must_stop: Callable[[], bool]) -> None:
        apart = self._interval.apart(found, must_stop)
        for step in cycle(self._steps):
            if must_stop():
                return
            apart.offer(self._interval.schedule)
            step(apart)

    def advance(self) -> None:
        """Run ``steps[0]`` of the search now, unless a second thread runs the steps."""
        if self._thread is None:
            self._steps[0](self._interval)

    def must_stop(self) -> bool:
        """Return whether the solve is done: the stop callback of the computation of lower bounds.

        If the search runs in a second thread, first offer the latest schedule that it found to the
        solve. Otherwise first run the last step of the search, if its runs in this function have
        taken less than the share ``share`` of the time since the ``after`` seconds ended.
        """
        interval, clock = self._interval, self._interval.clock
        if self._thread is not None:
            self._thread.take()
        elif self._spent < self._share * (clock.seconds() - self._begun) and not interval.is_done():
            now, phase = clock.seconds(), interval.phase
            self._steps[-1](interval)
            interval.phase = phase
            self._spent += clock.seconds() - now
        return interval.is_done()

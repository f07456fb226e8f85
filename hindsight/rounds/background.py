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
    """A search for schedules that repeats one or more steps.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    cores : int
        Available threads.
    *steps : Callable[[Interval], object]
        Each does part of the search and offers better schedules to the given interval. A second
        thread runs them in turn. Without one, the first runs in `advance`, the last in `must_stop`.
    share : float, default 0.0
        Share of the time for the last step in `must_stop`.
    after : float, default 0.0
        Seconds from now on without steps in `must_stop`.
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
        """Repeat the steps in a second thread during the ``with`` block, if ``wanted``.

        No thread is started with one core, or if the solve is done.
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
        # The last schedule may have closed the gap.
        self._interval.is_done()

    def _search(self, found: Callable[[Any], object], must_stop: Callable[[], bool]) -> None:
        apart = self._interval.apart(found, must_stop)
        for step in cycle(self._steps):
            if must_stop():
                return
            apart.offer(self._interval.schedule)
            step(apart)

    def advance(self) -> None:
        """Run the first step now, unless there is a second thread."""
        if self._thread is None:
            self._steps[0](self._interval)

    def must_stop(self) -> bool:
        """Return whether the solve is done, after steps in their share of the time.

        With a second thread, offer its latest schedule to the solve instead.
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

"""The flow of every solve: parts that run in turns, each in its share of the time.

A part improves schedules or lower bounds, such as beam search, memory prices or an integer program.
Each kind of problem has a table of its parts (`hindsight.rounds`, `hindsight.seconds.solving`).
`run_turns` runs them. `Background` runs searches for schedules at the same time as a part that
computes lower bounds. With two threads, the searches run in the second thread. With one thread,
they take a share of the time: the stop callback of the part also runs steps of the searches.

Compiled loops and HiGHS release the GIL, so both threads run at the same time. Only the main thread
may change the interval of the solve and call the user's callbacks. So the background search puts
its schedules into a queue, and the main thread takes them from there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from itertools import cycle
from threading import Event
from typing import Any, NamedTuple

from hindsight.outcomes.interval import Interval
from hindsight.runtime.clock import SLICE_SECONDS, Clock, never
from hindsight.runtime.search import Search

BACKGROUND = "background"
"""Name of the thread that runs the background search."""


class Part(NamedTuple):
    """A part of a solve: a function, and when and how long it runs.

    A turn of the solve runs all its parts once, one after another.

    Attributes
    ----------
    run : Callable[[], object]
        Function that improves schedules or bounds.
    phase : str
        Name of the part in progress reports.
    share : float, default 1.0
        Largest share of the time left that the part gets in each turn.
    fits : bool, default True
        Whether the part applies to the present problem. If not, it is left out.
    once : bool, default False
        Whether the part runs only in the first turn.
    """

    run: Callable[[], object]
    phase: str
    share: float = 1.0
    fits: bool = True
    once: bool = False


def run_turns(
    interval: Interval,
    parts: Iterable[Part],
    again: Callable[[], bool] = never,
    patience: int | None = None,
) -> None:
    """Run the parts of a solve in turns until the solve is done or another turn does not help.

    A turn runs each part once.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve.
    parts : Iterable[Part]
        The parts, in the order in which they run.
    again : Callable[[], bool], default never
        Called after each turn. It returns whether another turn may help.
    patience : int or None, default None
        A solve without a time limit ends after this many consecutive turns that improved no bound.
        None: no such limit.
    """
    left, fruitless, clock = [part for part in parts if part.fits], 0, interval.clock
    while True:
        reports = len(interval.log)
        for part in left:
            if interval.is_done():
                return
            interval.phase = part.phase
            with clock.within(part.share * clock.seconds_left()):
                part.run()
        left = [part for part in left if not part.once]
        fruitless = 0 if len(interval.log) > reports else fruitless + 1
        if not again() or (fruitless == patience and clock.limit_left() is None):
            return


class Background:
    """A search for schedules that runs next to the computation of lower bounds.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    cores : int
        Number of available threads. With two or more, the search runs in a second thread.
    *steps : Callable[[Interval], bool or None]
        Functions that search for a while, and offer better schedules to the interval that they get.
        The second thread runs them in turn, again and again, until one returns False or raises a
        MemoryError. If there is no second thread, `advance` runs one step, and `must_stop` runs
        the last step.
    share : float, default 0.0
        Largest share of time that `must_stop` may spend on the last step. It is a share of the time
        since the first call of `running`.
    """

    def __init__(
        self,
        interval: Interval,
        cores: int,
        *steps: Callable[[Interval], bool | None],
        share: float = 0.0,
    ) -> None:
        self._interval, self._cores, self._steps, self._share = interval, cores, steps, share
        self._begun, self._spent = math.inf, 0.0
        # The queue ``_found`` has the latest schedule from the second thread that is not yet
        # offered to the solve. The queue has length 1, so a new schedule replaces the one before.
        self._found: deque[Any] = deque(maxlen=1)
        self._over = Event()
        self._thread: Future[None] | None = None

    @contextmanager
    def running(self, *, wanted: bool = True) -> Iterator[None]:
        """Repeat the steps of the search in a second thread during the ``with`` block.

        No thread is started if ``wanted`` is False, if only one core is available, or if the solve
        is done. When the block ends, the search is asked to stop. The block waits until the search
        has ended, and offers its last schedule to the solve. An error of the search is raised then,
        or earlier by `wait` or `must_stop`.
        """
        self._begun = min(self._begun, self._interval.clock.seconds())
        if self._cores == 1 or not wanted or self._interval.is_done():
            yield
            return
        self._over.clear()
        try:
            with ThreadPoolExecutor(1, BACKGROUND) as pool:
                try:
                    self._thread = pool.submit(self._search)
                    yield
                finally:
                    self._over.set()
        finally:
            self._take()
            self._thread = None
        # The last schedule from the second thread may have made the upper bound equal to the lower
        # bound. Then `is_done` records this as the reason why the solve ends.
        self._interval.is_done()

    def _search(self) -> None:
        # The second thread must not change the `Interval` object of the solve. It gets another one,
        # whose progress callback puts each better schedule into the queue ``_found``.
        clock = Clock(should_stop=self._over.is_set)
        report = Search(clock, progress=lambda _: self._found.append(own.schedule))
        own = Interval(self._interval.problem, report)
        with suppress(MemoryError):
            for step in cycle(self._steps):
                if self._over.is_set():
                    return
                own.offer(self._interval.schedule)
                if step(own) is False:
                    return

    def _take(self) -> None:
        """Offer the latest schedule from the second thread to the solve, if there is a new one.

        If an error has ended the second thread, raise this error.
        """
        if self._found:
            self._interval.offer(self._found.popleft())
        if self._thread is not None and self._thread.done():
            self._thread.result()

    def wait(self) -> None:
        """Wait until the second thread ends or the solve is done.

        Meanwhile, offer each better schedule that the thread finds to the solve. Without a second
        thread, return at once.
        """
        thread = self._thread
        while thread is not None and not self._interval.is_done():
            if not wait([thread], SLICE_SECONDS).not_done:
                return
            self._take()

    def advance(self, step: int = 0) -> None:
        """Run a step of the search (default: the first), unless a second thread runs the steps."""
        if self._thread is None:
            self._steps[step](self._interval)

    def must_stop(self) -> bool:
        """Return whether the solve is done: the stop callback of the computation of lower bounds.

        If the search runs in a second thread, first offer the latest schedule that it found to the
        solve. Otherwise first run the last step of the search, if its runs in this function have
        taken less than the share ``share`` of the time since the first call of `running`.
        """
        interval, clock = self._interval, self._interval.clock
        if self._thread is not None:
            self._take()
        elif self._spent < self._share * (clock.seconds() - self._begun) and not interval.is_done():
            now, phase = clock.seconds(), interval.phase
            self._steps[-1](interval)
            interval.phase = phase
            self._spent += clock.seconds() - now
        return interval.is_done()

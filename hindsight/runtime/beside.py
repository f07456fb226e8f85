"""A background search in a second thread, in parallel with the main search of a solve.

Compiled loops and HiGHS release the GIL, so both searches run at the same time. Only the main
thread may change the state of the solve and call the user's callbacks. So the background search
puts its results into a queue, and the main search takes them from the queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from threading import Event
from typing import Generic, TypeVar

BESIDE = "beside"
"""Name of the thread that runs the background search."""

Found = TypeVar("Found")


class Beside(Generic[Found]):
    """A background search in a second thread, which runs as long as a ``with`` block.

    Parameters
    ----------
    search : Callable[[Callable[[Found], object], Callable[[], bool]], None]
        Function that runs the background search. It must call its first argument with each result
        that is better than those it found earlier. It must poll its second argument, and return
        once that returns True. If it raises a MemoryError, the error is ignored, because the main
        search can go on without it.
    take : Callable[[Found], object]
        Function that uses a result of the background search. It is called in the thread of the
        ``with`` block.
    """

    def __init__(
        self,
        search: Callable[[Callable[[Found], object], Callable[[], bool]], None],
        take: Callable[[Found], object],
    ) -> None:
        self._search, self._use = search, take
        # Queue of length 1: a new result of the background search replaces the one before.
        self._found: deque[Found] = deque(maxlen=1)
        self._over = Event()
        self._ended: Future[None] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the background search until the ``with`` block ends or raises an error.

        When the block ends, the background search is asked to stop. The block waits until it has
        ended, and passes its last result to the function ``take``, unless it did so already.
        """
        try:
            with ThreadPoolExecutor(1, BESIDE) as pool:
                try:
                    self._ended = pool.submit(self._run)
                    yield
                finally:
                    self._over.set()
        finally:
            self.take()

    def _run(self) -> None:
        with suppress(MemoryError):
            self._search(self._found.append, self._over.is_set)

    def ends_within(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the background search to end; return whether it has ended."""
        return self._ended is not None and not wait([self._ended], seconds).not_done

    def take(self) -> None:
        """Pass the latest result of the background search to the function ``take`` of this object.

        Each result is passed only once. Do nothing if there is no new result. If the background
        search ended with an error, raise the error here.
        """
        if self._found:
            self._use(self._found.popleft())
        if self._ended is not None and self._ended.done():
            self._ended.result()

    def take_then(self, is_done: Callable[[], bool]) -> bool:
        """Pass on the latest result of the background search, then return ``is_done()``.

        The main search polls this method instead of ``is_done`` to decide whether it must stop. The
        result is passed to the function ``take`` of this object.
        """
        self.take()
        return is_done()

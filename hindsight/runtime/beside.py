"""A search in a thread of its own, beside another search.

Compiled loops and HiGHS release the interpreter's lock, so that both proceed at once. Only one
thread may use the state of a solve and its callbacks: the search beside hands over what it finds,
and the other one takes it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from threading import Event
from typing import Generic, TypeVar

BESIDE = "beside"
"""Name of the thread."""

Found = TypeVar("Found")


class Beside(Generic[Found]):
    """A search in a further thread, while a ``with`` block runs.

    Parameters
    ----------
    search : Callable[[Callable[[Found], object], Callable[[], bool]], None]
        The search. It hands over each result that is better than the last by its first argument,
        and ends when its second one returns True, or for want of memory: the other search may need
        all there is.
    take : Callable[[Found], object]
        Uses a result, in the thread of the ``with`` block.
    """

    def __init__(
        self,
        search: Callable[[Callable[[Found], object], Callable[[], bool]], None],
        take: Callable[[Found], object],
    ) -> None:
        self._search, self._use = search, take
        # Of several results the latest counts.
        self._found: deque[Found] = deque(maxlen=1)
        self._over = Event()
        self._ended: Future[None] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Search until the ``with`` block ends, however it does; then take the last result."""
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
        """Wait so long at most; tell whether the search has ended by itself."""
        return self._ended is not None and not wait([self._ended], seconds).not_done

    def take(self) -> None:
        """Take the latest result; raise the error of a search that failed."""
        if self._found:
            self._use(self._found.popleft())
        if self._ended is not None and self._ended.done():
            self._ended.result()

    def take_then(self, is_done: Callable[[], bool]) -> bool:
        """Take the latest result, then tell whether the other search is done: for its polls."""
        self.take()
        return is_done()

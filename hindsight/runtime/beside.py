"""A background search in a second thread, in parallel with the main search.

Compiled loops and HiGHS release the GIL, so both searches run at once. Only the main thread may use
the state of a solve and its callbacks. So the background search puts its results into a queue, and
the main search takes them from there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from threading import Event
from typing import Generic, TypeVar

BESIDE = "beside"
"""Name of the background thread."""

Found = TypeVar("Found")


class Beside(Generic[Found]):
    """A background search in a second thread, while a ``with`` block runs.

    Parameters
    ----------
    search : Callable[[Callable[[Found], object], Callable[[], bool]], None]
        The background search. It calls its first argument with each better result, and ends once
        its second argument returns True. It may also end with a MemoryError, which is ignored: the
        main search may need all memory.
    take : Callable[[Found], object]
        Called with a result, in the thread of the ``with`` block.
    """

    def __init__(
        self,
        search: Callable[[Callable[[Found], object], Callable[[], bool]], None],
        take: Callable[[Found], object],
    ) -> None:
        self._search, self._use = search, take
        # Only the latest result is kept.
        self._found: deque[Found] = deque(maxlen=1)
        self._over = Event()
        self._ended: Future[None] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Search until the ``with`` block ends or raises an error; then take the last result."""
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
        """Wait up to ``seconds``; return whether the background search has ended by itself."""
        return self._ended is not None and not wait([self._ended], seconds).not_done

    def take(self) -> None:
        """Process the latest result, if any; raise the error of a background search that failed."""
        if self._found:
            self._use(self._found.popleft())
        if self._ended is not None and self._ended.done():
            self._ended.result()

    def take_then(self, is_done: Callable[[], bool]) -> bool:
        """Process the latest result and return ``is_done()``: stop callback of the main search."""
        self.take()
        return is_done()

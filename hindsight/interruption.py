"""Ctrl-C that ends a computation early instead of losing it."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

FLURRY_SECONDS = 1.0
"""What is pressed within this time of a press that counted belongs to it: a key held down, a shell
that passes on what the terminal has sent already."""


class Interruption:
    """Counts Ctrl-C; called, it tells whether there was any.

    Parameters
    ----------
    raises_from : the press from which on each raises KeyboardInterrupt, for what does not ask.

    Attributes
    ----------
    presses : those that counted.
    raised : whether one raised KeyboardInterrupt.
    """

    def __init__(self, raises_from: float = 2) -> None:
        self.presses = 0
        self.raised = False
        self._raises_from = raises_from
        self._last = -math.inf
        self._outer: Interruption | None = None

    def __call__(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self.presses > 0

    def listen(self) -> None:
        """Take the place of the present handler of SIGINT, in the main thread."""
        present = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
        self._outer = present if isinstance(present, Interruption) else None
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        if self._counts() and self.presses >= self._raises_from:
            self.raised = True
            raise KeyboardInterrupt

    def _counts(self) -> bool:
        # A computation inside another one that listens: both are to end.
        if self._outer is not None:
            self._outer._counts()
        now = time.monotonic()
        if now - self._last < FLURRY_SECONDS:
            return False
        self._last = now
        self.presses += 1
        return True


@contextmanager
def interruption(raises_from: float = 2) -> Iterator[Interruption]:
    """Yield a function that tells whether Ctrl-C was pressed inside the ``with`` block.

    The first Ctrl-C only sets the flag; a later one, `FLURRY_SECONDS` after it or more, raises
    KeyboardInterrupt as usual. Outside the main thread signals cannot be caught, and the flag stays
    False.

    Parameters
    ----------
    raises_from : the press from which on each raises; infinity only counts them.
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

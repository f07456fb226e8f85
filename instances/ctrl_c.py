"""Ctrl-C handling that ends a computation early and keeps its result."""

from __future__ import annotations

import math
import signal
import threading
import time
from typing import Any

FLURRY_SECONDS = 1.0
"""Seconds after a counted Ctrl-C in which further ones are not counted: a key may be held down, and
a shell may pass on a Ctrl-C that the terminal has sent already."""


class Interruption:
    """Count the Ctrl-C in a ``with`` block; calling the object returns whether there was one.

    By default the first Ctrl-C is only counted, and a later one raises KeyboardInterrupt as usual.
    Outside the main thread signals cannot be caught, and nothing is counted.

    Parameters
    ----------
    raises_from : float, default 2
        Number of the first Ctrl-C that raises KeyboardInterrupt; with infinity none does.

    Attributes
    ----------
    presses : int
        Number of counted Ctrl-C.
    raised : bool
        Whether one raised KeyboardInterrupt.
    """

    def __init__(self, raises_from: float = 2) -> None:
        self.presses = 0
        self.raised = False
        self._raises_from = raises_from
        self._last = -math.inf
        self._outer: Interruption | None = None
        # Ctrl-C pressed in this block, but in none inside it.
        self._unheard = 0
        self._previous: Any = None

    def __call__(self) -> bool:
        """Return whether Ctrl-C was pressed."""
        return self.presses > 0

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self.listen()
        return self

    def __exit__(self, *error: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def listen(self) -> None:
        """Replace the present handler of SIGINT, in the main thread.

        A Ctrl-C that was pressed in an enclosing block, but in none inside it, counts here too: it
        was meant for the computation that begins now.
        """
        self._previous = signal.getsignal(signal.SIGINT)
        present = getattr(self._previous, "__self__", None)
        if isinstance(present, Interruption):
            self._outer = present
            self.presses = self._unheard = present._unheard
            self._last = present._last
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        if self._counts():
            self._unheard += 1
            if self.presses >= self._raises_from:
                self.raised = True
                raise KeyboardInterrupt

    def _counts(self) -> bool:
        # If computations are nested, Ctrl-C ends both.
        if self._outer is not None:
            self._outer._counts()
        now = time.monotonic()
        if now - self._last < FLURRY_SECONDS:
            return False
        self._last = now
        self.presses += 1
        return True

"""Ctrl-C handling that ends a computation early and keeps its result."""

from __future__ import annotations

import math
import signal
import threading
import time
from typing import Any

FLURRY_SECONDS = 1.0
"""Seconds after a counted Ctrl-C in which further ones are ignored. They may come from a key that
is held down, or from a shell that sends the signal a second time."""


class Interruption:
    """Context manager that catches Ctrl-C, so that a computation can end early with its result.

    Calling the object returns whether Ctrl-C was pressed. By default the first Ctrl-C is only
    counted, and a second one raises KeyboardInterrupt as usual. Outside the main thread signals
    cannot be caught, and nothing is counted.

    Parameters
    ----------
    raises_from : float, default 2
        Number of the press from which on Ctrl-C raises KeyboardInterrupt; infinity means never.

    Attributes
    ----------
    presses : int
        Number of times that Ctrl-C was pressed. Presses within `FLURRY_SECONDS` count once.
    raised : bool
        Whether a press raised KeyboardInterrupt.
    """

    def __init__(self, raises_from: float = 2) -> None:
        self.presses = 0
        self.raised = False
        self._raises_from = raises_from
        self._last = -math.inf
        self._outer: Interruption | None = None
        self._previous: Any = None

    def __call__(self) -> bool:
        """Return whether Ctrl-C was pressed in the ``with`` block so far."""
        return self.presses > 0

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self.listen()
        return self

    def __exit__(self, *error: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def listen(self) -> None:
        """Install this object as the handler of SIGINT; only possible in the main thread.

        If an enclosing ``with`` block of another `Interruption` has counted a press, this object
        counts it too, so that the computation that begins now ends at once.
        """
        self._previous = signal.getsignal(signal.SIGINT)
        present = getattr(self._previous, "__self__", None)
        if isinstance(present, Interruption):
            self._outer = present
            self.presses, self._last = present.presses, present._last
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        if self._counts() and self.presses >= self._raises_from:
            self.raised = True
            raise KeyboardInterrupt

    def _counts(self) -> bool:
        # In nested ``with`` blocks a press also counts for the outer block, so that it ends both
        # computations.
        if self._outer is not None:
            self._outer._counts()
        now = time.monotonic()
        if now - self._last < FLURRY_SECONDS:
            return False
        self._last = now
        self.presses += 1
        return True

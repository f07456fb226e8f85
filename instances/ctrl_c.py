"""Ctrl-C as something to ask for."""

from __future__ import annotations

import math
import signal
import time
from typing import Any

FLURRY_SECONDS = 1.0
"""What is pressed within this time of a press that counted belongs to it: a key held down, a shell
that passes on what the terminal has sent already."""


class Interruption:
    """Counts Ctrl-C; called, it tells whether there was any.

    Parameters
    ----------
    raises_from : float, default 2
        The press from which on each raises KeyboardInterrupt, for what does not ask.

    Attributes
    ----------
    presses : int
        Those that counted.
    raised : bool
        Whether one raised KeyboardInterrupt.
    """

    def __init__(self, raises_from: float = 2) -> None:
        self.presses = 0
        self.raised = False
        self._raises_from = raises_from
        self._last = -math.inf
        self._outer: Interruption | None = None
        self._unheard = 0

    def __call__(self) -> bool:
        """Tell whether Ctrl-C was pressed."""
        return self.presses > 0

    def listen(self) -> None:
        """Take the place of the present handler of SIGINT, in the main thread.

        What was pressed while a computation around this one listened and none inside it counts as
        pressed here: it was meant for what begins now.
        """
        present = getattr(signal.getsignal(signal.SIGINT), "__self__", None)
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
        # A computation inside another one that listens: both are to end.
        if self._outer is not None:
            self._outer._counts()
        now = time.monotonic()
        if now - self._last < FLURRY_SECONDS:
            return False
        self._last = now
        self.presses += 1
        return True

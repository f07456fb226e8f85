"""Ctrl-C handling that ends a computation early and keeps its result."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from instances.ctrl_c import Interruption


@contextmanager
def interruption(raises_from: float = 2) -> Iterator[Interruption]:
    """Yield a function that returns whether Ctrl-C was pressed inside the ``with`` block.

    The first Ctrl-C only makes the function return True. A later Ctrl-C, at least `FLURRY_SECONDS`
    after the first, raises KeyboardInterrupt as usual. Outside the main thread signals cannot be
    caught, and the function always returns False.

    Parameters
    ----------
    raises_from : float, default 2
        Number of the first Ctrl-C that raises KeyboardInterrupt; with infinity none does.
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

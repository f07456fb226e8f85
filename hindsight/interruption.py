"""Ctrl-C that ends a computation early instead of losing it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed inside the ``with`` block.

    The first Ctrl-C only sets the flag; a second one raises KeyboardInterrupt as usual. Outside
    the main thread signals cannot be caught, and the flag stays False.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    previous = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: Any) -> None:
        if pressed.is_set():
            if callable(previous):
                previous(number, frame)
            raise KeyboardInterrupt
        pressed.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, previous)

"""What the tests have worker processes do. Workers import it by this name."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from online.runtime import processes


class Unpicklable(RuntimeError):  # noqa: N818
    """Carries what no other process can have."""

    def __init__(self) -> None:
        super().__init__("kept here")
        self.lock = threading.Lock()


def double(number: int) -> int:
    return 2 * number


def refuse(number: int) -> int:
    raise ValueError(f"not {number}")


def refuse_oddly(number: int) -> int:
    raise Unpicklable


def lock(number: int) -> object:
    return threading.Lock()


def die_of_thirteen(number: int) -> int:
    """Whoever gets the 13 is killed; the others take long enough to be under way then."""
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.3)
    return number


def tell_and_wait(number: int) -> tuple[int, str]:
    """Goes on until the parent gives it up."""
    processes.tell(os.getpid())
    deadline = time.monotonic() + 60
    while not processes.should_stop() and time.monotonic() < deadline:
        time.sleep(0.01)
    return number, "stopped" if processes.should_stop() else "never stopped"


def tell_and_sleep(
    number: int, should_stop: Callable[[], bool], tell: Callable[[object], None]
) -> int:
    """Does not ask whether to stop."""
    tell(os.getpid())
    time.sleep(20)
    return number

"""What the tests have worker processes do. Workers import it by this name."""

from __future__ import annotations

import os
import signal
import time

from instances.ctrl_c import Interruption


def double(number: int) -> int:
    return 2 * number


def refuse(number: int) -> int:
    raise ValueError(f"not {number}")


def die_of_thirteen(number: int) -> int:
    """The worker that gets 13 is killed; the others take long enough to be under way then."""
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.3)
    return number


def wait_for_ctrl_c(number: int) -> str:
    """Tell that it began, and wait."""
    os.write(1, f"began {os.getpid()}\n".encode())  # at once: lines of two do not mix
    deadline = time.monotonic() + 60
    with Interruption() as pressed:
        while not pressed() and time.monotonic() < deadline:
            time.sleep(0.01)
    return "stopped" if pressed() else "never stopped"


def sleep(number: int) -> int:
    os.write(1, f"began {os.getpid()}\n".encode())  # at once: lines of two do not mix
    time.sleep(60)
    return number

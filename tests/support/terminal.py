"""Programs in a pseudo-terminal: what it shows, and Ctrl-C, which goes to their whole group."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from process_groups import members

ROOT = Path(__file__).resolve().parents[2]
CTRL_C = b"\x03"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """A pseudo-terminal that keeps what is written to it.

    Attributes
    ----------
    path : of the file to write to.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.openpty()
        self._shown: list[bytes] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        self.path = os.ttyname(self._writer)

    def _read(self) -> None:
        # How Linux says that the last writer has closed its end.
        with contextlib.suppress(OSError):
            while part := os.read(self._reader, 1 << 16):
                self._shown.append(part)

    def close(self) -> str:
        """All that was shown, without colours, once the writers have ended."""
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)
        return ESCAPES.sub("", b"".join(self._shown).decode()).replace("\r\n", "\n")


@dataclass(frozen=True)
class Session:
    """How a program ended.

    Attributes
    ----------
    status : its exit status.
    before, after : what the terminal showed up to the first Ctrl-C, and from then on.
    seconds : from the first Ctrl-C to the end.
    left : processes of the session that lived on a second later.
    """

    status: int
    before: str
    after: str
    seconds: float
    left: int


def run_in_terminal(
    arguments: Sequence[object], moments: Sequence[float], *, limit: float = 300
) -> Session:
    """A Python program; Ctrl-C is pressed at the moments, seconds from its start."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execve(
            sys.executable,
            [sys.executable, *map(str, arguments)],
            {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "TERM": "xterm"},
        )
    began, todo = time.monotonic(), list(moments)
    shown = [b"", b""]
    while time.monotonic() < began + limit:
        if todo and time.monotonic() >= began + todo[0]:
            todo.pop(0)
            os.write(terminal, CTRL_C)
        if select.select([terminal], [], [], 0.01)[0]:
            try:
                shown[len(todo) < len(moments)] += os.read(terminal, 1 << 16)
            except OSError:
                break  # its last process has closed the terminal
    _, status = os.waitpid(pid, 0)
    ended = time.monotonic()
    while members(pid) and time.monotonic() < ended + 1:
        time.sleep(0.01)
    left = members(pid)
    for one in left:
        os.kill(one, signal.SIGKILL)
    os.close(terminal)
    before, after = (ESCAPES.sub("", text.decode()) for text in shown)
    seconds = ended - began - moments[0]
    return Session(os.waitstatus_to_exitcode(status), before, after, seconds, len(left))

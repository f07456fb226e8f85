"""Programs in a process group of their own, as a terminal starts them: pressed, killed, counted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120.0


def start(*arguments: object, path: Path = ROOT) -> subprocess.Popen[str]:
    """A Python program, leader of a group of its own; it imports from ``path`` first."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (path, ROOT, ROOT / "tests" / "support"))),
            "COLUMNS": "100",
            "NO_COLOR": "1",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test run in the background has left Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_until_printed(process: subprocess.Popen[str], *lines: str) -> None:
    """Read lines of its output, which must be these."""
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in lines] == [f"{line}\n" for line in lines]


def press_ctrl_c(process: subprocess.Popen[str], *, group: bool = True) -> None:
    """As a terminal does, to the whole group; or as a notebook does, to the one process."""
    if group:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait for it; what it printed, and what it complained of."""
    return process.communicate(timeout=SECONDS)


def members(session: int) -> list[int]:
    """Processes of a session that live, its leader among them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text("ascii", errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, _, _, own = status.rpartition(")")[2].split()[:4]
            if int(own) == session and state != "Z":
                found.append(int(entry.name))
    return found


def wait_until_gone(session: int) -> None:
    """Until nothing of a session lives; a process takes a moment to notice its parent's death."""
    deadline = time.monotonic() + SECONDS
    while members(session) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = members(session)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left, "processes were left"

"""Experiments as processes: started, watched through their results file, killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from online.experiment.store import Done
from online.experiment.work import Task, perform

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 240.0

TINY = """
name = "tiny"
policies = ["fcfs", "mc-sf", "a-random"]
policy_seeds = [0, 1]

[[instances]]
generator = "uniform"
parameters = { maximum_length = 6, memory_limit = 14 }
grid = { n = [3, 4] }
seeds = { count = 2 }
"""
"""4 instances, 16 trials, 4 optima."""

TINY_TOTAL = 20
DEADLY_SEED = 13


def perform_or_die(task: Task) -> Done:
    """`perform`, except that the draw with the deadly seed takes its process along."""
    if getattr(task, "seed", None) == DEADLY_SEED:
        os.kill(os.getpid(), signal.SIGKILL)
    return perform(task)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"}


def start(*arguments: object) -> subprocess.Popen[str]:
    """``run_experiment.py`` with these arguments."""
    return subprocess.Popen(
        [sys.executable, ROOT / "scripts" / "run_experiment.py", *map(str, arguments)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for success; returns what was printed."""
    printed, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, printed
    return printed


def kill(process: subprocess.Popen[str]) -> bool:
    """kill -9, and wait until its children are gone too; False where it had ended before."""
    children = [int(pid) for pid in _children(process.pid).split()]
    process.kill()
    process.communicate(timeout=SECONDS)
    wait_until(lambda: not any(_lives(child) for child in children))
    return process.returncode == -signal.SIGKILL


def stored(path: Path) -> int:
    """Finished trials and optima in a results file, which may not be there yet."""
    if not path.exists():
        return 0
    database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=60)
    try:
        query = "SELECT (SELECT count(*) FROM trials) + (SELECT count(*) FROM optima)"
        return int(database.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # the tables are not made yet
    finally:
        database.close()


def wait_until(condition: Any, process: subprocess.Popen[str] | None = None) -> None:
    """Poll until the condition holds or the process has ended."""
    deadline = time.monotonic() + SECONDS
    while not condition() and (process is None or process.poll() is None):
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.005)


def dump(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in a results file but how long things took, read without the package."""
    database = sqlite3.connect(path)
    try:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = {}
        for table in ("trials", "optima", "instances", "experiments", "members"):
            names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            chosen = ", ".join(name for name in names if name != "seconds")
            found[table] = database.execute(
                f"SELECT {chosen} FROM {table} ORDER BY 1, 2"
            ).fetchall()
        return found
    finally:
        database.close()


def tables(path: Path) -> dict[str, bytes]:
    """What ``table.py`` prints of a results file, in every format."""
    forms = [("text",), ("csv",), ("markdown",), ("latex",), ("csv", "--trials")]
    return {
        " ".join(form): subprocess.run(
            [sys.executable, ROOT / "scripts" / "table.py", path, "--format", *form],
            env=environment(),
            check=True,
            capture_output=True,
            timeout=SECONDS,
        ).stdout
        for form in forms
    }


def _children(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    except FileNotFoundError:
        return ""


def _lives(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"

"""Ctrl-C at random moments of work on two processes, in a terminal and in a notebook's kernel.

Run as a program it prints a line for each trial and, at the end, how many of them kept everything:
``python tests/support/interrupt_at_random.py --times 10``.
"""

from __future__ import annotations

import argparse
import csv
import os
import queue
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from process_groups import members
from terminal import ROOT, run_in_terminal

INTERRUPTED_STATUS = 130
EXPERIMENT = """
name = "interrupted"
policies = ["mc-sf", "fcfs", "vllm"]

[[instances]]
generator = "arrival-model-1"
grid = { n = [6, 9, 11] }
seeds = { start = 0, count = 30 }
"""


@dataclass(frozen=True)
class Trial:
    """What one Ctrl-C came to.

    Attributes
    ----------
    what : str
        Was interrupted.
    pressed : float
        Seconds after it began.
    told : int
        Pieces that were said to be finished by then.
    kept : int
        Pieces that are there afterwards.
    said : str
        The line that tells of it; empty where there is none.
    seconds : float
        From the press to the end.
    faults : tuple[str, ...]
        What is not as it should be.
    """

    what: str
    pressed: float
    told: int
    kept: int
    said: str
    seconds: float
    faults: tuple[str, ...]


def _finished(shown: str) -> int:
    return max((int(found) for found in re.findall(r"(\d+)/\d+", shown)), default=0)


def _line(shown: str) -> str:
    said = [line.strip() for line in re.split(r"[\r\n]+", shown) if "nterrupt" in line]
    return said[0] if said else ""


# --- in a terminal -----------------------------------------------------------------------------


def ratios_in_terminal(moment: float, folder: Path) -> Trial:
    """``llm-hindsight ratios``, its records counted by instance."""
    out = folder / "ratios.csv"
    drawn = ("generator:arrival-model-1(n=12, count=20)",)
    chosen = ("--policy", "mc-sf", "--time-limit", 3, "--jobs", 2, "--out", out)

    def kept() -> int:
        if not out.exists():
            return 0
        with out.open(encoding="utf-8") as file:
            return len({row["instance"] for row in csv.DictReader(file)})

    return _in_terminal("ratios", ("ratios", *drawn, *chosen), moment, kept)


def experiment_in_terminal(moment: float, folder: Path) -> Trial:
    """``llm-hindsight experiment``, its trials and optima counted."""
    results = folder / "results.sqlite"
    config = folder / "experiment.toml"
    config.write_text(EXPERIMENT, encoding="utf-8")
    arguments = ("experiment", config, "--results", results, "--jobs", 2)
    return _in_terminal("experiment", arguments, moment, lambda: stored(results))


def stored(results: Path) -> int:
    """Trials and optima in a results file, which must be whole; 0 without one."""
    if not results.exists():
        return 0
    with sqlite3.connect(results) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        try:
            counts = [
                database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                for table in ("trials", "optima")
            ]
        except sqlite3.OperationalError:
            return 0  # pressed before there were tables
    database.close()
    return sum(counts)


def _in_terminal(what: str, arguments: tuple[object, ...], moment: float, kept: Any) -> Trial:
    session = run_in_terminal(["-m", "llm_hindsight", *arguments], [moment])
    told, there, said = _finished(session.before), kept(), _line(session.after)
    faults = []
    if session.status != INTERRUPTED_STATUS and (session.status or said):
        faults.append(f"exit status {session.status}")
    if session.status and not said:
        faults.append(f"no message but {session.after[-300:]!r}")
    if "Traceback" in session.after:
        faults.append("traceback")
    if there < told:
        faults.append(f"{told - there} lost")
    if session.left:
        faults.append(f"{session.left} processes left")
    return Trial(f"terminal: {what}", moment, told, there, said, session.seconds, tuple(faults))


# --- in a kernel -------------------------------------------------------------------------------

PREAMBLE = """
import hindsight, instances, online
from online.comparison import compare_many
from online.experiment import parse_experiment, run_experiment
experiment = parse_experiment({experiment!r})
drawn = [instances.generate("arrival-model-1", seed=seed, n=12) for seed in range(20)]
large = instances.generate("arrival-model-1", seed=1, n=40)
tell = lambda news: print(news, flush=True)
"""
COMPARE = "found = compare_many(drawn, ['mc-sf'], jobs=2, time_limit=3, progress=tell)"
STORE = "run_experiment(experiment, {results!r}, jobs=2, progress=tell)"
SOLVE = (
    "found = hindsight.solve(instances.generate('arrival-model-1', seed=1, n=40), progress=tell)"
)
AGAIN = "print(len(compare_many(drawn[:2], ['mc-sf'], jobs=2, time_limit=0).records), 'again')"


class Kernel:
    """A real kernel, and cells run in it."""

    def __init__(self) -> None:
        from jupyter_client.manager import start_new_kernel

        os.environ["PYTHONPATH"] = str(ROOT)
        self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(ROOT))
        self.pid = self.manager.provisioner.pid

    def run(self, code: str, interrupt_after: float | None = None) -> tuple[str, str, float]:
        """What the cell printed until Ctrl-C and after it, and the seconds from then on."""
        sent = self.client.execute(code)
        began, pressed = time.monotonic(), None
        shown = ["", ""]
        while time.monotonic() < began + 120:
            now = time.monotonic()
            if interrupt_after is not None and pressed is None and now >= began + interrupt_after:
                self.manager.interrupt_kernel()
                pressed = now
            try:
                message = self.client.get_iopub_msg(timeout=0.02)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != sent:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                shown[pressed is not None] += content["text"]
            elif message["msg_type"] == "error":
                shown[pressed is not None] += f"\n{content['ename']}: {content['evalue']}\n"
            elif content.get("execution_state") == "idle":
                break
        # Below 0 where it was over before Ctrl-C was due.
        return shown[0], shown[1], time.monotonic() - (pressed or began + (interrupt_after or 0))

    def workers(self) -> int:
        """Processes of its session that do work, a second later; the kernel has one that only
        tidies up after it."""
        deadline = time.monotonic() + 1
        while (left := self._workers()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def _workers(self) -> int:
        found = 0
        for process in members(os.getsid(self.pid)):
            try:
                command = Path(f"/proc/{process}/cmdline").read_bytes()
            except OSError:
                continue
            found += b"spawn_main" in command
        return found


@contextmanager
def kernel() -> Iterator[Kernel]:
    """A kernel for the block, ready to work."""
    one = Kernel()
    try:
        one.run(PREAMBLE.format(experiment=EXPERIMENT))
        yield one
    finally:
        one.client.stop_channels()
        one.manager.shutdown_kernel(now=True)


def in_kernel(one: Kernel, what: str, moment: float, folder: Path) -> Trial:
    """A cell interrupted, what it left, and another cell."""
    results = folder / "results.sqlite"
    code = {
        "compare_many": COMPARE,
        "run_experiment": STORE.format(results=str(results)),
        "solve": SOLVE,
    }[what]
    one.run("found = None")
    before, after, seconds = one.run(code, moment)
    left = one.workers()
    state = one.run("print(found, getattr(found, 'stop_reason', ''))")[0]
    told, there, said = _finished(before), 0, _line(after) or _line(state)
    if what == "run_experiment":
        there = stored(results)
    elif what == "compare_many":
        there = int(one.run("print(found.finished if found else 0)")[0])
    else:
        told = there = 0
    faults = []
    if not said and seconds >= 0:
        faults.append("no message")
    if what == "solve" and before and "interrupted" not in state:
        faults.append("interval lost")
    if there < told:
        faults.append(f"{told - there} lost")
    if left:
        faults.append(f"{left} workers left")
    again = one.run(AGAIN)
    if "2 again" not in again[0]:
        faults.append(f"the kernel does not go on: {again}")
    return Trial(f"kernel: {what}", moment, told, there, said, seconds, tuple(faults))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=10, help="in the terminal, and in the kernel")
    parser.add_argument("--span", type=float, default=12.0, help="moments: 0.2 s to this")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    trials: list[Trial] = []
    print("trial | pressed at | finished by then | kept | ended after | what it said | faults")

    def note(trial: Trial) -> None:
        trials.append(trial)
        print(
            f"{trial.what} | {trial.pressed:.2f} s | {trial.told} | {trial.kept} | "
            f"{trial.seconds:.1f} s | {trial.said} | {', '.join(trial.faults) or 'none'}",
            flush=True,
        )

    for number in range(options.times):
        in_terminal = (ratios_in_terminal, experiment_in_terminal)[number % 2]
        with tempfile.TemporaryDirectory() as folder:
            note(in_terminal(float(rng.uniform(0.2, options.span)), Path(folder)))
    with kernel() as one:
        for number in range(options.times):
            what = ("compare_many", "run_experiment", "solve")[number % 3]
            with tempfile.TemporaryDirectory() as folder:
                note(in_kernel(one, what, float(rng.uniform(0.05, options.span)), Path(folder)))
    faulty = sum(bool(trial.faults) for trial in trials)
    print(f"{len(trials) - faulty} of {len(trials)} kept everything")
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())

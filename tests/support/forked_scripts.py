"""Command lines run in forks of one process that has loaded what they import.

A command line takes 0.8 s of processor time to load its libraries, 5 s where it solves, and a
hundredth of that to refuse its arguments. A fork has its own memory, working folder and standard
streams, and ends as any process does, up to what no one sees: its modules are not taken apart. What
it does not show is a fault in the imports themselves.

Run as a program it is that process: each line on its standard input is a JSON object with the name
of the script, its arguments, the working folder and the files for what it prints; each line of
its output is the exit status. It ends with its standard input.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
COMMAND = "llm_hindsight"
SUBCOMMAND = re.compile(r'run_subcommand\("([\w-]+)"\)')

Process = subprocess.CompletedProcess[str]
Script = Callable[..., Process]
Refused = Callable[..., str]
Ok = Callable[..., str]


def program(name: str) -> Path:
    """The file of a script, or of the command."""
    return (ROOT if name == COMMAND else SCRIPTS) / f"{name}.py"


def command_line(name: str, *arguments: object) -> tuple[object, ...]:
    """A script of that name and its arguments, or else the command and its subcommand."""
    is_script = name == COMMAND or program(name).exists()
    return (name, *arguments) if is_script else (COMMAND, name, *arguments)


class ForkedScripts:
    """Runs scripts, one at a time.

    Parameters
    ----------
    environment : of every script; whatever changes it later changes nothing here.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            # A pool of threads does not survive the fork.
            env={**environment, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, name: str, *arguments: object, cwd: Path) -> Process:
        """``scripts/name.py`` with these arguments, in the folder ``cwd``."""
        given = [str(argument) for argument in arguments]
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, stream) for stream in ("stdout", "stderr")]
            job = [name, given, str(cwd), *map(str, files)]
            self._server.stdin.write(json.dumps(job) + "\n")
            self._server.stdin.flush()
            answer = self._server.stdout.readline()
            assert answer, "the process that forks has ended"
            printed, complained = (file.read_text("utf-8") for file in files)
        return Process([name, *given], int(answer), printed, complained)

    def close(self) -> None:
        """End the process that forks."""
        self._server.communicate()


def fields(printed: str) -> dict[str, str]:
    """The lines ``name  value`` of what a script printed."""
    lines = [line.split("  ", 1) for line in printed.splitlines()]
    return {name: value.strip() for name, value in lines}


def _one_option(value: int = 0) -> None:
    """A command line that does nothing."""


def _serve() -> list[str]:
    """Fork for every job; returns the job, in the fork, and does not return elsewhere."""
    console, hindsight, pictures, instances, online = map(
        importlib.import_module,
        ("online.commands.console", "hindsight", "online.pictures", "instances", "online"),
    )
    # typer loads half of itself when it first reads an option.
    with contextlib.suppress(SystemExit):
        console.run(_one_option)
    # The solvers come with the names that need them, machine code and fonts with their first use.
    for name in hindsight.__all__:
        getattr(hindsight, name)
    rows = [4, 1, 2], [2, 6, 3]
    clock = online.AffineTime(0.5, 0.25)
    for problem in (
        instances.Instance.from_arrays(*rows, memory_limit=8),
        instances.Workload([0.0, 0.0, 1.0], *rows, memory_limit=8, batch_time=clock),
    ):
        hindsight.solve(problem, 0.1, threads=1, progress=False)
    pictures.new_axes().figure.canvas.draw()
    # What tables and bars of progress are made with.
    for name in ("pandas", "rich.progress"):
        importlib.import_module(name)
    # A fork has no thread but the one that asked for it.
    assert len(os.listdir("/proc/self/task")) == 1
    for line in sys.stdin:
        job = json.loads(line)
        _load(job[0])
        # What is loaded already is left out of the collections of a fork, which would copy it.
        gc.freeze()
        pid = os.fork()
        if not pid:
            return job
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    raise SystemExit


def _load(name: str) -> None:
    """What the script imports, and what its subcommand does."""
    for subcommand in SUBCOMMAND.findall(program(name).read_text("utf-8")):
        importlib.import_module(f"online.commands.{subcommand.replace('-', '_')}")
    importlib.import_module(name)


STATUS: list[int] = []
"""With which a fork ends, if it is known."""


def _leave() -> None:
    """End a fork when all else is done: to take its modules apart would first copy them."""
    if STATUS:
        with contextlib.suppress(OSError, ValueError):  # which Python itself tells of
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(STATUS[0])


if __name__ == "__main__":
    atexit.register(_leave)  # the first is the last to be called
    sys.path[0] = str(SCRIPTS)
    sys.path.insert(1, str(ROOT))
    name, arguments, cwd, *files = _serve()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), descriptor)
    os.chdir(cwd)
    script = str(program(name))
    sys.argv = [script, *arguments]
    try:
        runpy.run_path(script, run_name="__main__")
        STATUS.append(0)
    except SystemExit as ended:
        if isinstance(ended.code, int):
            STATUS.append(ended.code)
        raise

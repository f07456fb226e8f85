"""Record what a page of walks shows: its commands, run from a wheel in an empty environment.

The page itself says what is done. A block with a title, ```` ```py title="my_rules.py" ````, is
written to that file as it stands. Each line ``$ command`` of a ``shell-session`` block is run, in
order, and what the page had below it is replaced by what it printed, errors included, and its
seconds. ``# exits 2`` at the end of a command says how it must end; any other end stops the
recording, and the page stays as it was. The folder and the environment are outside the checkout,
and empty but for the wheel and the notebooks.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from _checkout import ROOT

from instances.files import write_atomically
from online.commands.console import check_output, fail, run, say

FENCE = re.compile(r'(?P<mark>`{3,})(?P<language>[\w-]*)(?: title="(?P<title>[^"]+)")?$')
RECORDED = re.compile(r"^Recorded on .*$", re.MULTILINE)
HEAD_LINES, TAIL_LINES, FEW_LINES = 25, 12, 5
"""Of a long output its begin and end are shown, and of what is between no few lines are cut."""
SECONDS = 900
"""For one command."""


class Walk:
    """A folder with an environment, and what its commands took."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "walk"
        self.folder.mkdir()
        constraints = folder / "constraints.txt"
        constraints.write_text(_versions((ROOT / "requirements.lock").read_text("utf-8")))
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
            "PATH": os.pathsep.join([str(self.folder / "env" / "bin"), os.environ["PATH"]]),
            "PIP_CONSTRAINT": str(constraints),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_QUIET": "2",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }
        self.seconds: dict[str, float] = {}
        self.private = sorted({str(folder), str(ROOT), str(Path.home()), sys.prefix}, key=len)[::-1]

    def record(self, page: str) -> str:
        """The page with what its commands print now."""
        found: list[str] = []
        part, lines = "", iter(page.splitlines())
        for line in lines:
            part = line.removeprefix("## ") if line.startswith("## ") else part
            fence = FENCE.match(line)
            if fence is None:
                found.append(line)
                continue
            block = list(iter(lambda: next(lines), fence["mark"]))
            if fence["title"]:
                text = "".join(f"{one}\n" for one in block)
                (self.folder / fence["title"]).write_text(text, "utf-8")
            if fence["language"] == "shell-session":
                block = [
                    shown for command in _commands(block) for shown in self._run(command, part)
                ]
            # What is printed may hold fences of its own.
            mark = max(
                ("```", *(f"{one}`" for one in re.findall("`{3,}", "\n".join(block)))), key=len
            )
            found += [mark + line.removeprefix(fence["mark"]), *block, mark]
        machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
        parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self.seconds.items())
        day = datetime.now(UTC).date().isoformat()
        return RECORDED.sub(f"Recorded on {machine}, {day}: {parts}.", "\n".join(found)) + "\n"

    def _run(self, command: str, part: str) -> list[str]:
        began = time.perf_counter()
        process = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder,
            env=self.environment,
            text=True,
            timeout=SECONDS,
        )
        seconds = time.perf_counter() - began
        self.seconds[part] = self.seconds.get(part, 0) + seconds
        status = process.returncode if process.returncode >= 0 else 128 - process.returncode
        wanted = re.search(r"# exits (\d+)$", command)
        if status != int(wanted[1] if wanted else 0):
            _refuse(command, process.stdout, f"ends with exit status {status}")
        for path in self.private:
            if path in process.stdout:
                _refuse(command, process.stdout, f"prints {path}")
        shown = [f"$ {command}", *_trimmed(process.stdout.splitlines()), f"[{seconds:.1f} s]"]
        say("\n".join(shown))
        return shown


def _refuse(command: str, printed: str, reason: str) -> NoReturn:
    print(printed, file=sys.stderr)
    fail(f"{command!r} {reason}")


def _commands(block: list[str]) -> list[str]:
    """A command goes on below a line that ends with a backslash."""
    found: list[str] = []
    for line in block:
        if found and found[-1].endswith("\\"):
            found[-1] += f"\n{line}"
        elif line.startswith("$ "):
            found.append(line.removeprefix("$ "))
    return found


def _trimmed(lines: list[str]) -> list[str]:
    lines = [line.rstrip() for line in lines]
    cut = len(lines) - HEAD_LINES - TAIL_LINES
    if cut <= FEW_LINES:
        return lines
    return [*lines[:HEAD_LINES], f"[{cut} lines left out]", *lines[-TAIL_LINES:]]


def _versions(lock: str) -> str:
    """The lock without its hashes: a constraint with a hash would ask for one of the wheel too."""
    return "\n".join(re.findall(r"^[^\s#][^\\\n]*", lock, flags=re.MULTILINE)) + "\n"


def record_walks(
    page: Annotated[Path, typer.Argument(metavar="PAGE.md", help="Recorded anew, in place.")] = ROOT
    / "docs"
    / "walks.md",
) -> None:
    """Run what a page of walks shows, from a wheel in an empty environment, and write it down."""
    check_output(page, (".md",), "PAGE.md")
    with tempfile.TemporaryDirectory() as made:
        walk = Walk(Path(made).resolve())
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(walk.folder)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
            shutil.copy(notebook, walk.folder)
        recorded = walk.record(page.read_text("utf-8"))
    write_atomically(page, recorded)
    say(f"wrote {page}")


if __name__ == "__main__":
    run(record_walks)

"""Command lines are tested as their users meet them: as processes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked_scripts import ForkedScripts, Ok, Process, Refused, Script, command_line
from library_records import no_package

import instances
from instances import Instance

__all__ = ["no_package"]

ENVIRONMENT = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


PATIENCE = re.compile(r"(about )?\d+ (s|min|h)\b")
"""What commands tell of how long they take, on a slow machine."""


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """The folder in which `script` and `refused` run."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """An instance of three requests."""
    path = tmp_path / "small.json"
    instances.save(Instance.from_arrays([4, 1, 2], [2, 6, 3], memory_limit=8, name="small"), path)
    return path


@pytest.fixture(scope="session")
def forked() -> Iterator[ForkedScripts]:
    """Scripts in forks of one process that has loaded the libraries."""
    scripts = ForkedScripts({**os.environ, **ENVIRONMENT})
    yield scripts
    scripts.close()


@pytest.fixture
def script(forked: ForkedScripts, empty: Path) -> Script:
    """Run ``script("solve", "--help")`` in an empty folder."""

    def run(name: str, *arguments: object, cwd: Path = empty) -> Process:
        return forked.run(name, *arguments, cwd=cwd)

    return run


@pytest.fixture
def ok(script: Script, tmp_path: Path) -> Ok:
    """Run ``ok("solve small.json --out x.json")`` in ``tmp_path``, where `small` is.

    It must end with this status and no complaint; returns what was printed.
    """

    def run(line: str, *more: object, status: int = 0) -> str:
        name, *arguments = shlex.split(line)
        process = script(*command_line(name, *arguments, *more), cwd=tmp_path)
        complaints = [one for one in process.stderr.splitlines() if not PATIENCE.match(one)]
        assert (process.returncode, complaints) == (status, []), process.stderr
        return process.stdout

    return run


@pytest.fixture
def refused(forked: ForkedScripts, empty: Path) -> Refused:
    """Run what must fail: status 2, one line, no traceback; returns the line."""

    def run(name: str, *arguments: object, cwd: Path = empty) -> str:
        process = forked.run(name, *arguments, cwd=cwd)
        assert process.returncode == 2, process.stdout + process.stderr
        assert process.stdout == ""
        assert process.stderr.startswith("error: ")
        assert process.stderr.count("\n") == 1
        assert "Traceback" not in process.stderr
        return process.stderr.removeprefix("error: ").rstrip("\n")

    return run

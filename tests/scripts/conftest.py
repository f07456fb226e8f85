"""Command lines are tested as their users meet them: as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Process = subprocess.CompletedProcess[str]


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., Process]:
    """Run ``script("solve", "--help")`` in an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()

    def run(name: str, *arguments: object, cwd: Path = folder) -> Process:
        return subprocess.run(
            [sys.executable, ROOT / "scripts" / f"{name}.py", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.fixture
def refused(script: Callable[..., Process]) -> Callable[..., str]:
    """Run what must fail: status 2, one line, no traceback; returns the line."""

    def run(name: str, *arguments: object) -> str:
        process = script(name, *arguments)
        assert process.returncode == 2, process.stdout + process.stderr
        assert process.stdout == ""
        assert process.stderr.startswith("error: ")
        assert process.stderr.count("\n") == 1
        assert "Traceback" not in process.stderr
        return process.stderr.removeprefix("error: ").rstrip("\n")

    return run

"""Traces written and read with the options that most tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instances import read_trace


def write(folder: Path, text: str, name: str = "trace.txt") -> Path:
    """A file of this text."""
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def read(path: Path | str, **options: Any) -> Any:
    """The instance and its report."""
    return read_trace(path, **{"memory_limit": 2000, "round_seconds": 1.0, **options})

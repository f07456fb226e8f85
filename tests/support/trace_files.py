"""Traces written and read with the options that most tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instances import read_trace

SIX_ROWS = """\
arrived_at,num_prefill_tokens,num_decode_tokens
0.0,40,30
0.1,10,5
0.2,300,60
0.2,10,0
0.3,20,10
0.4,700,90
"""
WITH_GAPS = SIX_ROWS.replace("0.1,10,5", "0.1,10,").replace("0.3,20,10", "0.3,20.0,NaN")


def write(folder: Path, text: str, name: str = "trace.txt") -> Path:
    """A file of this text."""
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def read(path: Path | str, **options: Any) -> Any:
    """The instance and its report."""
    return read_trace(path, **{"memory_limit": 2000, "round_seconds": 1.0, **options})

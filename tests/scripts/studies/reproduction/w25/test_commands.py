"""Each reproduction as its user runs it: the quick size leaves its four files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[5]
NAMES = ("figure-5", "figure-6", "figure-7", "figure-8", "figure-ec2", "table-ec1")


def reproduce(name: str, folder: Path) -> None:
    script = ROOT / "scripts" / "reproduce.py"
    done = subprocess.run(
        [sys.executable, script, name, "--quick", "--jobs", "1", "--out", folder],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1", "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[W25] ")
    assert {path.suffix for path in folder.iterdir()} == {".csv", ".png", ".svg", ".json"}
    assert {path.stem for path in folder.iterdir()} == {name}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_one_leaves_its_four_files(name: str, tmp_path: Path) -> None:
    """[W25] Figures 5 to 8, Figures EC.1, EC.2, Table EC.1."""
    reproduce(f"w25-{name}", tmp_path)

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mutants import mutants_of

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''"""0 < 1"""
from math import inf as maximum


@decorated(1)
def most(é: Literal[1], *rest: int, least: int = 0) -> Literal[2]:
    if é < -least:  # 1 + 1
        raise ValueError("0", 1 + 1)
    return min(é, "é") - (rest[0] // 2)
'''


def test_every_mutant_changes_one_token_that_decides_something() -> None:
    mutants = list(mutants_of("file.py", SOURCE))
    assert [(one.line, one.old, one.new) for one in mutants] == [
        (6, "0", "1"),
        (7, "if", "if not"),
        (7, "<", "<="),
        (9, "min", "max"),
        (9, "-", "+"),
        (9, "0", "1"),
        (9, "//", "*"),
        (9, "2", "3"),
    ]
    assert mutants[4].apply(SOURCE).splitlines()[8] == '    return min(é, "é") + (rest[0] // 2)'


@pytest.mark.slow
def test_a_suite_kills_what_it_tests_and_the_checkout_stays_as_it_is(tmp_path: Path) -> None:
    room, out = "instances/version.py", tmp_path / "new/mutants.jsonl"
    before = (ROOT / room).read_bytes()
    command = [sys.executable, ROOT / "scripts/mutants.py", room, "--count=1", f"--out={out}"]
    suites = ["--suite=tests/scripts/test_code_lines.py"]
    found = subprocess.run([*command, *suites], capture_output=True, text=True, check=True).stdout
    assert "kills 0 of 1, not these:" in found
    assert '"killed": {"tests/scripts/test_code_lines.py": ""}' in out.read_text()
    assert (ROOT / room).read_bytes() == before

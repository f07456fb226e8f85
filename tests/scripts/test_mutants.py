from __future__ import annotations

from pathlib import Path

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

"""``generator:NAME(flag=False)`` means False, and nothing else passes for a flag."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from instances import InvalidTypeError, generate, load

SCRIPT = Path(__file__).parents[2] / "scripts" / "generate.py"


@pytest.mark.parametrize("word", ["False", "false"])
def test_false_on_the_command_line(word: str, tmp_path: Path) -> None:
    out = tmp_path / "drawn.json"
    source = f"generator:three-partition(groups=3, planted={word}, seed=3)"
    subprocess.run(
        [sys.executable, str(SCRIPT), source, "--out", str(out)],
        check=True,
        capture_output=True,
    )
    drawn = generate("three-partition", seed=3, groups=3, planted=False)
    assert load(out).digest == drawn.digest
    assert drawn.digest != generate("three-partition", seed=3, groups=3, planted=True).digest


def test_a_text_is_no_flag() -> None:
    with pytest.raises(InvalidTypeError, match="planted"):
        generate("three-partition", seed=3, groups=3, planted="False")

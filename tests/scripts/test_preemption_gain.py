"""scripts/preemption_gain.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_scripts import Script


@pytest.mark.slow
def test_a_table_of_a_family(script: Script, tmp_path: Path) -> None:
    out = tmp_path / "gains.csv"
    process = script(
        *("preemption_gain", "--family", "mixed:n=3", "--count", 1, "--jobs", 1, "--out", out)
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "preemptive optimum / optimum" in process.stdout
    assert out.read_text("utf-8").splitlines()[1].startswith("mixed:n=3,3,100,1/1,")

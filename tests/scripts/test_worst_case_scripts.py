"""scripts/search_worst_case.py and scripts/worst_case_table.py as processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from forked_scripts import Script

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "docs" / "worst_cases" / "mc-sf.json"

TINY = ("--max-requests", 3, "--max-memory", 6, "--evaluations", 5, "--setting", "all-at-once")


@pytest.mark.slow
def test_a_search_resumes_and_its_table_verifies(script: Script, tmp_path: Path) -> None:
    folder = tmp_path / "found"
    for rounds in (1, 2):
        process = script(
            *("search_worst_case", "--policy", "fcfs", "--archive", folder, *TINY),
        )
        assert process.returncode == 0, process.stderr
        assert f"fcfs, all at once, n <= 3, M <= 6, round {rounds}: " in process.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["fcfs.json"]
    out, proofs = tmp_path / "table.md", tmp_path / "proofs"
    process = script("worst_case_table", folder, "--out", out, "--certificates", proofs)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("all at once, n <= 3, M <= 6") == 1
    assert "| fcfs | all at once" in out.read_text("utf-8")
    for proof in proofs.iterdir():
        verified = script("verify", proof)
        assert verified.returncode == 0, verified.stderr
        assert verified.stdout.split()[:2] == ["verdict", "optimal"]


def test_a_refuted_case_is_named(script: Script, tmp_path: Path) -> None:
    document = json.loads(SHIPPED.read_text("utf-8"))
    document["searches"] = document["searches"][:1]
    document["searches"][0]["cases"][0]["total"] += 1
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(document), "utf-8")
    process = script("worst_case_table", path)
    assert process.returncode == 1
    assert process.stderr.startswith("refuted: mc-sf, all at once")
    assert "Traceback" not in process.stderr


def test_the_table_needs_no_solver() -> None:
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['pyomo', 'highspy', 'pulp', 'numba']))\n"
        f"sys.argv = ['worst_case_table.py', {str(SHIPPED)!r}]\n"
        f"sys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
        "import runpy\n"
        "runpy.run_path('scripts/worst_case_table.py', run_name='__main__')\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert process.returncode == 0, process.stderr
    assert "mc-sf" in process.stdout

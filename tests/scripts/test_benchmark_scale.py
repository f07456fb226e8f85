"""The benchmark of relaxations at scale, as a process."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "benchmark_scale.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False
    )


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_smallest_row_is_measured_and_written(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    ran = run("--family", "arriving", "-n", "5", "--method", "scale", "--out", str(out))
    assert ran.returncode == 0, ran.stderr
    (row,) = read(out)
    assert (row["family"], row["n"], row["method"]) == ("arriving", "5", "scale")
    assert row["ended"] == "tolerance"
    assert float(row["value_low"]) <= float(row["value_high"])
    assert int(row["certified"]) >= float(row["value_low"])
    assert float(row["peak_MB"]) > 10


@pytest.mark.slow
def test_methods_agree_and_growth_is_fitted(tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    sizes = [word for n in (10, 15, 20, 40) for word in ("-n", str(n))]
    ran = run("--family", "arriving", *sizes, "--tolerance", "0.01", "--out", str(out))
    assert ran.returncode == 0, ran.stderr
    assert "arriving, scale: processor time ~ n^" in ran.stdout
    rows = read(out)
    by_size = {r["n"]: r for r in rows if r["method"] == "scale"}
    compared = [r for r in rows if r["method"] == "rows" and r["value_high"]]
    assert compared
    for row in compared:
        scale, value = by_size[row["n"]], float(row["value_high"])
        assert float(scale["value_low"]) <= value * (1 + 1e-6)
        assert value <= float(scale["value_high"]) * (1 + 1e-6)

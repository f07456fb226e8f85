"""scripts/adversary_tables.py as a process."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from forked_scripts import Script


def test_ratios_as_text_csv_and_figure(script: Script, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out, plot = tmp_path / "r.csv", tmp_path / "r.png"
    memory = [argument for m in (16, 36, 64, 100) for argument in ("--memory", m)]
    process = script(
        *("adversary_tables", "ratios", *memory, "--construction", "sqrt-n-adversary"),
        *("--policy", "mc-sf", "--policy", "a-random", "--seeds", 2, "--out", out, "--plot", plot),
    )
    assert process.returncode == 0, process.stderr
    assert "exponent of M" in process.stdout
    with out.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["policy"], row["M"]) for row in rows[:5]] == [
        *(("mc-sf", m) for m in ("16", "36", "64", "100")),
        ("a-random", "16"),
    ]
    assert {row["arrivals"] for row in rows} == {"adaptive"}
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.glob(".*part*")) == []


def test_the_cascade_as_markdown(script: Script, tmp_path: Path) -> None:
    out = tmp_path / "c.md"
    process = script(
        *("adversary_tables", "cascade", "--rounds", 50, "--policy", "fcfs-greedy"),
        *("--seeds", 2, "--out", out),
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("fcfs-greedy") == 4
    assert out.read_text("utf-8").startswith("**fcfs-cascade at M = M")


def test_reductions(script: Script) -> None:
    process = script("adversary_tables", "reductions", "--groups", 1, "--seeds", 1)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("three-partition") == 2
    assert process.stdout.count("partition-makespan") == 3

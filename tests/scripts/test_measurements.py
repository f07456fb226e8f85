"""Scripts that measure, as processes: speeds, convergence, errors of batch times."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked_scripts import Script

from online.batch_time.measurements import REGIMES


def test_the_benchmark_times_and_compares(script: Script) -> None:
    options = ("--requests", 20, "--requests", 60, "--policy", "a-min", "--policy", "sorted-f-swap")
    process = script("benchmark_simulator", *options, "--plain", 15, "--plain", 30)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("| completed") == 4
    assert ", Python " in process.stdout.splitlines()[0]
    assert process.stdout.count("grows as n^") == 3
    assert "plain rendering, same total latency" in process.stdout


def test_a_table_too_large_is_said_to_be_refused(script: Script) -> None:
    options = ("--requests", 1000, "--policy", "sorted-f-dp", "--plain", 15)
    process = script("benchmark_simulator", *options)
    assert process.returncode == 0, process.stderr
    assert "sorted-f-dp | 1000 | refused" in process.stdout
    assert "sorted-f-dp | 100 | " in process.stdout


@pytest.mark.slow
def test_the_convergence_table_and_plot(script: Script, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot, table = tmp_path / "ratios.png", tmp_path / "ratios.csv"
    sizes = ("--memory", 30, "--memory", 60, "--batches", 2, "--batches", 4, "--seeds", 2)
    options = (*sizes, "--only", "two-point", "--plot", plot, "--out", table)
    process = script("closed_form_convergence", *options)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert lines[0].endswith("closed_form | policy/formula | h-sf/formula | evictions/n")
    # Twelve cases; outputs of 20 need more than 30 tokens.
    assert len(lines) == 1 + 12 * 4 - 3 * 2 + 1 + 12
    assert lines[-1].startswith("a-ell on two-point[lower=4,upper=8] | 1.")
    assert len(table.read_text().splitlines()) == 1 + 12 * 4 - 3 * 2
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.glob(".*part*")) == []


@pytest.mark.slow
def test_the_comparison_of_relaxations(script: Script) -> None:
    options = ("--family", "mixed-lengths", "--requests", 4, "--seeds", 2)
    process = script("compare_relaxations", *options)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert [line.split(" | ")[2] for line in lines[1:]] == [
        "sorted-lp",
        "lp-swap",
        "mc-sf",
        "smallest-volume-first",
    ]
    assert sum(map(int, lines[1].rsplit(" | ", 1)[1].split("/"))) == 2


def test_the_benchmark_in_continuous_time(script: Script) -> None:
    process = script("benchmark_simulator", "--continuous", "--requests", 30, "--policy", "sarathi")
    assert process.returncode == 0, process.stderr
    assert "sarathi | 30 | " in process.stdout
    assert "plain rendering" not in process.stdout


def test_the_table_in_continuous_time(script: Script) -> None:
    process = script("continuous_time_table", "--requests", 20, "--seeds", 2)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert lines[1].startswith("MC-SF | ")
    assert "| 32.112 |" in lines[1]
    assert lines[-2].startswith("Lengths are synthetic")


def test_errors_of_batch_times_by_regime(script: Script) -> None:
    preset = "llama-2-70b-a100-tp2"
    process = script("fit_batch_time", "--of", preset, "--batch-time", preset, "--steps", 16)
    assert process.returncode == 0, process.stderr
    heading, _, *rows = process.stdout.splitlines()
    assert heading.split("  ")[0] == "regime"
    assert f"{preset}, % off" in heading
    assert [row.split("  ")[0] for row in rows[:5]] == list(REGIMES)
    assert all("0.0 (+0.0)" in row for row in rows[:5])
    assert [row.partition(":")[0] for row in rows[5:]] == ["affine", "piecewise", "table"]

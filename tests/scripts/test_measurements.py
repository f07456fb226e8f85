"""scripts/benchmark_simulator.py and scripts/closed_form_convergence.py as processes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Process = subprocess.CompletedProcess[str]


def test_the_benchmark_times_and_compares(script: Callable[..., Process]) -> None:
    options = ("--requests", 20, "--requests", 60, "--policy", "a-min", "--policy", "sorted-f-swap")
    process = script("benchmark_simulator", *options, "--plain", 30)
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("| completed") == 4
    assert process.stdout.count("grows as n^") == 2
    assert "plain rendering, same total latency" in process.stdout


def test_an_unknown_policy(script: Callable[..., Process]) -> None:
    process = script("benchmark_simulator", "--policy", "sorted-lp")
    assert process.returncode == 2
    assert process.stderr.startswith("error: unknown policy 'sorted-lp'; known: a-ell, ")


def test_the_convergence_table_and_plot(script: Callable[..., Process], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plot = tmp_path / "ratios.png"
    process = script(
        "closed_form_convergence", "--memory", 30, "--batches", 2, "--seeds", 2, "--plot", plot
    )
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert lines[0].endswith("mean_ratio | standard_error | closed_form | evictions/n")
    assert len(lines) == 13
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.glob(".*part*")) == []


def test_a_plot_of_another_kind_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "--plot" in refused("closed_form_convergence", "--plot", tmp_path / "ratios.txt")


def test_the_benchmark_in_continuous_time(script: Callable[..., Process]) -> None:
    process = script("benchmark_simulator", "--continuous", "--requests", 30, "--policy", "sarathi")
    assert process.returncode == 0, process.stderr
    assert "sarathi | 30 | " in process.stdout
    assert "plain rendering" not in process.stdout


def test_the_table_in_continuous_time(script: Callable[..., Process]) -> None:
    process = script("continuous_time_table", "--requests", 20, "--seeds", 2)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    assert lines[1].startswith("MC-SF | ")
    assert "| 32.112 |" in lines[1]
    assert lines[-3].startswith("Seconds differ from the paper's because")

"""run_experiment.py and table.py as their users meet them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

Script = Callable[..., CompletedProcess[str]]

QUICK = """
name = "quick"
solver = false
policies = ["fcfs", "a-min"]
[[instances]]
generator = "uniform"
parameters = { n = 3, maximum_length = 6, memory_limit = 14 }
seeds = { count = 2 }
"""


def test_a_run_and_its_table(script: Script, tmp_path: Path) -> None:
    config, results = tmp_path / "quick.toml", tmp_path / "results.sqlite"
    config.write_text(QUICK)
    ran = script("run_experiment", "--config", config, "--results", results, "--jobs", 1)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"quick: 4 trials and 0 optima in {results}, 4 computed now, 0 failed\n"
    out = tmp_path / "table.tex"
    for form, sign in (("text", "---"), ("csv", ",fcfs,"), ("markdown", "| :---"), ("latex", "&")):
        shown = script("table", "--results", results, "--format", form)
        assert shown.returncode == 0, shown.stderr
        assert sign in shown.stdout
    script("table", "--results", results, "--format", "latex", "--out", out)
    assert out.read_text() == shown.stdout
    records = script("table", "--results", results, "--format", "csv", "--trials").stdout
    assert records.count("\n") == 5


def test_failures_are_told_by_the_exit_status(script: Script, tmp_path: Path) -> None:
    config, results = tmp_path / "quick.toml", tmp_path / "results.sqlite"
    narrow = '[[predictions]]\nname = "interval"\nparameters = { lower = 1, upper = 1 }\n'
    config.write_text(QUICK + narrow)
    ran = script("run_experiment", "--config", config, "--results", results, "--jobs", 1)
    assert ran.returncode == 1
    assert "4 computed now, 4 failed" in ran.stdout
    assert "4 trials that failed" in script("table", "--results", results).stdout


def test_what_is_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    results = tmp_path / "r.sqlite"
    config = tmp_path / "bad.toml"
    config.write_text(QUICK.replace("fcfs", "lifo"))
    assert "unknown policy 'lifo'" in refused(
        "run_experiment", "--config", config, "--results", results
    )
    assert "choose one of --config and --preset" in refused("run_experiment", "--results", results)
    assert "choose one" in refused(
        *("run_experiment", "--preset", "smoke", "--results", results),
        *("--jobs", 2, "--scheduler", "tcp://127.0.0.1:1"),
    )
    assert not results.exists()
    assert "No such file" in refused("table", "--results", results)
    assert "is not a results file" in refused("table", "--results", config)

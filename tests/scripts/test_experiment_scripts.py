"""run_experiment.py and table.py as their users meet them."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from forked_scripts import SCRIPTS, ForkedScripts, Ok, Refused

QUICK = """
name = "quick"
solver = false
policies = ["fcfs", "a-min"]
[[instances]]
generator = "uniform"
parameters = { n = 3, maximum_length = 6, memory_limit = 14 }
seeds = { count = 2 }
"""


RUN = "run_experiment quick.toml --results r.sqlite --jobs 1"


def test_a_run_and_its_table(ok: Ok, tmp_path: Path) -> None:
    (tmp_path / "quick.toml").write_text(QUICK)
    told = "quick: 4 trials and 0 optima in r.sqlite, 4 computed now, 0 failed\n"
    assert ok(RUN) == told
    for form, sign in (("text", "---"), ("csv", ",fcfs,"), ("markdown", "| :---"), ("latex", "&")):
        shown = ok(f"table r.sqlite --format {form}")
        assert sign in shown
    assert ok("table r.sqlite --format latex --out table.tex") == ""
    assert (tmp_path / "table.tex").read_text() == shown
    records = ok("table r.sqlite --format csv --trials")
    assert records.count("\n") == 5
    trials = json.loads(ok("table r.sqlite --trials --json -"))["trials"]
    assert [f"{one['digest']},{one['requests']}" in records for one in trials] == [True] * 4
    found = json.loads(ok(f"{RUN} --json -"))
    assert [found[name] for name in ("trials", "optima", "computed", "failed")] == [4, 0, 0, 0]


def test_the_help_declares_an_experiment_that_can_be_run(ok: Ok, tmp_path: Path) -> None:
    shown = ok("run_experiment --help")
    lines = [line.strip() for line in shown[shown.index('name = "mine"') :].splitlines()]
    (tmp_path / "my_rules.py").write_text(
        "import online\nclass MyRule(type(online.make_policy('fcfs'))):\n"
        "    def __init__(self, alpha): super().__init__()\n"
    )
    rows = "".join(f"{10 * k},4,2\n" for k in range(6))
    (tmp_path / "log.csv").write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + rows)
    declared = "\n".join(["solver = false", *lines[: lines.index("[solver]")]])
    (tmp_path / "quick.toml").write_text(declared)
    # Twenty draws and five windows of the log, which are alike, under three policies.
    assert ok(RUN).startswith("mine: 63 trials and 0 optima in r.sqlite, 63 computed now, 0 failed")
    assert "MyRule(alpha=0.2)" in ok("table r.sqlite")


def test_failures_are_told_by_the_exit_status(ok: Ok, tmp_path: Path) -> None:
    narrow = '[[predictions]]\nname = "interval"\nparameters = { lower = 1, upper = 1 }\n'
    (tmp_path / "quick.toml").write_text(QUICK + narrow)
    assert "4 computed now, 4 failed" in ok(RUN, status=1)
    assert "4 trials that failed" in ok("table r.sqlite")


def test_a_draw_beyond_memory_is_refused_and_no_results_file_made(
    refused: Refused, tmp_path: Path
) -> None:
    config, results = tmp_path / "large.toml", tmp_path / "r.sqlite"
    config.write_text(QUICK.replace("maximum_length = 6", f"maximum_length = {2**53}"))
    assert "not enough memory: " in refused("run_experiment", config, "--results", results)
    assert not results.exists()


@pytest.fixture(scope="module")
def results(forked: ForkedScripts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    (folder / "quick.toml").write_text(QUICK.replace("solver = false", ""))
    assert forked.run(*RUN.split(), cwd=folder).returncode == 0
    return folder / "r.sqlite"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE trials SET total_latency = 1", "total_latency = 1 is stored"),
        ("DROP TABLE optima", "is a damaged results file: no such table: optima"),
    ],
)
def test_tables_and_reports_refuse_the_same(
    refused: Refused, results: Path, tmp_path: Path, statement: str, message: str
) -> None:
    path = shutil.copy(results, tmp_path)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(statement)
    database.close()
    said = refused("table", path)
    assert message in said
    assert refused("report", path) == said
    assert refused("table", path, "--trials") == said


def test_a_disk_that_fills_up(ok: Ok, tmp_path: Path) -> None:
    """No file may grow: the run ends with one line, and what was stored is there."""
    (tmp_path / "quick.toml").write_text(QUICK.replace("count = 2", "count = 40"))
    name, *arguments = RUN.split()
    ran = subprocess.run(
        [sys.executable, SCRIPTS / f"{name}.py", *arguments],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert "cannot be opened, read or written as a results file" in ran.stderr
    assert 0 < int(ok(RUN).split(", ")[1].split()[0]) < 80

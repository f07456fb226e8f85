"""The report's command line."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from forked_scripts import ForkedScripts, Ok, Refused

import online

TINY = """
name = "tiny"
policies = ["mc-sf", "fcfs"]
[[instances]]
generator = "arrival-model-1"
parameters = { n = 3 }
seeds = { count = 2 }
"""


@pytest.fixture(scope="module")
def results(forked: ForkedScripts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    (folder / "tiny.toml").write_text(TINY)
    run = "run_experiment tiny.toml --results r.sqlite --jobs 1"
    assert forked.run(*run.split(), cwd=folder).returncode == 0
    return folder / "r.sqlite"


def test_results_become_one_page(ok: Ok, results: Path, tmp_path: Path) -> None:
    assert ok(f"report {results} --out page.html --title 'Tiny & small'") == "page.html: 4 trials\n"
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>Tiny &amp; small</title>" in text
    assert '"name":"arrival-model-1[seed=0,n=3]"' in text


def test_a_page_names_its_study_its_version_and_its_day(
    ok: Ok, results: Path, tmp_path: Path
) -> None:
    days = [f"{datetime.now(UTC):%Y-%m-%d}"]
    ok(f"report {results} --out page.html")
    days.append(f"{datetime.now(UTC):%Y-%m-%d}")
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "<title>Competitive ratios: tiny</title>" in text
    tool = f"llm-hindsight {online.__version__}"
    assert any(
        f">experiment tiny, run by {tool}; page written on {day} by {tool}<" in text for day in days
    )


def test_trials_not_yet_run_are_counted(ok: Ok, results: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.sqlite"
    with sqlite3.connect(results) as whole, sqlite3.connect(part) as copy:
        whole.backup(copy)
        copy.execute("DELETE FROM trials WHERE policy = 'fcfs'")
    copy.close()
    assert ok("report part.sqlite") == "report.html: 2 trials, 2 trials not yet run\n"


@pytest.mark.slow
def test_the_demo_shows_every_policy_on_the_built_in_instances(ok: Ok, tmp_path: Path) -> None:
    # 14 instances, 4 policies.
    assert ok("report --demo --out demo.html") == "demo.html: 56 trials\n"
    text = (tmp_path / "demo.html").read_text("utf-8")
    assert '"name":"[W25] Example 1"' in text
    for policy in ("mc-sf", "mc-benchmark", "a-min", "fcfs"):
        # Each of its trials, and its line in the table.
        assert text.count(f'"policy":"{policy}"') == 14 + 1


def test_an_experiment_that_is_not_there_is_refused(refused: Refused, results: Path) -> None:
    assert "experiment = 'x' is not in" in refused("report", results, "--experiment", "x")

"""The report's command line."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from forked_scripts import Refused, Script

from instances.version import package_version
from online.experiment import Experiment, Family, run_experiment


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "r.sqlite"
    families = [Family("arrival-model-1", {"n": 3}, seeds=(0, 1))]
    run_experiment(Experiment("tiny", families, ["mc-sf", "fcfs"]), path, jobs=1)
    return path


def test_results_become_one_page(script: Script, results: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    process = script("report", results, "--out", page, "--title", "Tiny & small")
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout == f"{page}: 4 trials\n"
    text = page.read_text("utf-8")
    assert "<h1>Tiny &amp; small</h1>" in text
    assert '"name":"arrival-model-1[seed=0,n=3]"' in text


def test_a_page_names_its_study_its_version_and_its_day(
    script: Script, results: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    days = [f"{datetime.now(UTC):%Y-%m-%d}"]
    process = script("report", results, "--out", page)
    days.append(f"{datetime.now(UTC):%Y-%m-%d}")
    assert (process.returncode, process.stderr) == (0, "")
    text = page.read_text("utf-8")
    assert "<h1>Competitive ratios: tiny</h1>" in text
    tool = f"llm-hindsight {package_version()}"
    assert any(
        f">experiment tiny, run by {tool}; page written on {day} by {tool}<" in text for day in days
    )


def test_trials_not_yet_run_are_counted(script: Script, results: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.sqlite"
    with sqlite3.connect(results) as whole, sqlite3.connect(part) as copy:
        whole.backup(copy)
        copy.execute("DELETE FROM trials WHERE policy = 'fcfs'")
    copy.close()
    process = script("report", part)
    assert process.stdout == "report.html: 2 trials, 2 trials not yet run\n", process.stderr


@pytest.mark.slow
def test_the_demo_shows_every_policy_on_the_built_in_instances(
    script: Script, tmp_path: Path
) -> None:
    page = tmp_path / "demo.html"
    process = script("report", "--demo", "--out", page)
    assert (process.returncode, process.stderr) == (0, "")
    # 14 instances, 4 policies.
    assert process.stdout == f"{page}: 56 trials\n"
    text = page.read_text("utf-8")
    assert '"name":"[W25] Example 1"' in text
    for policy in ("mc-sf", "mc-benchmark", "a-min", "fcfs"):
        # Each of its trials, and its line in the table.
        assert text.count(f'"policy":"{policy}"') == 14 + 1


def test_an_experiment_that_is_not_there_is_refused(refused: Refused, results: Path) -> None:
    assert "experiment = 'x' is not in" in refused("report", results, "--experiment", "x")

"""The report's command line."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from forked_scripts import Ok, Refused

from instances.version import package_version
from online.experiment import Experiment, Family, run_experiment


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("results") / "r.sqlite"
    families = [Family("arrival-model-1", {"n": 3}, seeds=(0, 1))]
    run_experiment(Experiment("tiny", families, ["mc-sf", "fcfs"]), path, jobs=1)
    return path


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
    tool = f"llm-hindsight {package_version()}"
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

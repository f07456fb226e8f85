"""`library leaderboard`, `library_summary.py` and `library_versions.py` as processes."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest
from forked_scripts import Script

import instances
import online

COMMAND = ("llm_hindsight", "library", "leaderboard")
OWN = """
from online.policy_interface import LookaheadPrefixPolicy


class Longest(LookaheadPrefixPolicy):
    def priority(self, request):
        return -request.prediction.upper
"""
FEW = ("j25-m1-n10-*", "--policy", "mc-sf", "--policy", "fcfs", "--jobs", 1)


def test_the_table_is_of_what_was_stored(script: Script, tmp_path: Path) -> None:
    results, scores = tmp_path / "r.sqlite", tmp_path / "s.csv"
    first = script(*COMMAND, *FEW, "--results", results, "--scores", scores)
    assert first.returncode == 0, first.stderr
    title, head, _, *rows = first.stdout.splitlines()
    assert title.startswith("mean of total latency / optimum")
    assert head.split() == ["policy", "j25-m1"]
    assert {row.split()[0] for row in rows} == {"mc-sf", "fcfs"}
    (line,) = [one for one in _lines(scores.read_text()) if one["instance"] == "j25-m1-n10-01"]
    run = online.simulate(instances.library("j25-m1-n10-01").problem, "mc-sf")
    assert int(line["mc-sf"]) == run.total_latency
    stored = _stored(results)
    again = script(*COMMAND, *FEW, "--results", results)
    assert again.stdout == first.stdout
    # With the seconds each took: none was run again.
    assert _stored(results) == stored


@pytest.mark.slow
def test_every_form_says_the_same(script: Script, tmp_path: Path) -> None:
    results = tmp_path / "r.sqlite"
    asked = (*COMMAND, *FEW, "--results", results)
    (mean, _) = sorted(
        _lines(script(*asked, "--format", "csv").stdout), key=lambda line: line["policy"] != "mc-sf"
    )
    shown = script(*asked, "--format", "markdown").stdout
    document = json.loads(script(*asked, "--json", "-").stdout)
    assert document["seed"] == 0
    (own,) = [one for one in document["standings"] if one["policy"] == "mc-sf"]
    assert str(own["mean_ratio"][0]) == mean["mean_ratio_lower"]
    assert f"| mc-sf | {mean['mean_ratio_lower'][:4]}" in shown.replace("[", "")
    latex = script(*asked, "--format", "latex", "--out", tmp_path / "t.tex")
    assert latex.stdout == ""
    assert "\\begin{tabular}{lr}" in (tmp_path / "t.tex").read_text()


def test_a_policy_of_ones_own_stands_beside_the_others(script: Script, tmp_path: Path) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(OWN)
    asked = (*COMMAND, *FEW, "--policy", f"{rules}:Longest", "--results", tmp_path / "r.sqlite")
    done = script(*asked, "preemptive-j25-m1-n10-*")
    assert done.returncode == 0, done.stderr
    rounds, preemptive = done.stdout.split("\n\n")
    for table, optimum in ((rounds, "/ optimum"), (preemptive, "/ preemptive optimum")):
        title, _, _, *rows = table.splitlines()
        assert optimum in title
        assert rows[-1].split()[0] == "Longest"


def _stored(results: Path) -> list[tuple[str, float]]:
    with contextlib.closing(sqlite3.connect(results)) as database:
        return sorted(database.execute("SELECT key, seconds FROM trials"))


def _lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))

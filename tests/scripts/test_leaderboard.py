"""`leaderboard` as a process."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest
from forked_scripts import Ok

import instances
import online

OWN = """
from online.policy_interface import PriorityPolicy


class Longest(PriorityPolicy):
    def priority(self, request):
        return -request.prediction.upper
"""
FEW = "leaderboard j25-m1-n10-* --policy mc-sf --policy fcfs --jobs 1 --results r.sqlite"


def test_the_table_is_of_what_was_stored(ok: Ok, tmp_path: Path) -> None:
    first = ok(f"{FEW} --scores s.csv")
    title, head, _, *rows = first.splitlines()
    assert title.startswith("mean of total latency / optimum")
    assert head.split() == ["policy", "j25-m1"]
    assert {row.split()[0] for row in rows} == {"mc-sf", "fcfs"}
    scores = _lines((tmp_path / "s.csv").read_text())
    (line,) = [one for one in scores if one["instance"] == "j25-m1-n10-01"]
    run = online.simulate(instances.library("j25-m1-n10-01").problem, "mc-sf")
    assert int(line["mc-sf"]) == run.total_latency
    stored = _stored(tmp_path / "r.sqlite")
    assert ok(FEW) == first
    # With the seconds each took: none was run again.
    assert _stored(tmp_path / "r.sqlite") == stored


@pytest.mark.slow
def test_every_form_says_the_same(ok: Ok, tmp_path: Path) -> None:
    (mean,) = [line for line in _lines(ok(f"{FEW} --format csv")) if line["policy"] == "mc-sf"]
    document = json.loads(ok(f"{FEW} --json -"))
    assert document["seed"] == 0
    (own,) = [one for one in document["standings"] if one["policy"] == "mc-sf"]
    assert str(own["mean_ratio"][0]) == mean["mean_ratio_lower"]
    shown = ok(f"{FEW} --format markdown").replace("[", "")
    assert f"| mc-sf | {mean['mean_ratio_lower'][:4]}" in shown
    assert ok(f"{FEW} --format latex --out t.tex") == ""
    assert "\\begin{tabular}{lr}" in (tmp_path / "t.tex").read_text()


def test_a_policy_of_ones_own_stands_beside_the_others(ok: Ok, tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(OWN)
    printed = ok(f"{FEW} --policy rules.py:Longest preemptive-j25-m1-n10-*")
    rounds, preemptive = printed.split("\n\n")
    for table, optimum in ((rounds, "/ optimum"), (preemptive, "/ preemptive optimum")):
        title, _, _, *rows = table.splitlines()
        assert optimum in title
        assert rows[-1].split()[0] == "Longest"


def _stored(results: Path) -> list[tuple[str, float]]:
    with contextlib.closing(sqlite3.connect(results)) as database:
        return sorted(database.execute("SELECT key, seconds FROM trials"))


def _lines(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))

"""A bound from a file outside the package, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked_scripts import Ok, Refused, fields

import instances
from instances import Instance

OWN = '''
def alone(instance):
    """Nobody is done before all of its output is there, and only one of these runs at a time."""
    return 1 + 4 + 9

def outputs(instance):
    return instance.total_output_length

def serial(instance):
    """Planted: it takes everything for one after another."""
    outputs = sorted(instance.output_lengths.tolist())
    rounds = [sum(outputs[:k]) for k in range(1, len(outputs) + 1)]
    return sum(rounds) - int(instance.arrival_times.sum())
'''


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


@pytest.fixture
def one_by_one(tmp_path: Path) -> Path:
    """Three requests of which no two run together, outputs 1, 3 and 5: 1 + 4 + 9."""
    instance = Instance.from_arrays([6, 6, 6], [3, 1, 5], memory_limit=11)
    instances.save(instance, tmp_path / "one.json")
    return tmp_path / "one.json"


def test_a_solve_with_two_bounds(ok: Ok, own: Path, one_by_one: Path) -> None:
    shown = fields(
        ok(
            "solve one.json --bound own.py:alone --bound own.py:outputs "
            "--method beams --time-limit 2"
        )
    )
    assert shown["status"].startswith("feasible")
    assert shown["upper bound"] == "14"
    assert int(shown["lower bound"]) < 14
    assert (shown["bound 'alone'"], shown["bound 'outputs'"]) == ("14, claimed", "9, claimed")
    found = json.loads(ok("solve one.json --bound own.py:outputs --json -"))
    (row,) = found["own_bounds"]
    assert row == {"name": "bound 'outputs'", "lower_bound_rounds": 9, "proved": False}


def test_a_valid_bound_passes(ok: Ok, own: Path, tmp_path: Path) -> None:
    printed = ok("check bound own.py:outputs --count 6 --json found.json")
    assert "ok        valid          exceeds no optimum (6 instances)" in printed
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["format"] == "llm-hindsight/check-bound"
    assert found["passed"]


def test_an_invalid_bound_is_caught_with_a_small_instance(ok: Ok, own: Path) -> None:
    printed = ok("check bound own.py:serial --count 40", status=1)
    assert "it says 3, and the total latency is 2 at best" in printed
    (rows,) = [one for one in printed.splitlines() if one.lstrip().startswith("rows = ")]
    assert rows.count("(") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bound", "own.py:nobodys"), "bound = 'own.py:nobodys' is not in own.py"),
        (("--bound", "own.py"), "bound = 'own.py' is not FILE.py:NAME"),
        (("--bound", "nobodys"), "bound = 'nobodys' is not FILE.py:NAME"),
    ],
)
def test_what_is_refused(
    refused: Refused, own: Path, one_by_one: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused("solve", "one.json", *arguments, cwd=own.parent)

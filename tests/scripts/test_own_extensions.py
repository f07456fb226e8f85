"""A bound from a file outside the package, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked_scripts import Ok, fields

import instances
from instances import Instance

OWN = '''
def alone(instance):
    """Only one of these runs at a time: 1 + 4 + 9."""
    return 14

def outputs(instance):
    return instance.total_output_length

def serial(instance):
    """Planted fault: as if requests always ran one after another."""
    outputs = sorted(instance.output_lengths.tolist())
    rounds = [sum(outputs[:k]) for k in range(1, len(outputs) + 1)]
    return sum(rounds) - int(instance.arrival_times.sum())
'''


@pytest.fixture(autouse=True)
def own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)


def test_a_solve_with_two_bounds(ok: Ok, tmp_path: Path) -> None:
    """Three requests of which no two run together, outputs 1, 3 and 5: 1 + 4 + 9."""
    one = Instance.from_arrays([6, 6, 6], [3, 1, 5], memory_limit=11)
    instances.save(one, tmp_path / "one.json")
    line = "solve one.json --bound own.py:alone --bound own.py:outputs --method beams"
    printed = ok(f"{line} --time-limit 2 --json found.json")
    shown = fields(printed)
    assert shown["status"] == "feasible"
    lower, upper = json.loads(shown["optimum rounds"])
    assert lower < upper == 14
    found = json.loads((tmp_path / "found.json").read_text())
    row = {"bound": "bound 'outputs'", "value": 9, "certified": False, "claimed": True}
    assert row in found["bounds"]
    assert "bound 'outputs' 9 no yes" in " ".join(printed.split())


def test_a_valid_bound_passes_and_an_invalid_one_is_caught(ok: Ok, tmp_path: Path) -> None:
    printed = ok("check bound own.py:outputs --count 6 --json found.json")
    assert "ok        valid          is exact and exceeds no optimum (6 instances)" in printed
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["format"], found["passed"]) == ("llm-hindsight/check-bound", True)
    printed = ok("check bound own.py:serial --count 40", status=1)
    assert "it says 8, and the total latency is 6 at best" in printed
    (rows,) = [one for one in printed.splitlines() if one.lstrip().startswith("rows = ")]
    assert rows.count("(") == 2

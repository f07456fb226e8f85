"""A bound, a cut and a strategy from a file outside the package, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked_scripts import Ok, Refused, fields

import instances
from instances import Instance

OWN = '''
import hindsight
from instances import Schedule

@hindsight.register_bound("alone")
def alone(instance):
    """Nobody is done before all of its output is there, and only one of these runs at a time."""
    return 1 + 4 + 9

@hindsight.register_bound("outputs")
def outputs(instance):
    return instance.total_output_length

@hindsight.register_bound("serial")
def serial(instance):
    """Planted: it takes everything for one after another."""
    outputs = sorted(instance.output_lengths.tolist())
    rounds = [sum(outputs[:k]) for k in range(1, len(outputs) + 1)]
    return sum(rounds) - int(instance.arrival_times.sum())

@hindsight.register_cut("at-most-one")
def at_most_one(instance, horizon):
    """Two of these never fit together."""
    for r in range(1, horizon + 1):
        yield {
            (i, t): 1
            for i, one in enumerate(instance)
            for t in range(max(one.arrival_time, r - one.output_length), r)
            if t + one.output_length <= horizon
            and 2 * (one.prompt_length + r - t) > instance.memory_limit
        }, 1

@hindsight.register_cut("in-order")
def in_order(instance, horizon):
    """Planted: equal requests in the order of the list, which loses optimal schedules."""
    for i in range(1, len(instance)):
        row = {}
        for k, sign in ((i - 1, 1), (i, -1)):
            last = horizon - instance[k].output_length
            row |= {(k, t): sign * t for t in range(instance[k].arrival_time, last + 1)}
        yield row, 0

class Quiet:
    """It leaves things as they are."""
    name, objectives = "quiet", ("total_latency",)

    def refusal(self, problem):
        return None

    def run(self, problem, state):
        state.note_stop()

@hindsight.register_strategy("quiet")
class Named(Quiet):
    pass

class Sure(Quiet):
    """Planted: what there is in the beginning is called optimal."""
    name = "sure"

    def run(self, problem, state):
        state.raise_lower(state.upper_bound, certified=True)

class Fails(Quiet):
    """Planted: what goes wrong is in its file."""
    def run(self, problem, state):
        {}["instead"]

class Leaves(Quiet):
    """Planted: it would end the command in silence."""
    def run(self, problem, state):
        raise SystemExit(3)

class Overbooks(Quiet):
    """Planted: everything at once."""
    def run(self, problem, state):
        state.offer(Schedule(problem.instance, problem.instance.arrival_times))

class Unsure(Quiet):
    """Planted: whether it refuses is beyond it."""
    def refusal(self, problem):
        return problem.unknown

class Refuses(Quiet):
    """It shows nothing."""
    def refusal(self, problem):
        return "never"
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


def test_a_solve_with_a_bound_a_cut_and_a_strategy(ok: Ok, own: Path, one_by_one: Path) -> None:
    shown = fields(ok("solve one.json --bound own.py:alone --method own.py:Named --bound outputs"))
    assert shown["status"] == "feasible (conditions)"
    assert shown["upper bound"] == "14"
    assert shown["conditional lower bound"] == "14 if bound 'alone' holds"
    assert int(shown["lower bound"]) < 14
    assert (shown["bound 'alone'"], shown["bound 'outputs'"]) == ("14, claimed", "9, claimed")
    found = json.loads(ok("solve one.json --bound outputs --import own.py --json -"))
    assert "conditions" not in found
    (row,) = found["own_bounds"]
    assert row == {"name": "bound 'outputs'", "lower_bound_rounds": 9, "proved": False}
    cut = "--method mip --cut at-most-one --import own.py --json -"
    found = json.loads(ok(f"solve one.json {cut}"))
    assert found["conditional_lower_bound_rounds"] == 14
    assert found["conditions"] == ["cut 'at-most-one'"]
    assert found["optimum_rounds"][0] == found["certified_lower_bound_rounds"] < 14


@pytest.mark.slow
def test_a_relaxation_with_a_cut(ok: Ok, own: Path, one_by_one: Path) -> None:
    shown = fields(ok("relax one.json --cut own.py:at-most-one"))
    assert shown["conditional lower bound"] == "14 if cut 'at-most-one' holds"


@pytest.mark.parametrize(
    ("kind", "subject", "line"),
    [
        ("bound", "outputs", "ok        valid          exceeds no optimum (6 instances)"),
        pytest.param(
            "cut",
            "at-most-one",
            "ok        valid          removes no optimal schedule",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "strategy",
            "Named",
            "ok        stops          ends when it is told to",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_is_valid_passes(
    ok: Ok, own: Path, tmp_path: Path, kind: str, subject: str, line: str
) -> None:
    assert line in ok(f"check {kind} own.py:{subject} --count 6 --json found.json")
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["format"] == f"llm-hindsight/check-{kind}"
    assert found["passed"]


@pytest.mark.parametrize(
    ("kind", "subject", "line"),
    [
        ("bound", "serial", "it says 3, and the total latency is 2 at best"),
        ("cut", "in-order", "removes the optimal starts [1, 0]: 1 > 0"),
        ("strategy", "Sure", "its certified lower bound is"),
    ],
)
def test_what_is_planted_is_caught_with_a_small_instance(
    ok: Ok, own: Path, kind: str, subject: str, line: str
) -> None:
    printed = ok(f"check {kind} own.py:{subject} --count 40", status=1)
    assert line in printed
    (rows,) = [one for one in printed.splitlines() if one.lstrip().startswith("rows = ")]
    assert rows.count("(") == 2


def test_a_strategy_that_refuses_everything_does_not_pass(ok: Ok, own: Path) -> None:
    found = json.loads(ok("check strategy own.py:Refuses --count 2 --json -", status=1))
    assert not found["passed"]
    assert [one["passed"] for one in found["checks"]] == [False, True, True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bound", "own.py:nobodys"), "bound = 'own.py:nobodys' is not in own.py: write :alone"),
        (("--bound", "own.py"), "bound = 'own.py' is a file: write :alone or :outputs or :serial"),
        (("--bound", "nobodys"), "unknown bound 'nobodys'; known:"),
        (("--cut", "missing.py"), "cut = 'missing.py' is not there: no such file"),
        (("--method", "own.py:OWN"), "method = 'own.py:OWN' is not in own.py: write :quiet"),
        (("--cut", "own.py:at-most-one", "--method", "beams"), "take mip"),
        (("--method", "own.py:Fails"), "method = 'quiet' fails: KeyError: 'instead' (own.py:"),
        (("--method", "own.py:Leaves"), "method = 'quiet' fails: SystemExit: 3 (own.py:"),
        (("--method", "own.py:Overbooks"), "fails: ScheduleCheckError: "),
        (("--method", "own.py:Unsure"), "fails: AttributeError: 'Problem' object has no attribute"),
    ],
)
def test_what_is_refused(
    refused: Refused, own: Path, one_by_one: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused("solve", "one.json", *arguments, cwd=own.parent)

"""Policies of the user's own: read from text, files, classes and objects, sent, told by code."""

from __future__ import annotations

import copy
import functools
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import online
from instances import Instance, InvalidTypeError, InvalidValueError, UnknownNameError, Workload
from instances.generators import registry
from online import make_policy, simulate, sweep
from online.headroom import Question
from online.policies.j25.mc_sf import MemoryConstrainedShortestFirst
from online.policy_interface import policy as policy_module
from online.policy_interface.specs import PolicySpec, policy_specs
from online.testing import check_policy

RULES = """
from beside import sign
from online import Policy, PriorityPolicy

class LeastVolume(PriorityPolicy):
    def __init__(self, alpha=0.1):
        super().__init__()
        if alpha < 0:
            raise ValueError("alpha is negative")
        self.alpha = alpha

    def priority(self, request):
        return sign * request.output_length * (request.prompt_length + self.alpha)

class Unfinished(Policy):
    def arrive(self, requests, state): pass

def least(alpha):
    return LeastVolume(alpha)

def three():
    return 3

ready = LeastVolume(0.5)
sign_of_it = sign
"""

SHORTEST = """
from online import PriorityPolicy

class Mine(PriorityPolicy):
    def priority(self, request):
        return {sign} * request.output_length
"""

PAIR = [Instance.from_arrays([3, 1, 2, 1], [2, 5, 3, 1], memory_limit=8)] * 2


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's folder; what is imported and registered there is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "rules.py").write_text(RULES)
    (tmp_path / "beside.py").write_text("sign = 1\n")
    with patch.dict(policy_module.POLICIES), patch.dict(registry.GENERATORS):
        yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


LABELS = {
    "mc-sf": "mc-sf",
    "vllm:order=shortest-job,ageing=5": "vllm(ageing=5, order=shortest-job)",
    "alpha-protection(0.2)": "alpha-protection(alpha=0.2)",
    "vllm(order='shortest-job')": "vllm(order=shortest-job)",
    "rules.py:LeastVolume": "LeastVolume",
    "rules.py:LeastVolume()": "LeastVolume",
    "./rules.py:LeastVolume(alpha=0.2)": "LeastVolume(alpha=0.2)",
    "rules:LeastVolume( 0.2 )": "LeastVolume(alpha=0.2)",
    "rules.py:least(alpha=1)": "least(alpha=1)",
    "rules.py:ready": "LeastVolume(alpha=0.5)",
    "online.policies.j25.mc_sf:MemoryConstrainedShortestFirst": "mc-sf",
}


@pytest.mark.parametrize("text", LABELS)
def test_text_names_policies(text: str) -> None:
    (spec,) = policy_specs([text])
    assert spec.label == LABELS[text]
    assert simulate(PAIR[0], spec.make()).status == "completed"


CHOICE = "names no Policy: write :LeastVolume or :Unfinished or :ready"
UNREADABLE = "has arguments unlike KEY=0.2"
REFUSED = {
    "rules.py": CHOICE,
    "rules.py:": CHOICE,
    "rules.py:Most": CHOICE,
    "rules.py:sign_of_it": CHOICE,
    "no.py:Rule": "policy = 'no.py' cannot be read: No such file",
    "no_rules:Rule": "policy = 'no_rules' fails: ModuleNotFoundError: No module named 'no_rules'",
    "rules.py:Unfinished": "policy = 'Unfinished' fails: TypeError: Can't instantiate abstract",
    "rules.py:three": "policy = 'three' makes 3, which is not a Policy",
    "json:JSONDecoder": "policy = 'JSONDecoder' is not a policy: give a name, 'FILE.py:CLASS', a",
    "rules.py:LeastVolume(-1)": "fails: ValueError: alpha is negative (rules.py:9)",
    "rules.py:LeastVolume(beta=1)": "beta = 1 is not one of its parameters (alpha)",
    "rules.py:LeastVolume(alpha=open('x'))": UNREADABLE,
    "rules.py:LeastVolume(1, 2)": UNREADABLE,
    "rules.py:LeastVolume(1, alpha=2)": UNREADABLE,
    "rules.py:LeastVolume(**{'alpha': 2})": UNREADABLE,
    "mc-sf:alpha": UNREADABLE,
    "rules.py:LeastVolume(": "is not of the form NAME(KEY=VALUE, ...) or FILE.py:NAME",
    "rules.py:ready(alpha=1)": "is an object, which takes no arguments",
    "rules.py:least": "alpha = None is not given and has no default",
    "shortest": "unknown policy 'shortest'; known: a-ell",
    "MC_SF": "unknown policy 'MC_SF'; did you mean 'mc-sf'? Known: a-ell",
}


@pytest.mark.parametrize("text", REFUSED)
def test_errors_are_one_line(text: str) -> None:
    with pytest.raises((InvalidValueError, InvalidTypeError, UnknownNameError)) as caught:
        policy_specs([text])
    assert REFUSED[text] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_classes_functions_and_objects_are_policies() -> None:
    rule: Any = PolicySpec.of("rules.py:LeastVolume").given
    given: dict[str, Any] = {
        "LeastVolume": rule,
        "LeastVolume(alpha=2)": functools.partial(rule, alpha=2),
        "LeastVolume(alpha=3)": rule(3),
        "mc-sf": lambda: MemoryConstrainedShortestFirst(),
        "fcfs": PolicySpec("fcfs"),
    }
    found = sweep([PAIR[0]], [*given.values()])
    assert [record.policy for record in found] == [*given]
    expected = [simulate(PAIR[0], rule(alpha)).total_latency for alpha in (0.1, 2, 3)]
    assert [record.cost for record in found[:3]] == expected
    assert PolicySpec.of(MemoryConstrainedShortestFirst) == PolicySpec("mc-sf")


def test_two_policies_of_one_label_are_refused(folder: Path) -> None:
    (folder / "b").mkdir()
    (folder / "b/rules.py").write_text(RULES.replace("+ self", "- self"))
    ready: Any = PolicySpec.of("rules.py:ready").given
    twin = copy.deepcopy(ready)
    for two in (
        ["rules.py:LeastVolume", "b/rules.py:LeastVolume"],
        ["rules.py:LeastVolume", "./rules.py:LeastVolume()"],
        [ready, twin],
    ):
        with pytest.raises(InvalidValueError, match="'LeastVolume.*' is given twice"):
            policy_specs(two)
    twin.name = "twin"
    assert [spec.name for spec in policy_specs([ready, twin])] == ["LeastVolume", "twin"]
    (folder / "taken.py").write_text(SHORTEST.format(sign=1) + "    name = 'fcfs'\n")
    with pytest.raises(InvalidValueError, match="'fcfs' is the name of a policy of this package"):
        policy_specs(["taken.py:Mine"])


def test_other_processes_have_them_with_what_they_import(
    folder: Path, define: Callable[[str], Any]
) -> None:
    cell = define(SHORTEST.format(sign=-1))
    given = ["rules.py:LeastVolume(alpha=0.2)", "rules:ready", cell, "fcfs"]

    def figures(policies: list[Any], jobs: int = 1) -> list[tuple[Any, ...]]:
        return [(one.policy, one.cost, one.reason) for one in sweep(PAIR, policies, jobs=jobs)]

    alone = figures(given)
    assert len({total for _, total, _ in alone}) > 1
    assert figures(given, jobs=2) == alone
    # What is sent is what was loaded, and needs neither file nor module.
    sent = pickle.dumps(policy_specs(given))
    for name in ("rules", "beside"):
        (folder / f"{name}.py").unlink()
    for name in [name for name in sys.modules if name.partition("@")[0] in ("rules", "beside")]:
        del sys.modules[name]
    assert figures(pickle.loads(sent)) == alone  # noqa: S301 (just written)


@pytest.fixture
def define(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Run a notebook's cell; the class that it leaves."""
    notebook = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)

    def define(text: str) -> Any:
        exec(compile(text, "<cell>", "exec"), vars(notebook))
        return notebook.Mine

    return define


def test_an_edited_cell_is_run_again(define: Callable[[str], Any], tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    totals = []
    for sign in (1, -1):
        found = sweep(PAIR, define(SHORTEST.format(sign=sign)), path, optimum=None)
        totals.append([one.cost for one in found])
    assert totals[0] != totals[1]


DOORS: dict[str, Callable[[Any], Any]] = {
    "make": make_policy,
    "simulate": lambda policy: simulate(PAIR[0], policy),
    "sweep": lambda policy: sweep([PAIR[0]], policy),
    "check": lambda policy: check_policy(policy, 1),
    "headroom": lambda policy: Question(SOON, policy),
}

SOON = Workload([0.0, 0.5], [2, 1], [1, 2], memory_limit=10, batch_time=online.AffineTime(1.0))


BAD: dict[Any, tuple[type[Exception], str]] = {
    3: (InvalidTypeError, "policy = 3 is not a policy: give a name, 'FILE.py:CLASS', a Policy or"),
    Instance: (InvalidTypeError, "is not a policy"),
    "mc-ssf": (UnknownNameError, "unknown policy 'mc-ssf'; did you mean 'mc-sf'. Known: "),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_what_stands_for_a_policy_and_nothing_else(door: str) -> None:
    rule: Any = PolicySpec.of("rules.py:LeastVolume").given
    text = "rules.py:LeastVolume(0.2)"
    for given in (text, "fcfs", rule, rule(0.2), PolicySpec("alpha-protection")):
        DOORS[door](given)
    for bad, (error, told) in BAD.items():
        with pytest.raises(error, match=told):
            DOORS[door](bad)


def test_parameters_go_with_text_and_an_object_is_run_itself() -> None:
    made: Any = make_policy("rules.py:LeastVolume(alpha=1)", alpha=0.2)
    assert made.alpha == 0.2
    with pytest.raises(InvalidTypeError, match="is an object, which takes no arguments"):
        make_policy(made, alpha=1)
    simulate(PAIR[0], made)
    assert made._memory_limit == 8
    assert not hasattr(make_policy(PolicySpec.of("rules.py:LeastVolume").given), "_memory_limit")


REGISTERED = """
from online import register_policy
from online.policies.j25.mc_sf import MemoryConstrainedShortestFirst
@register_policy("mine")
class {name}(MemoryConstrainedShortestFirst):
    pass
"""


def test_what_is_registered_again_replaces_the_old_and_says_so(
    define: Callable[[str], Any],
) -> None:
    cell = REGISTERED + "Mine = {name}\n"
    define(cell.format(name="First"))
    for name in ("First", "Renamed"):
        with pytest.warns(UserWarning, match=f"policy 'mine' is replaced: __main__.{name}"):
            assert define(cell.format(name=name)) is policy_specs("mine")[0].make().__class__
    with pytest.raises(ValueError, match="policy 'fcfs' is registered twice, by online"):
        define(cell.format(name="Third").replace('"mine"', '"fcfs"'))

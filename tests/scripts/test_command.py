"""The command ``llm-hindsight``: its first words, its subcommands, what it writes for machines."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from forked_scripts import COMMAND, ROOT, ForkedScripts, Ok, fields, program

import hindsight
import instances
import online
from llm_hindsight import SUBCOMMANDS


def test_alone_it_names_every_subcommand_and_each_is_there(ok: Ok) -> None:
    alone = ok(COMMAND)
    assert ok(f"{COMMAND} --help") == alone
    assert max(map(len, alone.splitlines())) <= 80
    for name, about in SUBCOMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(about)}$", alone, re.M)
        function = name.replace("-", "_")
        module = ROOT / "online" / "commands" / f"{function}.py"
        assert f"\ndef {function}(" in module.read_text("utf-8")


def test_the_examples_of_the_first_screen_are_understood(ok: Ok) -> None:
    examples = re.findall(r"llm-hindsight ([a-z-]+ [^&\n]*)", ok(COMMAND))
    assert len(examples) == 4
    for example in examples:
        # Whatever it says of the arguments comes before it would say what it is about.
        shown = ok(f"{COMMAND} {example} --help")
        assert all(option in shown for option in re.findall(r"(?<= )--[a-z-]+", example)), example


def test_the_version_is_that_of_what_is_installed(ok: Ok) -> None:
    own, *others = ok(f"{COMMAND} --version").split(", ")
    highs = metadata.version("highspy")
    assert others == [f"Python {platform.python_version()}", f"HiGHS {highs}\n"]
    assert re.match(r"llm-hindsight \d+\.\d+", own)


def test_a_subcommand_is_what_its_script_is(ok: Ok) -> None:
    line = "generate 'generator:arrival-model-1(count=2)'"
    assert ok(line) == ok(f"{COMMAND} {line}") != ""


@pytest.mark.parametrize(
    ("typed", "place", "offered"),
    [
        ("llm-hindsight gen", 1, ["generate"]),
        pytest.param("llm-hindsight solve --cros", 2, ["--crosscheck"], marks=pytest.mark.slow),
    ],
)
def test_the_shell_completes(typed: str, place: int, offered: list[str]) -> None:
    asked = {
        "_LLM_HINDSIGHT_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(place),
    }
    process = subprocess.run(
        [sys.executable, program(COMMAND)],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
    )
    assert (process.stdout.split(), process.stderr) == (offered, "")


# --- for machines ------------------------------------------------------------------------------


Found = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture
def found(ok: Ok, tmp_path: Path) -> Found:
    """Run a line of the command; what it writes for machines, and what it prints."""

    def run(line: str) -> tuple[dict[str, Any], str]:
        printed = ok(f"{COMMAND} {line} --json found.json")
        document = json.loads((tmp_path / "found.json").read_text("utf-8"))
        words = line.split()[: 2 if line.startswith("check") else 1]
        assert document["format"] == f"llm-hindsight/{'-'.join(words)}"
        return document, printed

    return run


def test_nothing_else_is_on_the_standard_output_of_a_machine(ok: Ok, tmp_path: Path) -> None:
    before = [*tmp_path.iterdir()]
    (drawn,) = json.loads(ok("generate generator:uniform --json -"))["instances"]
    assert drawn["digest"] == instances.generate("uniform", 0).digest
    listed = json.loads(ok("show generators --json -"))["generators"]
    assert "uniform" in [one["generator"] for one in listed]
    assert [*tmp_path.iterdir()] == before


def test_what_the_users_code_prints_is_kept_from_machines(
    forked: ForkedScripts, empty: Path
) -> None:
    (empty / "loud.py").write_text("print('loaded', flush=True)\n")
    line = ["generate", "generator:loud.py:uniform", "--json", "-"]
    process = forked.run(COMMAND, *line, cwd=empty)
    assert json.loads(process.stdout)["instances"]
    assert process.stderr == "loaded\n"


def test_solve_and_verify_tell_machines_what_they_print(found: Found, small: Path) -> None:
    told, printed = found("solve small.json --certificate proof.json --crosscheck")
    shown = fields(printed)
    assert [str(end) for end in told["optimum_rounds"]] == [shown["lower bound"]] * 2
    assert shown["status"] == told["status"] == "optimal"
    assert (str(told["requests"]), told["digest"]) == (shown["requests"], shown["digest"])
    assert str(told["waiting_rounds"][0]) == shown["waiting"]
    assert str(told["certificate"]["verified_lower_bound_rounds"]) == shown["verified lower bound"]
    assert shown["CBC"].startswith(str(told["cbc"]["total_latency_rounds"]))
    schedule = instances.Schedule(instances.load(small), told["start_rounds"])
    assert not schedule.violations()
    assert schedule.total_latency == told["optimum_rounds"][1]

    told, printed = found("verify proof.json")
    shown = fields(printed)
    ends = [shown["verified lower bound"], shown["upper bound"]]
    assert [str(end) for end in told["optimum_rounds"]] == ends
    assert (told["proof"], told["is_optimal"]) == (shown["proof"], True)


@pytest.mark.slow
def test_a_relaxation_tells_machines_what_it_prints(found: Found, small: Path) -> None:
    told, printed = found("solve small.json --method relaxation --gap 0.5")
    shown = fields(printed)
    assert str(told["certified_lower_bound_rounds"]) == shown["certified lower bound"]
    assert float(shown["value"]) == pytest.approx(told["value_rounds"], abs=1e-3)


def test_generate_and_show_tell_machines_what_they_print(found: Found, tmp_path: Path) -> None:
    drawn, printed = found("generate 'generator:uniform(count=2)' --out drawn")
    for one in drawn["instances"]:
        assert instances.load(tmp_path / one["file"]).digest == one["digest"]
        assert one["digest"] in printed
    told, printed = found("show")
    assert [one["policy"] for one in told["policies"]] == online.policy_names()
    origins = {one["policy"]: one["from"] for one in told["policies"]}
    assert (origins["mc-sf"], origins["vllm"], origins["wait"]) == ("[J25]", "an engine", "[A25]")
    assert all(one["policy"] in printed and one["what"] in printed for one in told["policies"])


@pytest.mark.slow
def test_ratios_tell_machines_what_they_print(found: Found, small: Path) -> None:
    told, printed = found("ratios small.json --policy mc-sf --policy fcfs --jobs 1")
    optimum = hindsight.solve(instances.load(small)).upper_bound
    for trial, summary in zip(told["trials"], told["policies"], strict=True):
        assert trial["lower"] == trial["upper"] == optimum
        assert trial["ratio"] == [trial["cost"] / optimum] * 2 == summary["mean ratio"]
        assert f"{trial['ratio'][0]:.4f}" in printed


# --- how long it takes, defaults that end, models written --------------------------------------


def test_a_model_alone_is_written_and_not_solved(found: Found, small: Path, tmp_path: Path) -> None:
    told, printed = found("solve small.json --export model.lp")
    assert "status" not in printed
    size = told["export"]
    model = (tmp_path / "model.lp").read_text("utf-8")
    variables = set(re.findall(r"x\(\w+\)", model))
    constraints = re.findall(r"^c_.*:$", model, re.M)
    assert (size["variables"], size["constraints"]) == (len(variables), len(constraints))
    assert f"{size['variables']:,} variables, {size['constraints']:,} constraints" in printed


@pytest.mark.slow
def test_the_makespan_is_minimised_and_named(ok: Ok, small: Path) -> None:
    shown = fields(ok("solve small.json --goal makespan"))
    best = hindsight.solve(instances.load(small), goal="makespan").upper_bound
    assert shown["makespan, upper bound"] == shown["makespan, lower bound"] == str(best)
    assert "waiting" not in shown


# --- policies of one's own ---------------------------------------------------------------------


OWN = '''
from online import Decision, Policy, register_policy

@register_policy("one-by-one")
class OneByOne(Policy):
    """One request at a time, in order of arrival."""
    def __init__(self, *, last_first: bool = False):
        self.last_first = last_first
    def reset(self, setup):
        self.queue = []
    def arrive(self, requests, state):
        self.queue.extend(requests)
    def decide(self, state):
        if state.running or not self.queue:
            return Decision()
        return Decision(start=[self.queue.pop(-1 if self.last_first else 0).index])
'''


@pytest.mark.slow
def test_a_policy_in_a_file_is_compared_listed_and_searched_against(
    ok: Ok, found: Found, small: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    told, printed = found("ratios small.json --policy 'own.py:OneByOne(last_first=True)' --jobs 1")
    # Outputs 2, 6 and 3, the last first: 3 + 9 + 11.
    assert told["trials"][0]["cost"] == 23
    assert "one-by-one(last_first=True)" in printed
    checked, printed = found("check policy own.py:OneByOne --count 3")
    assert checked["passed"]
    assert f"{len(checked['checks'])} of {len(checked['checks'])} checks passed" in printed
    printed = ok(
        "generate 'worst:own.py:OneByOne(n=3, memory_limit=8, evaluations=20)' --out w.json"
    )
    assert printed.startswith("one-by-one, all at once, n <= 3, M <= 8: ")
    assert "optimal" in ok("solve w.json")

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


def test_the_shell_completes() -> None:
    asked = {"COMP_WORDS": "llm-hindsight gen", "COMP_CWORD": "1"}
    process = subprocess.run(
        [sys.executable, program(COMMAND)],
        env={**os.environ, **asked, "_LLM_HINDSIGHT_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
    )
    assert (process.stdout.split(), process.stderr) == (["generate"], "")


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


def test_standard_output_has_the_json_alone(forked: ForkedScripts, empty: Path) -> None:
    """What the user's code prints goes to the error output."""
    (empty / "loud.py").write_text("print('loaded', flush=True)\n")
    line = ("generate", "generator:loud.py:uniform", "--json", "-")
    process = forked.run(COMMAND, *line, cwd=empty)
    (drawn,) = json.loads(process.stdout)["instances"]
    assert drawn["digest"] == instances.generate("uniform", 0).digest
    assert process.stderr == "loaded\n"
    listed = forked.run(COMMAND, "show", "generators", "--json", "-", cwd=empty).stdout
    assert "uniform" in [one["generator"] for one in json.loads(listed)["generators"]]
    assert [path.name for path in empty.iterdir() if path.is_file()] == ["loud.py"]


def test_solve_and_verify_tell_machines_what_they_print(found: Found, small: Path) -> None:
    told, printed = found("solve small.json --certificate proof.json --crosscheck")
    shown, instance = fields(printed), instances.load(small)
    schedule = instances.Schedule(instance, told["start_rounds"])
    assert not schedule.violations()
    optimum = schedule.total_latency
    assert told["optimum_rounds"] == [optimum] * 2
    proved = (told["cbc"]["total_latency_rounds"], told["certificate"]["lower_bound_rounds"])
    assert (told["status"], told["digest"], *proved) == (
        "optimal",
        instance.digest,
        optimum,
        optimum,
    )
    waiting = optimum - instance.total_output_length
    assert (shown["optimum rounds"], shown["waiting rounds"]) == (str(optimum), str(waiting))
    told, printed = found("verify proof.json")
    assert told["optimum_rounds"] == [optimum] * 2
    assert (told["proof"], told["verdict"]) == (fields(printed)["proof"], "optimal")


def test_generate_and_show_tell_machines_what_they_print(found: Found, tmp_path: Path) -> None:
    drawn, printed = found("generate 'generator:uniform(count=2)' --out drawn")
    for one in drawn["instances"]:
        assert instances.load(tmp_path / one["file"]).digest == one["digest"]
        assert one["digest"] in printed
    presets, printed = found("show presets")
    first = {"what": "Llama-2-70B on 2 A100 (affine fit)", "empty_round_milliseconds": 50.0}
    assert {**presets["presets"][0], **first} == presets["presets"][0]
    assert "Llama-2-70B on 2 A100 (affine fit) 50.0000 16492" in " ".join(printed.split())
    told, printed = found("show")
    assert [one["policy"] for one in told["policies"]] == online.policy_names()
    assert all(one["policy"] in printed and one["what"] in printed for one in told["policies"])


def test_a_model_alone_is_written_and_not_solved(found: Found, small: Path, tmp_path: Path) -> None:
    told, printed = found("solve small.json --export model.lp")
    assert "status" not in printed
    size = told["export"]
    model = (tmp_path / "model.lp").read_text("utf-8")
    variables = set(re.findall(r"x\(\w+\)", model))
    constraints = re.findall(r"^c_.*:$", model, re.M)
    assert (size["variables"], size["constraints"]) == (len(variables), len(constraints))
    assert f"export constraints   {size['constraints']}\n" in printed

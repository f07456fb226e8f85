"""Each check finds the fault it is for, in as small an instance as shows it, and no other."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import online
from instances import InvalidValueError
from online import Decision, Policy
from online.commands.check import check
from online.policies.j25.mc_sf import MemoryConstrainedShortestFirst
from online.policy_interface import Setup, State
from online.testing import check_policy

BY_DESIGN = {"alpha-protection": {"ends"}, "alpha-beta-clearing": {"ends"}}
"""Clearing everything may go on for ever ([J25] Section 5.2); runs are ended and say so."""

EXACT_ONLY = {"h-sf", "a-random"}
SOLVING = {"lp-swap", "sorted-lp"}


STREAM = np.random.default_rng(1)


class OneByOne(Policy):
    """First come, first served, one at a time: sound, and slow."""

    def decide(self, state: State) -> Decision:
        if state.running or not self.served(state):
            return Decision()
        return Decision(start=[self.served(state)[self.choose(state)]])

    def served(self, state: State) -> list[int]:
        """Those of the queue that are ever served."""
        return [*state.waiting]

    def choose(self, state: State) -> int:
        """Place in the queue."""
        return 0


class Draws(OneByOne):
    """From a stream that is not the run's."""

    def choose(self, state: State) -> int:
        return int(STREAM.integers(len(state.waiting)))


class DrawsUnsaid(OneByOne):
    """From the run's stream, without saying so."""

    def reset(self, setup: Setup) -> None:
        self.rng = setup.rng

    def choose(self, state: State) -> int:
        return int(self.rng.integers(len(state.waiting)))


class DrawsAndSaysSo(DrawsUnsaid):
    """From the run's stream."""

    randomized = True


class Remembers(OneByOne):
    """From one run to the next."""

    runs = 0

    def reset(self, setup: Setup) -> None:
        self.runs += 1

    def choose(self, state: State) -> int:
        return -1 if self.runs > 1 else 0


def requests() -> Any:
    """The true requests, found around a policy's decision where no policy should look."""
    frame: Any = sys._getframe()
    while type(frame.f_locals.get("self")).__name__ != "Simulation":
        frame = frame.f_back
    return frame.f_locals["self"].source.problem.requests


class SeesLengths(OneByOne):
    """Shortest true output first."""

    def choose(self, state: State) -> int:
        lengths = [requests()[index].output_length for index in state.waiting]
        return lengths.index(min(lengths))


class SeesTheFuture(OneByOne):
    """Last of the queue where the last of all comes in an odd round."""

    def choose(self, state: State) -> int:
        return -(requests()[-1].arrival_time % 2)


class CountsTheFuture(OneByOne):
    """Last of the queue where an odd number of requests will have come."""

    def choose(self, state: State) -> int:
        return -(len(requests()) % 2)


class SeesTheEnd(OneByOne):
    """Last of the queue once nothing more will come."""

    def choose(self, state: State) -> int:
        return 0 if requests()[-1].arrival_time > state.round_index else -1


class Overflows(OneByOne):
    """Everything at once."""

    def decide(self, state: State) -> Decision:
        return Decision(start=[*state.waiting])


class Twice(OneByOne):
    """Starts what runs."""

    def decide(self, state: State) -> Decision:
        return Decision(start=list(state.running)[:1]) if state.running else super().decide(state)


class Starves(OneByOne):
    """Never the third."""

    def served(self, state: State) -> list[int]:
        return [index for index in state.waiting if index != 2]


class GoesRound(OneByOne):
    """Sends back whatever has run for two rounds."""

    def decide(self, state: State) -> Decision:
        old = [k for k, one in state.running.items() if one.rounds_run(state.round_index) >= 2]
        start = () if old else super().decide(state).start
        return Decision(start=start, evict=old, wake=state.round_index + 1)


class Crashes(OneByOne):
    """On a queue of three."""

    def choose(self, state: State) -> int:
        return [0, 0, 0][len(state.waiting)]


class Exits(OneByOne):
    """As a script does that is done."""

    def choose(self, state: State) -> int:
        sys.exit(0)


FAULTS: list[tuple[type[Policy], str, int, str]] = [
    (Draws, "deterministic", 6, "two objects with one seed differ: it decides start"),
    (DrawsUnsaid, "rules", 2, "does not say so: write randomized = True in its class"),
    (Remembers, "deterministic", 2, "an object that ran before differs from a new one"),
    (SeesLengths, "lengths", 3, "behind the same predictions: it decides start"),
    (SeesTheFuture, "future", 4, "with other requests arriving from round"),
    (CountsTheFuture, "future", 4, "with other requests arriving from round"),
    (SeesTheEnd, "future", 4, "with other requests arriving from round"),
    (Overflows, "rules", 4, "holds"),
    (Twice, "rules", 2, "was started but is not waiting"),
    (Starves, "ends", 3, "starts nothing more, with requests left unserved; not served: r"),
    (GoesRound, "ends", 1, "to serve them one by one; not served: r1"),
    (Crashes, "runs", 3, "IndexError: list index out of range ("),
    (Exits, "runs", 1, "RuntimeError: policy 'Exits' asked to exit: SystemExit(0)"),
]
"""Policy, the one check that fails, the most requests that a small instance of it has, why."""


@pytest.mark.parametrize(("policy", "name", "most", "why"), FAULTS)
def test_each_fault_is_found(policy: type[Policy], name: str, most: int, why: str) -> None:
    # Loops are slow, and the first instances show them.
    count = 5 if policy is GoesRound else 20
    report = check_policy(policy, count)
    assert [verdict.name for verdict in report.failures] == [name], str(report)
    verdict = report[name]
    assert 0 < verdict.failed <= verdict.checked <= count
    assert why in verdict.reason
    assert f"FAILED    {name}" in str(report)
    # What was tried on no instance has not passed.
    untried = sum(one.checked == 0 for one in report.verdicts)
    told = f", {untried} had no case" if untried else ""
    assert f": {5 - untried} of 6 checks passed{told}\n" in str(report)
    # What is printed to show it can be run as it is copied, and is small.
    copied = str(report).split("\n\n")[1]
    assert copied.rstrip() == verdict.reproduction
    space: dict[str, Any] = {}
    failing = name in ("rules", "runs")
    try:
        exec(copied, space)
    except (IndexError, RuntimeError):
        assert failing
    else:
        assert not failing
        assert (space["run"].status != "completed") is (name == "ends")
    assert len(space["instance"]) <= most


def test_a_sound_policy_passes() -> None:
    report = check_policy(MemoryConstrainedShortestFirst, 10)
    assert report.passed, str(report)
    assert report.passed
    text = str(report)
    assert text.startswith("policy mc-sf: 6 of 6 checks passed\nok        runs")
    assert report.notes == ()
    assert check_policy(DrawsAndSaysSo, 10).passed
    assert check_policy(OneByOne, 10).passed
    assert check_policy("h-sf", 3).notes[0].startswith("it needs exact output")


def test_a_policy_that_refuses_everything_is_told() -> None:
    class Refuses(OneByOne):
        """Whatever it is."""

        def reset(self, setup: Setup) -> None:
            raise InvalidValueError("policy", "memory_limit", setup.memory_limit, "is too small")

    report = check_policy(Refuses, 3)
    assert [verdict.name for verdict in report.failures] == ["runs"]
    assert "it refuses every instance: InvalidValueError" in str(report["runs"])


TEMPLATE = Path(__file__).parents[3] / "docs" / "own-policies.md"


def test_the_template_of_the_page_passes_and_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    page = TEMPLATE.read_text("utf-8")
    text = page.split('```python title="my_rules.py"\n')[1].split("```")[0]
    (tmp_path / "my_rules.py").write_text(text)
    assert check("policy", "my_rules.py:Backfill", count=10) == 0
    assert capsys.readouterr().out.startswith("policy Backfill: 6 of 6 checks")
    # What is easily forgotten: blocks hold more than their tokens.
    assert text.count("request.peak") == 3
    wrong = re.sub(r"([\w.]*request)\.peak", r"(\1.prompt_length + \1.prediction.upper)", text)
    (tmp_path / "my_rules.py").write_text(wrong)
    assert check("policy", "my_rules.py:Backfill", count=40, json=Path("-")) == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["passed"]
    (failed,) = [one for one in found["checks"] if not one["passed"]]
    assert failed["name"] == "rules"
    assert "MemoryRule" in failed["reproduction"]
    # In a new Python, in the same folder, it shows the overflow.
    shown = subprocess.run(
        [sys.executable, "-c", failed["reproduction"]], capture_output=True, text=True, check=False
    )
    assert "PolicyError" in shown.stderr.splitlines()[-1]


def test_the_lines_that_show_a_failure_make_the_policy() -> None:
    def of(policy: Any) -> str:
        return check_policy(policy, 5)["ends"].reproduction or ""

    class Idle(OneByOne):
        def __init__(self, rounds: int = 1) -> None:
            self.rounds = rounds

        def decide(self, state: State) -> Decision:
            return Decision()

    for policy, made in (
        (Idle, "policy = Idle()"),
        (Idle(rounds=3), "policy = Idle(rounds=3)"),
        (functools.partial(Idle, rounds=2), "policy = Idle(rounds=2)"),
    ):
        lines = of(policy)
        assert made in lines.splitlines()
        space: dict[str, Any] = {"Idle": Idle}
        exec(lines, space)
        assert space["run"].status != "completed"
    lines = check_policy("alpha-protection:alpha=0.3", 40)["ends"].reproduction
    assert "policy = 'alpha-protection(alpha=0.3)'" in lines.splitlines()
    exec(lines, space)
    assert space["run"].status != "completed"


def check_built_in(name: str, instances: int) -> None:
    report = check_policy(name, instances)
    assert {one.name for one in report.failures} <= BY_DESIGN.get(name, set()), str(report)
    needs_lengths = any("needs exact output lengths" in note for note in report.notes)
    assert needs_lengths == (name in EXACT_ONLY)


@pytest.mark.parametrize("name", [name for name in online.policy_names() if name not in SOLVING])
def test_policies_that_come_along(name: str) -> None:
    check_built_in(name, 4)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", online.policy_names())
def test_every_policy_that_comes_along(name: str) -> None:
    check_built_in(name, 10 if name in SOLVING else 100)

"""The referee: what it says of good policies, of cheats, and of those that never come back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import hindsight
import instances
import online
from instances import Instance
from instances.catalogue.records import RecordStore
from online.commands.referee import _record
from online.referee import Case, Limits, fresh_cases, judge, library_cases

BEGIN = "import gc, os, sys\nimport online\nfrom instances import Instance\n"
RULE = "class Rule(online.PriorityPolicy):\n    def priority(self, request):\n        "
HONEST = "return request.volume"
# Neither gc nor the callers' frames hold the instance, in the process that the policy is in.
LOOK = """instances = [one for one in gc.get_objects() if isinstance(one, Instance)]
        frame = sys._getframe()
        while frame is not None:
            instances += [one for one in frame.f_locals.values() if isinstance(one, Instance)]
            frame = frame.f_back
        """
PEEK = f"{LOOK}return int(instances[0].output_lengths[request.index])"
QUIET_PEEK = f"{LOOK}return int(instances[0].output_lengths[0]) if instances else request.volume"
ENDLESS = "while True: pass"
HOARD = "kept = []\n        while True: kept.append(bytearray(10**8))"
BAD = {
    PEEK: ("failed", "IndexError: list index out of range"),
    ENDLESS: ("time-limit", "it had not decided after 2 s"),
    HOARD: ("memory-limit", "it needs more than 300 MB"),
    "os._exit(0)": ("died", "its process ended"),
    "sys.exit()": ("failed", "SystemExit"),
    "os.write(int(sys.argv[1]), b'nonsense\\n')": ("failed", "is no JSON"),
    "os.write(int(sys.argv[1]), b'[1]\\n')": ("failed", "it answered [1]"),
    "open(__file__ + '.txt', 'w').write(99999 * 'some')": ("failed", "OSError"),
    "return None": ("failed", "not a number or a tuple of numbers"),
}
LIMITS = Limits(2, 300)


def rule(folder: Path, body: str) -> str:
    path = folder / "rule.py"
    path.write_text(f"{BEGIN}{RULE}{body}\n", encoding="utf-8")
    return f"{path}:Rule"


def drawn() -> Case:
    case = Instance.from_arrays([3, 1, 2, 2], [2, 4, 1, 3], [0, 0, 1, 2], memory_limit=8)
    return Case("drawn", "named", case, 11, 11)


def referee(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import llm_hindsight; llm_hindsight.main()", "referee"]
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        env={**os.environ, **variables},
    )


def test_a_good_policy_is_scored(tmp_path: Path) -> None:
    name = "j25-m1-n10-00"
    body = f"print('talk')\n        assert 'secret' not in str(os.environ)\n        {HONEST}"
    options = ["--set", name, "--fresh", "1", "--json", "-"]
    ran = referee(rule(tmp_path, body), *options, LLM_HINDSIGHT_REFEREE_SEED="a secret")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["scored"] == 2
    assert found["seed"] is None
    entry = instances.library(name)
    assert entry.record is not None
    total = online.simulate(entry.problem, "smallest-volume-first").total_latency
    assert [one["origin"] for one in found["runs"]] == ["named", "fresh"]
    assert found["runs"][0]["total_latency_rounds"] == total
    ratio = total / entry.record.upper_bound, total / entry.record.lower_bound
    assert found["mean_ratio"]["named"] == pytest.approx(ratio)
    again = next(fresh_cases([entry], 1, "a secret", 5))
    total = online.simulate(again.instance, "smallest-volume-first").total_latency
    assert found["runs"][1]["total_latency_rounds"] == total


def test_a_cheat_is_told_of_in_a_line(tmp_path: Path) -> None:
    ran = referee(rule(tmp_path, PEEK), "--set", "j25-m1-n10-00", "--fresh", "0")
    assert ran.returncode == 1
    assert "j25-m1-n10-00: failed: IndexError: list index out of range" in ran.stdout
    assert "mean ratio on named instances: none" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr


@pytest.mark.parametrize("body", BAD, ids=lambda body: body[:30])
def test_what_it_says_of(body: str, tmp_path: Path) -> None:
    (ruling,) = judge(rule(tmp_path, body), [drawn()], LIMITS)
    status, reason = BAD[body]
    assert ruling.status == status
    assert reason in ruling.reason
    assert ruling.ratio.lower is None


def test_where_the_optimum_is_not_proved_the_ratio_is_an_interval() -> None:
    case = replace(drawn(), lower=10, upper=12)
    (ruling,) = judge("mc-sf", [case], LIMITS)
    total = online.simulate(case.instance, "mc-sf").total_latency
    assert (ruling.ratio.lower, ruling.ratio.upper) == (Fraction(total, 12), Fraction(total, 10))


def test_flags_of_numpy_are_flags(tmp_path: Path) -> None:
    text = rule(tmp_path, HONEST)
    path = tmp_path / "rule.py"
    flag = "    randomized = numpy.bool_(False)\n    def priority"
    path.write_text("import numpy\n" + path.read_text().replace("    def priority", flag, 1))
    (ruling,) = judge(text, [drawn()], LIMITS)
    assert ruling.status == "scored"


def test_ctrl_c_in_a_proof_ends_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    solve = hindsight.solve

    def interrupted(*arguments: Any, **options: Any) -> hindsight.SolveResult:
        return replace(solve(*arguments, **options), stop_reason="interrupted")

    monkeypatch.setattr(hindsight, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(fresh_cases([instances.library("j25-m1-n10-00")], 1, "a", 0.5))


def test_who_finds_nothing_and_goes_on_is_scored_as_the_honest_rule(tmp_path: Path) -> None:
    (ruling,) = judge(rule(tmp_path, QUIET_PEEK), [drawn()], LIMITS, intervals=True)
    (honest,) = judge("smallest-volume-first", [drawn()], LIMITS, intervals=True)
    assert ruling.status == honest.status == "scored"
    assert ruling.total_latency == honest.total_latency


@pytest.mark.parametrize("name", ["mc-sf", "a-min", "gsa", "alpha-beta-clearing"])
def test_a_policy_decides_apart_as_it_does_here(name: str) -> None:
    case = Case("m2", "fresh", instances.generate("arrival-model-2", 3, n=12), 1, 10**6)
    (ruling,) = judge(name, [case], Limits())
    run = online.simulate(case.instance, name)
    assert (ruling.status, ruling.total_latency) == ("scored", run.total_latency)


def test_a_ratio_below_1_is_no_score_and_shows_the_instance() -> None:
    case = drawn()
    wrong = Case(case.name, case.origin, case.instance, 1000, 1000)
    (ruling,) = judge("mc-sf", [wrong], Limits())
    assert ruling.status == "impossible"
    assert "is below 1000, which is proved to be the least" in ruling.reason
    found = _record(ruling)
    assert found["ratio"] is None
    assert found["memory_limit"] == 8
    assert found["requests"] == [[0, 3, 2], [0, 1, 4], [1, 2, 1], [2, 2, 3]]


@pytest.mark.parametrize("name", ["vllm", "no-such-policy"])
def test_who_cannot_be_refereed(name: str) -> None:
    (ruling,) = judge(name, [drawn()], Limits())
    assert ruling.status == "failed"
    assert name in ruling.reason


def test_fresh_draws_depend_on_the_secret_alone() -> None:
    entries = [instances.library("j25-m1-n10-00"), instances.library("j25-m1-n10-01")]
    one, again, other = (
        [case.instance.digest for case in fresh_cases(entries, 2, secret, 5)]
        for secret in ("a", "a", "b")
    )
    assert one == again
    assert len({*one, *other, *(entry.digest for entry in entries)}) == 6
    assert len(library_cases(entries, RecordStore())) == 2
    # In seconds, in blocks, or another goal than total latency.
    others = instances.library().matching("seconds", "blocks", "service", "preemptive")
    assert library_cases(others, RecordStore()) == []


def test_bad_options_are_told_in_a_line() -> None:
    for options, said in (
        ([], "--set is missing"),
        (["--set", "seconds"], "none of seconds is in rounds"),
        (["--set", "j25-m1-n10-00", "--seconds", "inf"], "seconds = inf is not a finite number"),
    ):
        ran = referee("mc-sf", *options)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert said in ran.stderr
        assert ran.stderr.count("\n") == 1

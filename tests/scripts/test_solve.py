"""scripts/solve.py as a process."""

from __future__ import annotations

import json
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from forked_scripts import SCRIPTS, Ok, fields
from process_groups import end, press_ctrl_c, start

import hindsight
import instances
from instances import Instance

CERTIFIED = "certified lower bound rounds"


def test_the_optimum_is_printed_saved_and_exported(ok: Ok, small: Path, tmp_path: Path) -> None:
    shown = fields(ok("solve small.json --crosscheck --out solved.json"))
    assert (shown["status"], shown["gap"]) == ("optimal", "0 %")
    optimum = shown["optimum rounds"]
    assert int(shown[CERTIFIED]) <= int(optimum)
    assert "certificate lower bound rounds" not in shown
    assert (shown["cbc total latency rounds"], shown["cbc is optimal"]) == (optimum, "yes")
    known: Any = instances.known_bounds(instances.load(tmp_path / "solved.json"))
    assert [optimum] * 2 == [str(known.upper_bound), str(known.lower_bound)]
    assert fields(ok("solve small.json --export model.lp"))["export file"] == "model.lp"
    assert "start_once" in (tmp_path / "model.lp").read_text("utf-8")
    again = fields(ok("solve solved.json --time-limit 0"))
    assert again["optimum rounds"].strip("[]").rpartition(", ")[2] == optimum


def test_a_time_limit_gives_an_interval_and_a_certificate(ok: Ok, tmp_path: Path) -> None:
    instances.save(instances.generate("arrival-model-1", 1, n=25), tmp_path / "large.json")
    shown = fields(ok("solve large.json --time-limit 0 --certificate proof.json"))
    assert (shown["status"], shown["stop reason"]) == ("feasible", "time-limit")
    lower, upper = json.loads(shown["optimum rounds"])
    low, high = json.loads(shown["waiting rounds"])
    assert 0 <= low < lower < upper > high > low
    assert shown["gap"] not in {"0 %", "-"}
    # The time that no scheduler can change makes the gap look small.
    gaps = {name: float(shown[name].removesuffix(" %")) for name in shown if "gap" in name}
    assert gaps["certified gap"] < gaps["certified waiting gap"] <= 100
    # The bound that the solve certified and the one that its certificate proves have two names.
    assert shown["certificate verdict"] == "valid interval"
    verified = json.loads((tmp_path / "proof.json").read_text("utf-8"))["lower_bound"]
    assert shown["certificate lower bound rounds"] == str(verified)
    assert verified <= int(shown[CERTIFIED])
    # Prices that the solve has are written at any time limit: they prove more than no waiting.
    assert verified > lower - low


def test_the_preemptive_optimum_is_named(ok: Ok, tmp_path: Path) -> None:
    pair = Instance.from_arrays([1, 8], [9, 1], [0, 1], memory_limit=10)
    instances.save(pair, tmp_path / "pair.json")
    assert hindsight.solve(pair).upper_bound == 12
    objective = "--preemption keep --certificate proof.json"
    shown = fields(ok(f"solve pair.json {objective}"))
    assert (shown["preemption"], shown["status"]) == ("keep", "optimal")
    assert [shown[name] for name in ("optimum rounds", CERTIFIED, "waiting rounds")] == [
        *("11", "11", "1")
    ]
    # The certificate repeats no search: what its prices prove has a name of its own.
    verdict = hindsight.check_certificate(hindsight.read_certificate(tmp_path / "proof.json"))
    assert verdict.preemptive
    assert shown["certificate proof"] == verdict.kind
    assert shown["certificate lower bound rounds"] == str(verdict.lower_bound)


def test_a_certificate_below_the_certified_bound_is_explained(ok: Ok, tmp_path: Path) -> None:
    """The solve enumerates; its certificate has prices, which prove one round less."""
    four = Instance.from_arrays([1, 8, 3, 2], [9, 1, 4, 5], [0, 1, 0, 1], memory_limit=11)
    instances.save(four, tmp_path / "four.json")
    shown = fields(ok("solve four.json --preemption keep --certificate proof.json"))
    assert (shown[CERTIFIED], shown["certificate lower bound rounds"]) == ("26", "25")
    assert "the certificate proves 25, less than the certified lower bound 26" in shown["notes"]


def test_the_bounds_of_a_relaxation_are_printed(ok: Ok, small: Path) -> None:
    shown = fields(ok("solve small.json --method relaxation-lagrangian --time-limit 0"))
    assert (shown["method"], shown["stop reason"]) == ("lagrangian", "time-limit")
    # The optimum: the requests of outputs 3, 6 and 2 begin at 0, 0 and 6.
    assert 11 <= int(shown[CERTIFIED]) <= 17
    found = hindsight.relax(instances.load(small), method="lagrangian", time_limit=0)
    assert Fraction(shown["value rounds"]) <= Fraction(found.objective)
    assert int(shown["certified waiting rounds"]) == int(shown[CERTIFIED]) - 11


@pytest.mark.slow
def test_ctrl_c_gives_the_bound_so_far_of_a_relaxation(tmp_path: Path) -> None:
    instance = instances.generate("mixed-long-short", 0, n=2000)
    instances.save(instance, tmp_path / "large.json")
    given = (tmp_path / "large.json", "--method", "relaxation", "--gap", "1e-6")
    process = start(SCRIPTS / "solve.py", *given)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=30)
    press_ctrl_c(process)
    shown = fields(end(process)[0])
    assert (process.returncode, shown["stop reason"]) == (130, "interrupted")
    assert int(shown[CERTIFIED]) > instance.total_output_length

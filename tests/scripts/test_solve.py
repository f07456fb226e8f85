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


def test_the_optimum_is_printed_saved_and_exported(ok: Ok, small: Path, tmp_path: Path) -> None:
    shown = fields(ok("solve small.json --crosscheck --out solved.json"))
    assert (shown["status"], shown["gap"]) == ("optimal", "0 %")
    assert shown["upper bound"] == shown["lower bound"]
    assert int(shown["certified lower bound"]) <= int(shown["lower bound"])
    assert "verified lower bound" not in shown
    assert shown["CBC"] == f"{shown['upper bound']}, optimal; agrees"
    known: Any = instances.known_bounds(instances.load(tmp_path / "solved.json"))
    assert [shown["upper bound"]] * 2 == [str(known.upper_bound), str(known.lower_bound)]
    assert "written to" in ok("solve small.json --export model.lp")
    assert "start_once" in (tmp_path / "model.lp").read_text("utf-8")
    again = fields(ok("solve solved.json --time-limit 0"))
    assert again["upper bound"] == shown["upper bound"]


def test_a_time_limit_gives_an_interval_and_a_certificate(ok: Ok, tmp_path: Path) -> None:
    instances.save(instances.generate("arrival-model-1", 1, n=25), tmp_path / "large.json")
    shown = fields(ok("solve large.json --time-limit 0 --certificate proof.json"))
    assert shown["status"] == "feasible (time-limit)"
    assert 0 < int(shown["lower bound"]) < int(shown["upper bound"])
    assert shown["gap"] not in {"0 %", "-"}
    low, high = json.loads(shown["waiting"])
    assert 0 <= low < high < int(shown["upper bound"])
    # The time that no scheduler can change makes the gap look small.
    gaps = {name: float(shown[name].removesuffix(" %")) for name in shown if "gap" in name}
    assert gaps["certified gap"] < gaps["certified waiting gap"] <= 100
    # The bound that the solve certified and the one that its certificate proves have two names.
    assert shown["certificate"].startswith("valid interval, by ")
    verified = json.loads((tmp_path / "proof.json").read_text("utf-8"))["lower_bound"]
    assert shown["verified lower bound"] == str(verified)
    assert verified <= int(shown["certified lower bound"])


def test_the_preemptive_optimum_is_named_wherever_its_number_stands(ok: Ok, tmp_path: Path) -> None:
    pair = Instance.from_arrays([1, 8], [9, 1], [0, 1], memory_limit=10)
    instances.save(pair, tmp_path / "pair.json")
    assert hindsight.solve(pair).upper_bound == 12
    objective = "--preemption keep --certificate proof.json"
    shown = fields(ok(f"solve pair.json {objective}"))
    for bound in ("upper", "lower", "certified lower"):
        assert shown[f"preemptive optimum, {bound} bound"] == "11"
        assert f"{bound} bound" not in shown
    assert (shown["preemptive optimum, waiting"], shown["status"]) == ("1", "optimal")
    # The certificate repeats no search: what its prices prove has a name of its own.
    verdict = hindsight.check_certificate(hindsight.read_certificate(tmp_path / "proof.json"))
    assert verdict.preemptive
    assert shown["certificate"].endswith(f"by {verdict.kind}")
    assert shown["preemptive optimum, verified lower bound"] == str(verdict.lower_bound)
    assert "verified lower bound" not in shown


def test_the_bounds_of_a_relaxation_are_printed(ok: Ok, small: Path) -> None:
    shown = fields(ok("solve small.json --method relaxation-lagrangian --time-limit 0"))
    assert shown["method"] == "lagrangian (time-limit)"
    # The optimum: the requests of outputs 3, 6 and 2 begin at 0, 0 and 6.
    assert 11 <= int(shown["certified lower bound"]) <= 17
    found = hindsight.relax(instances.load(small), method="lagrangian", time_limit=0)
    assert Fraction(shown["value at least"]) <= Fraction(found.objective)
    assert int(shown["certified waiting"]) == int(shown["certified lower bound"]) - 11


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
    assert (process.returncode, "(interrupted)" in shown["method"]) == (130, True)
    assert int(shown["certified lower bound"]) > instance.total_output_length

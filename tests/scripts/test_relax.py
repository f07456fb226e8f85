"""scripts/relax.py as a process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pytest
from forked_scripts import Refused, Script, fields

import instances

ROOT = Path(__file__).resolve().parents[2]


def test_an_interval_is_printed(script: Script, small: Path) -> None:
    process = script("relax", small, "--method", "lagrangian", "--time-limit", 0)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    shown = fields(process.stdout)
    assert shown["method"] == "lagrangian (time-limit)"
    # The optimum: the requests of outputs 3, 6 and 2 begin at 0, 0 and 6.
    assert 11 <= int(shown["certified lower bound"]) <= 17
    import hindsight

    found = hindsight.relax(instances.load(small), method="lagrangian", time_limit=0)
    low, high = Fraction(shown["value at least"]), Fraction(shown["value at most"])
    assert low <= Fraction(found.dual_value) <= Fraction(found.objective) <= high
    assert shown["gap"].endswith("%")
    outputs = int(instances.load(small).output_lengths.sum())
    assert int(shown["certified waiting"]) == int(shown["certified lower bound"]) - outputs
    assert shown["waiting gap"].endswith("%")
    assert float(shown["memory"].removesuffix(" MB")) > 10


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["missing.json"], "missing.json: No such file or directory"),
        (["SMALL", "--gap", "0"], "--gap"),
    ],
)
def test_errors_are_one_line(refused: Refused, small: Path, options: list[str], said: str) -> None:
    given = [str(small) if option == "SMALL" else option for option in options]
    assert said in refused("relax", *given)


@pytest.mark.slow
def test_ctrl_c_gives_what_is_proved(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    instances.save(instances.generate("mixed-long-short", seed=0, n=2000), path)
    script = ROOT / "scripts" / "relax.py"
    command = [sys.executable, script, path, "--gap", "1e-6"]
    for delay in (10, 30, 60):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        printed, complained = process.communicate(timeout=120)
        assert process.returncode == 130, complained
        if complained != "error: interrupted\n":  # before the relaxation had begun
            break
    shown = fields(printed)
    assert shown["method"] == "lagrangian (interrupted)"
    instance = instances.load(path)
    assert int(shown["certified lower bound"]) > int(instance.output_lengths.sum())
    assert float(shown["value at least"]) <= float(shown["value at most"])

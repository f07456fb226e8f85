"""scripts/solve.py as a process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from forked_scripts import Refused, Script, fields

import hindsight
import instances
from instances import Instance

ROOT = Path(__file__).resolve().parents[2]


def test_the_optimum_is_printed_saved_and_exported(
    script: Script, small: Path, tmp_path: Path
) -> None:
    solved, model = tmp_path / "solved.json", tmp_path / "model.lp"
    process = script("solve", small, "--crosscheck", "--out", solved, "--export", model)
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    shown = fields(process.stdout)
    assert shown["status"] == "optimal"
    assert shown["gap"] == "0 %"
    assert shown["upper bound"] == shown["lower bound"]
    assert int(shown["certified lower bound"]) <= int(shown["lower bound"])
    outputs = int(instances.load(small).output_lengths.sum())
    least, most = (int(shown[f"{of} bound"]) - outputs for of in ("certified lower", "upper"))
    assert shown["waiting"] == (str(most) if least == most else f"[{least}, {most}]")
    assert "verified lower bound" not in shown
    assert shown["CBC"] == f"{shown['upper bound']}, optimal; agrees"
    known = instances.known_bounds(instances.load(solved))
    assert known is not None
    assert (str(known.upper_bound), str(known.lower_bound)) == (
        shown["upper bound"],
        shown["lower bound"],
    )
    assert "start_once" in model.read_text("utf-8")
    again = script("solve", solved, "--time-limit", 0)
    assert fields(again.stdout)["upper bound"] == shown["upper bound"]


def test_a_time_limit_gives_an_interval(script: Script, tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    instances.save(instances.generate("arrival-model-1", 1, n=40), path)
    certificate = tmp_path / "certificate.json"
    process = script("solve", path, "--time-limit", 0, "--certificate", certificate)
    shown = fields(process.stdout)
    assert process.returncode == 0
    assert shown["status"] == "feasible (time-limit)"
    assert 0 < int(shown["lower bound"]) < int(shown["upper bound"])
    assert shown["gap"] not in {"0 %", "-"}
    low, high = json.loads(shown["waiting"])
    assert 0 <= low < high < int(shown["upper bound"])
    # What no scheduler can change makes the gap look small.
    gaps = {name: float(shown[name].removesuffix(" %")) for name in shown if "gap" in name}
    assert gaps["certified gap"] < gaps["certified waiting gap"] <= 100
    # What the solve certified, and what its certificate proves: two bounds by two names.
    assert shown["certificate"].startswith("valid interval, by ")
    verified = json.loads(certificate.read_text("utf-8"))["lower_bound"]
    assert shown["verified lower bound"] == str(verified)
    assert verified <= int(shown["certified lower bound"])


def test_a_model_is_exported_without_solving(script: Script, tmp_path: Path) -> None:
    path, model = tmp_path / "large.json", tmp_path / "model.mps"
    instances.save(instances.generate("arrival-model-1", 1, n=25), path)
    process = script("solve", path, "--time-limit", 0, "--export", model)
    assert process.returncode == 0
    assert fields(process.stdout)["status"] == "feasible (time-limit)"
    assert model.read_text("utf-8").count("x(") > 25 * 100


def test_a_model_too_large_is_one_line(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    instances.save(instances.generate("mixed-long-short", 0, n=3000), path)
    said = refused("solve", path, "--export", "model.lp")
    assert re.search(r"[\d,]+ rows, [\d,]+ columns, [\d,]+ non-zeros, about [\d,.]+ GB", said)
    assert "non-zeros" in refused("solve", path, "--crosscheck")


def test_no_time_still_leaves_a_certificate(script: Script, tmp_path: Path) -> None:
    path, proof = tmp_path / "large.json", tmp_path / "proof.json"
    instances.save(instances.generate("mixed-long-short", 0, n=2000), path)
    process = script("solve", path, "--time-limit", 0, "--certificate", proof)
    assert process.returncode == 0
    shown = fields(process.stdout)
    outputs = sum(request.output_length for request in instances.load(path))
    assert shown["certificate"] == "valid interval, by memory-prices"
    assert shown["verified lower bound"] == str(outputs)
    assert hindsight.check_certificate(hindsight.read_certificate(proof)).lower_bound == outputs


@pytest.mark.slow
def test_ctrl_c_gives_the_interval_so_far(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    instances.save(instances.generate("arrival-model-1", 0, n=50), path)
    command = [sys.executable, ROOT / "scripts" / "solve.py", path, "--out", tmp_path / "out.json"]
    for delay in (5, 15, 45):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            printed, complained = process.communicate(timeout=120)
        finally:
            process.kill()
        assert process.returncode == 130, complained
        if complained != "error: interrupted\n":  # which says that nothing had been found yet
            break
    assert fields(printed)["status"] == "feasible (interrupted)"
    assert instances.known_bounds(instances.load(tmp_path / "out.json")) is not None


GOOD: dict[str, Any] = {
    "format": "llm-hindsight/instance",
    "version": 1,
    "memory_limit": 8,
    "requests": [{"id": "a", "arrival_time": 0, "prompt_length": 2, "output_length": 3}],
}


def document(**changes: Any) -> str:
    """An instance file whose one request has ``changes``."""
    return json.dumps({**GOOD, "requests": [{**GOOD["requests"][0], **changes}]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (document(prompt_length=0), "request 'a': prompt_length = 0 is below 1"),
        (document(prompt_length=-1), "request 'a': prompt_length = -1 is below 0"),
        (document(output_length=0), "request 'a': output_length = 0 is below 1"),
        (document(output_length=-2), "request 'a': output_length = -2 is below 1"),
        (document(arrival_time=-1), "request 'a': arrival_time = -1 is below 0"),
        (document(output_length=7), "= 9 exceeds memory_limit = 8: the request can never run"),
        (document(output_length=float("nan")), "output_length = nan is not a finite number"),
        (document(output_length=2.5), "output_length = 2.5 is a float; whole numbers only"),
        (document(output_length="3"), "output_length = '3' is not a whole number"),
        (document()[:60], "not valid JSON"),
        (json.dumps({**GOOD, "requests": []}), "requests = [] is empty"),
        (json.dumps({**GOOD, "version": 99}), "version is 99"),
        ("", "not valid JSON"),
        ("[]", "not a JSON object"),
    ],
)
def test_a_bad_instance_is_one_line(refused: Refused, tmp_path: Path, text: str, said: str) -> None:
    path, out = tmp_path / "bad.json", tmp_path / "here" / "out.json"
    path.write_text(text, "utf-8")
    assert said in refused("solve", path, "--out", out)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "INSTANCE.json"),
        (["missing.json"], "missing.json: No such file or directory"),
        (["."], ".: Is a directory"),
        (["SMALL", "--out", "missing/out.json"], "missing/out.json: cannot be written"),
        (["SMALL", "--out", "out.txt"], "--out = 'out.txt' does not end in .json"),
        (["SMALL", "--export", "model.txt"], "does not end in .lp or .mps"),
        (["SMALL", "--export", "missing/model.lp"], "missing/model.lp: cannot be written"),
        (["SMALL", "--time-limit", "-1"], "--time-limit"),
        (["SMALL", "--time-limit", "nan"], "time"),
        (["SMALL", "--threads", "0"], "--threads"),
        (["SMALL", "--formulation", "other"], "is not one of dense, sparse"),
    ],
)
def test_errors_are_one_line(
    refused: Refused, small: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    given = [str(small) if argument == "SMALL" else argument for argument in arguments]
    assert said in refused("solve", *given)
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("option", ["--out", "--certificate"])
def test_the_instance_is_not_written_over(refused: Refused, small: Path, option: str) -> None:
    before = small.read_bytes()
    assert "is the file that is read" in refused("solve", small, option, small)
    assert small.read_bytes() == before


def test_a_folder_is_no_output(refused: Refused, small: Path, tmp_path: Path) -> None:
    (tmp_path / "taken.json").mkdir()
    assert refused("solve", small, "--out", tmp_path / "taken.json").endswith("Is a directory")


def test_the_preemptive_optimum_is_named_wherever_its_number_stands(
    script: Script, tmp_path: Path
) -> None:
    path = tmp_path / "pair.json"
    instances.save(Instance.from_arrays([1, 8], [9, 1], [0, 1], memory_limit=10), path)
    whole = fields(script("solve", path).stdout)
    proof = tmp_path / "proof.json"
    process = script(
        "solve", path, "--objective", "preemptive-total-latency", "--certificate", proof
    )
    assert (process.returncode, process.stderr) == (0, "")
    shown = fields(process.stdout)
    assert whole["upper bound"] == "12"
    assert shown["preemptive optimum, upper bound"] == "11"
    assert shown["preemptive optimum, lower bound"] == "11"
    assert shown["preemptive optimum, certified lower bound"] == "11"
    assert shown["preemptive optimum, waiting"] == "1"
    assert not shown.keys() & {"upper bound", "lower bound", "certified lower bound"}
    # The certificate repeats no search: what its prices prove has a name of its own.
    verdict = hindsight.check_certificate(hindsight.read_certificate(proof))
    assert verdict.preemptive
    assert shown["certificate"].endswith(f"by {verdict.kind}")
    assert shown["preemptive optimum, verified lower bound"] == str(verdict.lower_bound)
    assert "verified lower bound" not in shown
    assert shown["status"] == "optimal"


@pytest.mark.parametrize(
    "option",
    [
        ("--crosscheck",),
        ("--out", "bounds.json"),
        ("--export", "model.lp"),
        ("--formulation", "sparse"),
    ],
)
def test_what_has_no_preemptive_form_is_refused(
    script: Script, small: Path, tmp_path: Path, option: tuple[str, ...]
) -> None:
    given = [str(tmp_path / part) if "." in part else part for part in option]
    process = script("solve", small, "--objective", "preemptive-total-latency", *given)
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.count("\n") == 1
    assert f"{option[0]} = " in process.stderr
    assert "leave out --objective preemptive-" in process.stderr
    assert not any(Path(part).exists() for part in given)

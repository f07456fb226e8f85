"""scripts/verify.py as a process, on what scripts/solve.py wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from certificates_by_definition import document_of
from forked_scripts import ROOT, ForkedScripts, Ok, Script, fields

import instances
from hindsight import make_certificate
from instances import FleetSchedule, Instance, SecondsSchedule
from online import AffineTime


@pytest.fixture(scope="module")
def certificate(forked: ForkedScripts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a small instance, proved optimal, written by scripts/solve.py. Not to be written to."""
    instance = Instance.from_arrays([3, 1, 2, 1, 3, 2], [6, 9, 4, 7, 3, 8], memory_limit=12)
    folder = tmp_path_factory.mktemp("certificate")
    source, path = folder / "instance.json", folder / "certificate.json"
    instances.save(instance, source)
    process = forked.run("solve", source, "--certificate", path, cwd=folder)
    shown = fields(process.stdout)
    assert shown["certificate verdict"] == "optimal", process.stderr
    assert shown["certificate lower bound rounds"] == shown["certified lower bound rounds"]
    return path


def written(path: Path, document: dict[str, Any], **entries: Any) -> Path:
    path.write_text(json.dumps({**document, **entries}), "utf-8")
    return path


def rejection(script: Script, path: Path) -> str:
    process = script("verify", path)
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.count("\n") == 1
    return process.stderr


def test_a_certificate_as_it_is_weaker_and_tampered(
    ok: Ok, script: Script, certificate: Path, tmp_path: Path
) -> None:
    shown, document = fields(ok(f"verify {certificate}")), json.loads(certificate.read_text())
    assert shown["verdict"] == "optimal"
    path, best = tmp_path / "certificate.json", int(shown["optimum rounds"])
    assert "library instance" not in shown
    weaker = fields(ok(f"verify {written(path, document, lower_bound=best - 3)}"))
    assert weaker["verdict"] == "valid interval"
    assert weaker["optimum rounds"] == f"[{best - 3}, {best}]"
    said = rejection(script, written(path, document, upper_bound=best - 1, lower_bound=best - 1))
    assert said.startswith("rejected: upper_bound")


def test_a_certificate_of_a_fleet_and_one_in_seconds(
    ok: Ok, script: Script, tmp_path: Path
) -> None:
    fleet = Instance.from_arrays([2, 3, 1], [4, 2, 3], [0, 0, 1], memory_limit=6, replicas=2)
    schedule = FleetSchedule.from_starts(fleet, [0, 1, 1], [0, 0, 2])
    path, document = tmp_path / "certificate.json", make_certificate(schedule)
    shown = fields(ok(f"verify {written(path, document)}"))
    least = document["lower_bound"]
    optimum = "10" if least == 10 else f"[{least}, 10]"
    assert (shown["replicas"], shown["optimum rounds"]) == ("2", optimum)
    machine = {"memory_limit": 4, "batch_time": AffineTime(0.5, 0.25, 0)}
    workload = instances.Workload([0.0, 0.5], [1, 2], [2, 1], **machine)
    document = make_certificate(SecondsSchedule(workload, [(0, 1, 2), (1, 3, 1)]))
    shown = fields(ok(f"verify {written(path, document)} --json found.json"))
    assert shown["verdict"] == "valid lower bound"
    assert shown["optimum seconds"].endswith(", ?]")
    assert shown["batch time"] == "AffineTime(d0=0.5, d1=0.25, d2=0.0)"
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert found["optimum_seconds"] == [document["lower_bound"], None]
    assert "proves no more than" in rejection(script, written(path, document, lower_bound=99.5))


def test_a_certificate_of_the_preemptive_optimum(ok: Ok, script: Script, tmp_path: Path) -> None:
    """Optimal with preemption; the same claim of schedules without it is not proved."""
    rows = [(0, 1, 9), (1, 8, 1)]
    proof = {"kind": "preemptive-prices", "scale": 1, "tokens": [3, 9], "prices": [[0, 0], [1, 1]]}
    document = {**document_of(rows, 10, [0, 9], proof, 11), "upper_bound": 11}
    document["stretches"] = [[[1, 1], [3, 10]], [[2, 2]]]
    path = written(tmp_path / "certificate.json", document)
    shown = fields(ok("verify certificate.json"))
    assert [shown[name] for name in ("verdict", "preemptive", "optimum rounds")] == [
        *("optimal", "yes", "11")
    ]
    without = document_of(rows, 10, [0, 9], {"kind": "memory-prices", "scale": 1, "prices": []})
    assert "for another optimum" in rejection(script, written(path, without, proof=proof))


def verified_by(before: str, path: Path, after: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: lines of Python before and after the command."""
    code = (
        f"import resource, sys\nsys.argv = ['verify', {str(path)!r}]\n"
        f"from online.commands import console, verify\n{before}\n"
        "try:\n    console.run(verify.verify)\n"
        f"finally:\n    {after}\n"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)


def test_more_than_there_is_memory_for_is_no_certificate(tmp_path: Path) -> None:
    """9 MB of lists take 200 MB; the process may have 50 more than it begins with."""
    path = tmp_path / "certificate.json"
    path.write_text("[" + "[]," * 3_000_000 + "[]]", "utf-8")
    limited = (
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "most = pages * resource.getpagesize() + 50_000_000\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))"
    )
    process = verified_by(limited, path, "pass")
    assert (process.returncode, process.stderr.count("\n")) == (2, 1), process.stderr
    assert process.stderr == "error: not enough memory\n"


def test_checking_loads_no_solver_and_no_compiler(certificate: Path) -> None:
    process = verified_by("", certificate, "print('loaded:', *sys.modules)")
    assert process.returncode == 0, process.stderr
    loaded = {*process.stdout.rpartition("loaded: ")[2].split()}
    banned = {"pyomo", "highspy", "pulp", "numba", "scipy", "ortools", "networkx"}
    assert loaded & banned == set()
    own = {name for name in loaded if name.startswith("hindsight.")}
    assert "hindsight.certificates.writing" not in own
    assert all(name.startswith("hindsight.certificates") for name in own)

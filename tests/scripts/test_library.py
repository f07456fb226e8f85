"""The library on the command line: shown, verified, improved, solved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked_scripts import Ok, Script, fields
from library import improve
from library_records import OPEN, bare_record, listed_record, records_file

from instances import RecordStore, library, load

MAKESPAN = "reduction-partition-no-n10-00"
WHEEL = """
from pathlib import Path
from instances.catalogue import records
records.PACKAGE = Path(".")
from llm_hindsight import main
main()
"""
"""The command with the records of the working folder as those of the package."""


def command(folder: Path, *line: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-c", WHEEL, *line]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done


def test_sets_instances_and_one_instance_are_shown(ok: Ok, tmp_path: Path) -> None:
    lines = ok("show library").splitlines()
    assert [line.split()[0] for line in lines[2:]] == [one.name for one in library().sets]
    (line,) = (row for row in ok("show library:worst-n7-*").splitlines() if row.startswith(OPEN))
    assert "closed" in line
    found = json.loads(ok("show library:worst --json -"))["instances"]
    assert {entry["set"] for entry in found} == {"worst"}
    shown = fields(ok(f"show library:{MAKESPAN}"))
    assert (shown["instance"], shown["optimum"], shown["status"]) == (MAKESPAN, "3", "closed")
    assert shown["certified"] == "no"
    recipe = fields(ok("show library:w25-uniform-n20-00"))["recipe"]
    assert recipe == "generator:uniform(n=20, seed=0)"
    ok(f"generate '{recipe}' --out one.json")
    assert load(tmp_path / "one.json").digest == library()["w25-uniform-n20-00"].digest


@pytest.mark.parametrize("installed", [True, False])
def test_only_a_certificate_that_is_installed_is_shown_as_a_file(
    empty: Path, installed: bool
) -> None:
    """A wheel has records without certificates."""
    _, record = listed_record(RecordStore(empty))
    assert record.certificate is not None
    if not installed:
        record.certificate.unlink()
    else:
        verdict = fields(command(empty, "verify", str(record.certificate)).stdout)
        assert (verdict["library instance"], verdict["record"]) == (OPEN, "39")
    path = f"certificates/{OPEN}.json.xz"
    text, document = (
        command(empty, "show", f"library:{OPEN}", *more).stdout for more in ([], ["--json", "-"])
    )
    expected = path if installed else f"instances/catalogue/{path} of the repository"
    assert fields(text)["certificate"] == expected
    assert json.loads(document)["instances"][0]["certificate"] == expected


def test_records_are_verified_and_a_tampered_one_is_rejected(empty: Path) -> None:
    bare_record(RecordStore(empty))
    lines = command(empty, "verify", "library:worst-n7-*").stdout.splitlines()
    kinds = {line.split()[0]: line.split()[2] for line in lines[2:5]}
    assert [kinds.pop(OPEN), *kinds.values()] == ["open", "none", "none"]
    assert lines[6:8] == ["records open     1", "records none     2"]
    path = records_file(empty)
    document = json.loads(path.read_text("utf-8"))
    own = document["records"][OPEN]
    own["schedule"]["start_times"][-1] += 10**6
    path.write_text(json.dumps(document), "utf-8")
    refused = command(empty, "verify", "library:worst-n7-*", status=1)
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"rejected: {OPEN}: upper bound is")


@pytest.mark.slow
def test_the_bundled_records_hold(ok: Ok) -> None:
    assert len(json.loads(ok("verify library --jobs 2 --json -"))["verdicts"]) == len(library())


def test_records_are_improved_in_a_folder_and_damaged_ones_left_out(
    script: Script, tmp_path: Path, no_package: Path
) -> None:
    store, lost, damaged = RecordStore(tmp_path), "worst-n3-00", "j25-m1-n10-00"
    for name in (OPEN, damaged):
        bare_record(store, name)
    records_file(tmp_path, damaged).write_text("{", "utf-8")
    (tmp_path / "certificates" / f"{lost}.json.xz").mkdir(parents=True)
    found = list(improve([library()[name] for name in (OPEN, lost, damaged)], store, 12.0, jobs=2))
    ((before, after),) = (one for one in found if not isinstance(one, str))
    assert before is not None
    assert (before.status, after.entry.name, after.status) == ("open", OPEN, "closed")
    first, second = (one for one in found if isinstance(one, str))
    assert str(records_file(tmp_path, damaged)) in first + second
    assert f"{lost}: " in first + second
    checked = script("library", "verify", OPEN, "--records", tmp_path)
    assert checked.stdout == "1 records of 1 instances checked, 0 refused\n"
    missing = script("library", "verify", "--records", tmp_path / "missing")
    assert (missing.returncode, "missing has no folder named" in missing.stderr) == (2, True)

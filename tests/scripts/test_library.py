"""llm-hindsight library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from forked_scripts import COMMAND, ForkedScripts, Ok, fields
from library_records import OPEN, bare_record, listed_record, records_file

from instances import RecordStore, library, load, save

MAKESPAN, PREEMPTIVE = "reduction-partition-no-n10-00", "preemptive-j25-m1-n10-00"
WHEEL = """
from pathlib import Path
from instances.catalogue import records
records.PACKAGE = Path("nowhere")
from llm_hindsight import main
main()
"""
"""The command where the package has neither records nor certificates."""
CAPTURED: Any = {"capture_output": True, "text": True, "check": True}
PREEMPTIVE_OBJECTIVE = "--objective preemptive-total-latency"


def test_sets_and_instances_are_listed(ok: Ok) -> None:
    lines = ok("library list").splitlines()
    assert [line.split()[0] for line in lines[2:]] == [one.name for one in library().sets]
    one = ok("library list worst-n7-*")
    (line,) = (line for line in one.splitlines() if line.startswith(OPEN))
    assert "closed" in line
    found = json.loads(ok("library list --largest 7 --json -"))["instances"]
    assert {entry["set"] for entry in found} == {"worst"}
    assert all(entry["requests"] <= 7 for entry in found)


def test_one_is_shown(ok: Ok, tmp_path: Path) -> None:
    found = fields(ok(f"library show {MAKESPAN}"))
    assert found["instance"] == MAKESPAN
    assert (found["optimum"], found["status"]) == ("3", "closed")
    assert "closed form, no certificate" in found["verified lower bound"]
    recipe = fields(ok("library show w25-uniform-n20-00"))["recipe"]
    assert recipe == "generator:uniform(n=20, seed=0)"
    ok(f"generate '{recipe}' --out one.json")
    assert load(tmp_path / "one.json").digest == library("w25-uniform-n20-00").digest


@pytest.mark.parametrize("installed", [True, False])
def test_only_a_certificate_that_is_installed_is_shown_as_a_file(
    empty: Path, installed: bool, no_package: Path
) -> None:
    """A wheel has records without certificates."""
    _, record = listed_record(RecordStore(empty))
    assert record.certificate is not None
    if not installed:
        record.certificate.unlink()
    path = str(Path("certificates", f"{OPEN}.json.xz"))
    line = ["library", "show", OPEN, "--records", "."]
    text, document = (
        subprocess.run([sys.executable, "-c", WHEEL, *line, *more], cwd=empty, **CAPTURED).stdout
        for more in ([], ["--json", "-"])
    )
    absent = f"not installed; the repository has instances/catalogue/{path}"
    assert fields(text)["certificate"] == (path if installed else absent)
    shown = json.loads(document)["instances"][0]["certificate"]
    assert shown == (path if installed else None)


def test_a_tampered_record_is_rejected(forked: ForkedScripts, empty: Path) -> None:
    bare_record(RecordStore(empty))
    arguments = ("library", "verify", "worst-n7-*", "--records", ".")
    held = forked.run(COMMAND, *arguments, cwd=empty)
    assert (held.returncode, held.stderr) == (0, "")
    assert " records checked in " in held.stdout
    one = forked.run(COMMAND, "library", "verify", OPEN, "--records", ".", cwd=empty)
    assert "\n1 record checked in " in one.stdout
    path = records_file(empty)
    document = json.loads(path.read_text("utf-8"))
    document["records"][OPEN]["schedule"]["start_times"][-1] += 10**6
    document["records"]["worst-n7-99"] = document["records"][OPEN]
    path.write_text(json.dumps(document), "utf-8")
    refused = forked.run(COMMAND, *arguments, cwd=empty)
    assert refused.returncode == 1
    first, second = refused.stderr.splitlines()
    assert first.startswith(f"rejected: {OPEN}: upper bound is")
    assert second == "rejected: worst-n7-99: no instance of the library has this name"


def test_what_a_terminal_obeys_is_printed_as_text(forked: ForkedScripts, empty: Path) -> None:
    bare_record(RecordStore(empty))
    path = records_file(empty)
    document = json.loads(path.read_text("utf-8"))
    own = document["records"][OPEN]
    document["records"] = {OPEN: {**own, "digest": "\x1b[2J\n"}, "x\x1b[31m\u202e": own}
    path.write_text(json.dumps(document), "utf-8")
    refused = forked.run(COMMAND, "library", "verify", OPEN, "--records", ".", cwd=empty)
    assert refused.returncode == 1
    lines = refused.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("rejected: ") and line.isprintable() for line in lines)


@pytest.mark.slow
def test_the_records_that_come_along_hold(ok: Ok) -> None:
    one, two = (
        json.loads(ok(f"library verify --jobs {jobs} --json -"))["verdicts"] for jobs in (1, 2)
    )
    assert one == two
    assert len(one) == len(library())


@pytest.mark.parametrize(
    ("name", "options"),
    [("j25-m1-n20-00", ""), ("preemptive-j25-m2-n15-00", "--objective preemptive-total-latency")],
)
def test_a_solve_of_a_name_starts_from_its_record(
    ok: Ok, tmp_path: Path, name: str, options: str
) -> None:
    entry = library(name)
    assert entry.record is not None
    save(entry.problem, tmp_path / "bare.json")
    named, bare = (
        json.loads(ok(f"solve {asked} {options} --time-limit 0 --json -"))
        for asked in (name, "bare.json")
    )
    upper = entry.record.upper_bound
    assert named["notes"] == [f"starts from the library's schedule of {upper}"]
    # A file is taken for what it carries, whatever its metadata call it.
    assert bare["notes"] == []
    assert named["optimum_rounds"][1] == upper < bare["optimum_rounds"][1]


RATIOS = "ratios --policy fcfs --jobs 1"
IS_PREEMPTIVE = "is total latency with preemption, asked for by "


@pytest.mark.parametrize(
    ("line", "notes"),
    [
        (f"solve {MAKESPAN}", [f"{MAKESPAN} is makespan, asked for by --objective makespan"]),
        (f"solve {MAKESPAN} --objective makespan", []),
        (f"solve {PREEMPTIVE}", [f"{PREEMPTIVE} {IS_PREEMPTIVE}{PREEMPTIVE_OBJECTIVE}"]),
        (f"solve {PREEMPTIVE} {PREEMPTIVE_OBJECTIVE}", []),
        (f"solve {OPEN} {PREEMPTIVE_OBJECTIVE}", []),
        (
            f"{RATIOS} {PREEMPTIVE} preemptive-j25-m1-n15-00 {MAKESPAN}",
            [f"{PREEMPTIVE} and 1 more {IS_PREEMPTIVE}--preemptive", f"{MAKESPAN} is makespan"],
        ),
        (f"{RATIOS} '{PREEMPTIVE}(block_size=2)'", []),
    ],
)
def test_another_goal_than_the_librarys_is_told(
    ok: Ok, tmp_path: Path, line: str, notes: list[str]
) -> None:
    shown = ok(f"{line} --time-limit 0 --json found.json")
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))["notes"]
    told = [f"the library's goal of {note}" for note in notes]
    assert [note for note in found if "goal" in note] == told
    assert [note for note in told if note not in shown] == []

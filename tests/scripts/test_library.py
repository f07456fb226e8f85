"""llm-hindsight library."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from forked_scripts import ForkedScripts, Refused, fields
from library_records import OPEN, bare_record, records_file

from instances import RecordStore, Schedule, library, save, save_schedule
from online.commands.library import _fields
from online.commands.sources import parse_source, read_instance

COMMAND = "llm_hindsight"
MAKESPAN, PREEMPTIVE = "reduction-partition-no-n10-00", "preemptive-j25-m1-n10-00"
MAKESPAN_GOAL = "makespan, asked for by --objective makespan"
PREEMPTIVE_GOAL = "total latency with preemption, asked for by "
PREEMPTIVE_OBJECTIVE = "--objective preemptive-total-latency"


def test_sets_and_instances_are_listed(forked: ForkedScripts, empty: Path) -> None:
    listed = forked.run(COMMAND, "library", "list", cwd=empty)
    assert (listed.returncode, listed.stderr) == (0, "")
    lines = listed.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:]] == [one.name for one in library().sets]
    one = forked.run(COMMAND, "library", "list", "worst-n7-*", cwd=empty)
    (line,) = (line for line in one.stdout.splitlines() if line.startswith(OPEN))
    assert "closed" in line
    small = forked.run(COMMAND, "library", "list", "--largest", "7", "--json", "-", cwd=empty)
    found = json.loads(small.stdout)["instances"]
    assert {entry["set"] for entry in found} == {"worst"}
    assert all(entry["requests"] <= 7 for entry in found)


def test_one_is_shown(forked: ForkedScripts, empty: Path) -> None:
    name = "reduction-partition-no-n10-00"
    found = fields(forked.run(COMMAND, "library", "show", name, cwd=empty).stdout)
    assert found["instance"] == name
    assert (found["optimum"], found["status"]) == ("3", "closed")
    assert "closed form, no certificate" in found["verified lower bound"]
    drawn = forked.run(COMMAND, "library", "show", "w25-uniform-n20-00", cwd=empty)
    recipe = fields(drawn.stdout)["recipe"]
    assert recipe == "generator:uniform(n=20, seed=0)"
    again = read_instance(parse_source(recipe))
    assert again.digest == library("w25-uniform-n20-00").digest


@pytest.mark.parametrize(
    ("certificate", "told"),
    [
        (None, "40, by a solve in exact arithmetic; "),
        (Path("c.json.xz"), "40, by a solve in exact arithmetic, its certificate proves less; "),
    ],
)
def test_only_a_certificate_that_is_there_proves_less(
    empty: Path, certificate: Path | None, told: str
) -> None:
    entry, record = bare_record(RecordStore(empty))
    claiming = replace(record, certificate=certificate).claiming(40, record.found)
    (of,) = (one for one in library().sets if one.name == entry.set)
    assert _fields(entry, of, claiming)["claimed lower bound"].startswith(told)


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


def test_what_is_handed_in_is_taken_or_rejected(forked: ForkedScripts, empty: Path) -> None:
    entry, record = bare_record(RecordStore(empty / "other"))
    assert isinstance(record.schedule, Schedule)
    save_schedule(record.schedule, empty / "schedule.json")
    arguments = ("library", "submit", "schedule.json", "--records", "own", "--by", "me")
    taken = forked.run(COMMAND, *arguments, cwd=empty)
    assert (taken.returncode, taken.stderr) == (0, "")
    # The record that comes along is an optimum.
    assert taken.stdout == (
        f"{OPEN}: a schedule of {record.upper_bound} holds, and is no better than "
        f"{record.upper_bound}\n"
    )
    # There was nothing to be put there.
    assert not (empty / "own").exists()
    save_schedule(Schedule(entry.problem, entry.problem.arrival_times), empty / "schedule.json")
    rejected = forked.run(COMMAND, *arguments, cwd=empty)
    assert rejected.returncode == 1
    assert rejected.stderr.startswith("rejected: the schedule is infeasible: ")


@pytest.mark.slow
def test_the_records_that_come_along_hold(forked: ForkedScripts, empty: Path) -> None:
    one = forked.run(COMMAND, "library", "verify", "--json", "one.json", cwd=empty)
    assert (one.returncode, one.stderr) == (0, "")
    forked.run(COMMAND, "library", "verify", "--jobs", 2, "--json", "two.json", cwd=empty)
    first, second = (json.loads((empty / f"{n}.json").read_text("utf-8")) for n in ("one", "two"))
    assert first["verdicts"] == second["verdicts"]
    assert len(first["verdicts"]) == len(library())


def test_other_commands_take_its_names(
    forked: ForkedScripts, refused: Refused, empty: Path
) -> None:
    compared = forked.run(COMMAND, "ratios", OPEN, "--policy", "mc-sf", cwd=empty)
    assert (compared.returncode, compared.stderr) == (0, "")
    assert OPEN in compared.stdout
    seconds = "seconds-azure-code-n20-00"
    assert "has arrivals in seconds, and no rounds" in refused(COMMAND, "solve", seconds)
    assert "did you mean 'worst-n7-" in refused(COMMAND, "solve", "worst-n7-99")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("j25-m1-n20-00", ()),
        ("preemptive-j25-m2-n15-00", ("--objective", "preemptive-total-latency")),
    ],
)
def test_a_solve_of_a_name_starts_from_its_record(
    forked: ForkedScripts, empty: Path, name: str, options: tuple[str, ...]
) -> None:
    entry = library(name)
    assert entry.record is not None
    save(entry.problem, empty / "bare.json")
    upper = {}
    for asked in (name, "bare.json"):
        process = forked.run(
            COMMAND, "solve", asked, *options, "--time-limit", 0, "--json", "-", cwd=empty
        )
        found = json.loads(process.stdout)
        upper[asked] = found["optimum_rounds"][1]
        told = [f"starts from the library's schedule of {upper[asked]}"] if asked == name else []
        assert found["notes"] == told
    # A file is taken for what it carries, whatever its metadata call it.
    assert upper[name] == entry.record.upper_bound < upper["bare.json"]


@pytest.mark.parametrize(
    ("arguments", "notes"),
    [
        (("solve", MAKESPAN), [f"the library's goal of {MAKESPAN} is {MAKESPAN_GOAL}"]),
        (("solve", MAKESPAN, "--objective", "makespan"), []),
        (
            ("solve", PREEMPTIVE),
            [f"the library's goal of {PREEMPTIVE} is {PREEMPTIVE_GOAL}{PREEMPTIVE_OBJECTIVE}"],
        ),
        (("solve", PREEMPTIVE, "--objective", "preemptive-total-latency"), []),
        (("solve", OPEN, "--objective", "preemptive-total-latency"), []),
        (
            ("ratios", PREEMPTIVE, "preemptive-j25-m1-n15-00", MAKESPAN, "--policy", "fcfs"),
            [
                f"the library's goal of {PREEMPTIVE} and 1 more is {PREEMPTIVE_GOAL}--preemptive",
                f"the library's goal of {MAKESPAN} is makespan",
            ],
        ),
        (("ratios", f"{PREEMPTIVE}(block_size=2)", "--policy", "fcfs"), []),
    ],
)
def test_another_goal_than_the_librarys_is_told(
    forked: ForkedScripts, empty: Path, arguments: tuple[str, ...], notes: list[str]
) -> None:
    process = forked.run(COMMAND, *arguments, "--time-limit", 0, "--json", "-", cwd=empty)
    found = json.loads(process.stdout)["notes"]
    assert [note for note in found if "goal" in note] == notes
    shown = forked.run(COMMAND, *arguments, "--time-limit", 0, cwd=empty).stdout
    assert [note for note in notes if note not in shown] == []

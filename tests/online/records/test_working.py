"""Records on several cores: which instance is next, and going on after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from library_records import bare_record, library_command, listed_record, records_file

from hindsight.records.improvement import Gain
from instances import RecordStore, library
from online.records.working import Failure, _Turns, improve_records, verify_records

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.usefixtures("no_package")

SMALL = ("worst-n3-00", "worst-n7-00", "worst-n7-01", "worst-n9-00")


def order(turns: _Turns) -> list[str]:
    found = []
    while (turn := turns.next()) is not None:
        found.append(turn[0].name)
    return found


def test_the_widest_gap_tried_least_is_next(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    entries = [library(name) for name in SMALL]
    gaps = {}
    for name in SMALL[:3]:
        _, record = bare_record(store, name)
        assert record.status == "open"
        gaps[name] = record.gap
    widest = sorted(gaps, key=lambda name: -gaps[name])
    # What nobody knows anything of has the widest gap of all.
    assert order(_Turns(entries, store)) == [SMALL[3], *widest]
    tried = store.record(library(widest[0]))
    assert tried is not None
    store.put(tried.tried(1))
    assert order(_Turns(entries, store)) == [SMALL[3], *widest[1:], widest[0]]


def test_certificates_that_were_not_installed_are_named_in_one_line(tmp_path: Path) -> None:
    """A wheel has records without certificates."""
    store = RecordStore(tmp_path)
    entry, record = listed_record(store, "worst-n12-00")
    assert record.certificate is not None
    record.certificate.unlink()
    with pytest.raises(FileNotFoundError, match=r"of worst-n12-00 is not installed.*--records"):
        [*verify_records([entry], tmp_path)]


def test_damaged_files_leave_out_their_sets_and_the_others_go_on(tmp_path: Path) -> None:
    """One is damaged from the beginning, one while an attempt on it is under way."""
    store = RecordStore(tmp_path)
    damaged, *sound = "j25-m1-n10-00", "worst-n3-00", "reduction-partition-yes-n10-00"
    bare_record(store, damaged)
    records_file(tmp_path, damaged).write_text("{", "utf-8")

    def spoil_the_other(news: Gain | Failure) -> None:
        if isinstance(news, Gain):
            (other,) = {*sound} - {news.entry.name}
            records_file(tmp_path, other).write_text("{", "utf-8")

    entries = [library(name) for name in (damaged, *sound)]
    done = improve_records(entries, store, 60.0, jobs=2, tell=spoil_the_other)
    (kept,) = done.attempts
    assert isinstance(kept, Gain)
    (lost,) = {*sound} - {kept.entry.name}
    assert [one.name for one in done.left_out] == [damaged, lost]
    assert all(str(records_file(tmp_path, one.name)) in one.reason for one in done.left_out)


def test_however_little_time_there_is_one_is_tried_in_every_process(tmp_path: Path) -> None:
    entries = [library(name) for name in SMALL]
    done = improve_records(entries, RecordStore(tmp_path), 3.0, jobs=2)
    assert [type(one) for one in done.attempts] == [Gain, Gain]


def test_what_cannot_be_kept_is_told_of_and_the_others_go_on(tmp_path: Path) -> None:
    lost, kept = library("worst-n3-00"), library("reduction-partition-yes-n10-00")
    (tmp_path / "certificates" / f"{lost.name}.json.xz").mkdir(parents=True)
    done = improve_records([lost, kept], RecordStore(tmp_path), 10.0, jobs=2)
    (failure,) = (one for one in done.attempts if isinstance(one, Failure))
    assert failure.name == lost.name
    assert "directory" in failure.reason
    assert RecordStore(tmp_path).record(kept) is not None


def test_the_command_says_in_one_line_that_a_file_is_damaged(tmp_path: Path) -> None:
    bare_record(RecordStore(tmp_path))
    records_file(tmp_path).write_text("{", "utf-8")
    # The package has the last one closed.
    names = [*SMALL, "reduction-partition-no-n10-00"]
    process = library_command("improve", *names, "--records", tmp_path)
    assert process.returncode == 1
    assert "0 attempts" in process.stdout
    (line,) = process.stderr.splitlines()
    assert line.startswith(f"rejected: {records_file(tmp_path)}: ")
    assert line.endswith("; 4 instances left out")


@pytest.mark.parametrize("limit", ["inf", "0"])
def test_a_time_limit_that_ends_nothing_is_refused_by_its_name(limit: str) -> None:
    command = Path(sys.executable).with_name("llm-hindsight")
    process = subprocess.run(
        [command, "library", "improve", SMALL[0], "--time-limit", limit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    (line,) = process.stderr.splitlines()
    assert line.startswith("error: --time-limit = ")


@pytest.mark.slow
def test_killed_it_goes_on_where_it_was(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "sys.path.insert(0, sys.argv.pop(1))\n"
        "import llm_hindsight, instances.catalogue.records as records\n"
        "if __name__ == '__main__':\n"
        "    records.PACKAGE = pathlib.Path(sys.argv.pop(1))\n"
        "    llm_hindsight.main()\n"
    )
    command = [sys.executable, "-c", code, str(ROOT), str(tmp_path / "package")]
    command += ["library", "improve", "worst"]
    command += ["--records", str(tmp_path), "--time-limit", "300"]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        while not records_file(tmp_path).exists():
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    entries = library().matching("worst")
    before = {one.name: one.kind for one in verify_records(entries, tmp_path)}
    done = {name for name, kind in before.items() if kind != "none"}
    assert "refused" not in before.values()
    assert done < before.keys()
    subprocess.run(command, check=True, timeout=280, capture_output=True)
    store = RecordStore(tmp_path)
    attempts = {entry.name: getattr(store.record(entry), "attempts", 0) for entry in entries}
    assert {one.kind for one in verify_records(entries, tmp_path)} == {"closed"}
    closed_before = {name for name in done if before[name] == "closed"}
    assert {attempts[name] for name in closed_before} == {1}

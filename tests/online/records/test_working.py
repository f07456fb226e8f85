"""Records on several cores: which instance is next, and going on after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from library_records import OPEN, bare_record, listed_record, records_file

from instances import RecordStore, library
from online.records.working import _Turns, improve_records, verify_records

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.usefixtures("no_package")

SMALL = ("worst-n3-00", "worst-n7-00", "worst-n7-01", "worst-n9-00")


def order(turns: _Turns) -> list[str]:
    found = []
    while (entry := turns.next(True)) is not None:
        found.append(entry.name)
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


def test_what_is_closed_has_no_turn(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    _, closed = listed_record(store, "worst-n12-00")
    assert closed.status == "closed"
    bare_record(store)
    turns = _Turns([library("worst-n12-00"), library(OPEN)], store)
    assert turns.next(False) is None
    entry = turns.next(True)
    assert entry is library(OPEN)
    assert turns.next(True) is None
    turns.again(library(OPEN))
    assert order(turns) == [OPEN]


def test_verdicts_come_in_order(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    listed_record(store)
    found = [*verify_records([library("worst-n3-00"), library(OPEN)], tmp_path)]
    assert [(one.name, one.kind) for one in found] == [("worst-n3-00", "none"), (OPEN, "open")]


@pytest.mark.slow
def test_small_ones_are_closed_and_the_rest_goes_on(tmp_path: Path) -> None:
    entries = [library(name) for name in SMALL]
    store = RecordStore(tmp_path)
    told = []
    done = improve_records(entries, store, 60.0, jobs=2, tell=told.append)
    assert [*done.attempts] == told
    assert not done.interrupted
    assert {one.kind for one in verify_records(entries, tmp_path)} == {"closed"}
    again = improve_records(entries, store, 60.0)
    assert again.attempts == ()


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

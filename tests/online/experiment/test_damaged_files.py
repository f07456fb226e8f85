"""Results files damaged, tampered with, locked, full or out of reach: named, never shown."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shutil
import sqlite3
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiment_processes import TINY, dump

from instances import FileFormatError
from online.experiment import (
    Experiment,
    ExperimentProgress,
    parse_experiment,
    read_results,
    run_experiment,
    store,
)
from online.experiment.plan import make_plan
from online.report.page import report_data

POLICIES_ONLY = parse_experiment("solver = false\n" + TINY)


@pytest.fixture
def copy(tiny_results: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(tiny_results, tmp_path / "copy.sqlite"))


def alter(path: Path, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        assert database.execute(statement, values).rowcount != 0


def assert_refused(path: Path, said: str) -> None:
    """By a reader and by a run."""
    for call in (read_results, functools.partial(run_experiment, parse_experiment(TINY))):
        with pytest.raises(FileFormatError, match=said):
            call(path)


BOUND = "certified_lower_bound"
DEEP = '{"a":' * 900 + "1" + "}" * 900
LOST = "attempts = '[[{}, 0, 1, false],' || substr(attempts, 2)"
TAMPERED: list[tuple[str, str, str]] = [
    ("trials", "total_latency = 1 WHERE status = 'completed'", r"1 is stored, and .* follows \d+"),
    ("trials", "total_latency = 'much'", "total_latency = 'much' is not of type int"),
    ("trials", "status = 'livelock'", r"total_latency = \d+ is stored, and .* follows None"),
    ("optima", "lower_bound = upper_bound + 1", "optimum_lower = .* exceeds the total latency"),
    ("optima", f"lower_bound = lower_bound - 1, {BOUND} = NULL", "optimal = True is stored"),
    ("optima", "status = 'feasible'", "optimal = False is stored"),
    ("optima", f"{BOUND} = lower_bound + 1", rf"{BOUND} = \d+ exceeds the lower bound \d+"),
    ("optima", f"lower_bound = NULL, status = 'feasible', {BOUND} = 1", "1 exceeds .* bound None"),
    ("optima", "start_times = NULL", "upper_bound = .* is stored"),
    ("trials", "start_rounds = '[0, 0, 0, 0]' WHERE requests = 4", "'a schedule' breaks: round"),
    ("trials", "start_rounds = NULL", "do not go with status 'completed'"),
    ("optima", "start_times = '[0, 0, 0, 0]'", "'a schedule' breaks|differs from the 3 requests"),
    ("trials", "attempts = '[[0, 1, 2]]'", "is no stay of a"),
    ("trials", f"evictions = 1, {LOST.format(9)}", r"lost_attempts = \(9, 0, 1\) is no stay of a"),
    ("trials", LOST.format(0), "evictions = 0 is stored, and from what else is stored follows 1"),
    ("trials", "attempts = '[[0,'", "trial: attempts: not valid JSON"),
    ("trials", "params = x'00'", r"params = b'\\x00' is not of type str"),
    ("trials", f"params = '{DEEP}'", "trial: params: is nested more than 100 deep"),
    ("trials", "policy = CAST(x'ff' AS TEXT)", "Could not decode to UTF-8"),
    ("instances", "document = replace(document, '_limit\": 14', '_limit\": 15')", "'.*' is stored"),
    ("instances", "", "instance = '.*' is not in the file"),
    ("instances", "document = replace(document, 'memory_limit', 'memory')", "unknown key 'memory'"),
    ("trials", "memory_limit = 99", "memory_limit = 99 is stored"),
    ("trials", "requests = requests + 1", r"requests = \d+ is stored"),
    ("members", "policy = x'00' WHERE position = 0", r"PlaceRow: policy = b'\\x00' is not of"),
    ("members", "draw = 'x'", "draw = 'x' is not of type int"),
]
"""A table of a sound file, the change of its rows or none to delete them, and words."""


@pytest.mark.parametrize(("table", "change", "words"), TAMPERED)
def test_what_was_tampered_with_is_named(copy: Path, table: str, change: str, words: str) -> None:
    alter(copy, f"UPDATE {table} SET {change}" if change else f"DELETE FROM {table}")
    with pytest.raises(FileFormatError, match=words) as caught:
        read_results(copy)
    assert str(caught.value).startswith(f"{copy}: ")
    assert "\n" not in str(caught.value)


def test_a_trial_of_an_experiment_without_optima_is_held_against_its_instance(
    tmp_path: Path,
) -> None:
    path = tmp_path / "r.sqlite"
    run_experiment(POLICIES_ONLY, path)
    assert {trial.optimum_upper for trial in read_results(path)} == {None}
    alter(path, "UPDATE trials SET total_latency = total_latency - 1")
    with pytest.raises(FileFormatError, match="total_latency = "):
        read_results(path)


@pytest.mark.parametrize("table", ["trials", "optima", "instances", "experiments", "members"])
def test_a_missing_table_is_named(copy: Path, table: str) -> None:
    alter(copy, f"DROP TABLE {table}")
    assert_refused(copy, f"is a damaged results file: no such table: .*{table}")


def test_an_instance_gone_or_broken_is_named_by_a_run_too(tmp_path: Path) -> None:
    """Those that arrival sources realised are read back for their optima."""
    path = tmp_path / "r.sqlite"
    text = 'name = "s"\npolicies = ["fcfs"]\n[[instances]]\ngenerator = "sqrt-n-adversary"\n'
    adaptive = parse_experiment(text + "parameters = { memory_limit = 9 }\n")
    assert run_experiment(adaptive, path).failed == 0
    for statement, message in (
        ("UPDATE instances SET document = '[1'", "document: not valid JSON"),
        ("UPDATE instances SET document = 5", "document = '5' is not a JSON dict|not a JSON dict"),
        ("DELETE FROM instances", "lacks the instance"),
    ):
        alter(path, statement)
        with pytest.raises(FileFormatError, match=message):
            run_experiment(adaptive, path)


def test_damage_anywhere_is_one_error_or_none(copy: Path) -> None:
    """Bytes turned over past the header: SQLite may not notice, but nothing else is raised."""
    sound = copy.read_bytes()
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(150):
        damaged = bytearray(sound)
        length = int(rng.choice([1, 16, 400, 4096]))
        place = int(rng.integers(100, len(damaged) - length))
        damaged[place : place + length] = rng.bytes(length)
        copy.write_bytes(damaged)
        try:
            report_data(read_results(copy).run)
        except FileFormatError:
            refused += 1
    assert refused > 50
    copy.write_bytes(sound[:4096] + b"\xff" * (len(sound) - 4096))
    assert_refused(copy, "is a damaged results file")
    for size in (0, 50, 100, 4096, 5000, len(sound) // 2):
        copy.write_bytes(sound[:size])
        with pytest.raises(FileFormatError, match=r"is (not|a damaged) .*results file"):
            read_results(copy)


def after_some(action: Callable[[], object]) -> Callable[[ExperimentProgress], None]:
    """A listener that acts when five results are there."""

    def listen(news: ExperimentProgress) -> None:
        if news.computed == 5:
            action()

    return listen


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """The connections a run opens."""
    found: list[sqlite3.Connection] = []
    original = store._open

    def opening(*arguments: Any) -> sqlite3.Connection:
        found.append(original(*arguments))
        return found[-1]

    monkeypatch.setattr(store, "_open", opening)
    return found


def sound_and_shorter(path: Path) -> int:
    """The trials in a file that lacks some; the same command then completes it."""
    found = len(dump(path)["trials"])
    assert run_experiment(POLICIES_ONLY, path).computed == 16 - found
    return found


def test_a_file_locked_for_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "WAIT_SECONDS", 0.05)
    path = tmp_path / "r.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        lock = after_some(lambda: other.execute("BEGIN IMMEDIATE"))
        with pytest.raises(OSError, match="cannot be opened, read or written .* is locked"):
            run_experiment(POLICIES_ONLY, path, progress=lock)
        with pytest.raises(OSError, match="database is locked"):
            run_experiment(POLICIES_ONLY, path)
    assert sound_and_shorter(path) == 5


def test_a_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite is given the whole of `WAIT_SECONDS`."""
    asked: list[float] = []
    connect = sqlite3.connect

    def connecting(*arguments: Any, timeout: float = 0, **options: Any) -> sqlite3.Connection:
        asked.append(timeout)
        return connect(*arguments, timeout=timeout, **options)

    monkeypatch.setattr(store.sqlite3, "connect", connecting)
    run_experiment(POLICIES_ONLY, tmp_path / "r.sqlite")
    read_results(tmp_path / "r.sqlite")
    assert set(asked) == {store.WAIT_SECONDS}


def test_a_full_disk(tmp_path: Path, opened: list[sqlite3.Connection]) -> None:
    path = tmp_path / "r.sqlite"

    def fill() -> None:
        (pages,) = opened[0].execute("PRAGMA page_count").fetchone()
        opened[0].execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(OSError, match="cannot be opened, read or written .* is full"):
        run_experiment(POLICIES_ONLY, path, progress=after_some(fill))
    assert 5 <= sound_and_shorter(path) < 16


def test_a_transaction_that_fails_is_taken_back(
    tmp_path: Path, opened: list[sqlite3.Connection]
) -> None:
    """The realised instance and its trial are stored together or not at all."""
    path = tmp_path / "r.sqlite"
    with store.Store(path) as database:
        with contextlib.suppress(KeyError), database._transaction():
            opened[0].execute("INSERT INTO instances VALUES ('a', 'b')")
            raise KeyError
        assert not opened[0].in_transaction
        with database._transaction():
            opened[0].execute("INSERT INTO instances VALUES ('c', 'd')")
    assert dump(path)["instances"] == [("c", "d")]


def test_whatever_opens_it_writes_in_turn(tmp_path: Path) -> None:
    """A transaction takes its lock when it begins: two that read first could not both write."""
    with store.Store(tmp_path / "r.sqlite") as one, store.Store(tmp_path / "r.sqlite") as two:
        two._database.execute("PRAGMA busy_timeout = 0")
        with one._transaction(), pytest.raises(OSError, match="is locked"), two._transaction():
            raise AssertionError("both have begun")


def test_two_that_write_leave_one_file_when_the_last_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with store.Store(path) as one:
        one.enter(make_plan(POLICIES_ONLY))
        with store.Store(path):
            assert (tmp_path / "r.sqlite-wal").exists()
        assert (tmp_path / "r.sqlite-wal").exists()
        # Readers do not wait for writers, nor the other way round.
        with one._transaction():
            assert {trial.experiment for trial in read_results(path)} == {"tiny"}
    assert os.listdir(tmp_path) == ["r.sqlite"]
    # The header's versions of writing and reading: 1 needs no log, 2 does.
    assert path.read_bytes()[18:20] == b"\x01\x01"


@pytest.fixture
def public(tiny_results: Path) -> Iterator[Path]:
    """A copy where everybody may read and only its owner write."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copy(tiny_results, folder))


def by_nobody(action: Callable[[], object]) -> str:
    """What an action returns or raises in a process that may write nowhere."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            answer = str(action())
        except Exception as error:  # noqa: BLE001 (told to the parent)
            answer = "".join(traceback.format_exception_only(error))
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        answer = stream.read()
    os.waitpid(pid, 0)
    return answer.strip()


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_finished_file_is_read_where_nothing_can_be_written(public: Path) -> None:
    def read() -> int:
        return len(read_results(public))

    if os.geteuid() != 0:
        public.parent.chmod(0o555)
    try:
        assert os.listdir(public.parent) == [public.name]
        assert by_nobody(read) == "16"
        assert "readonly" in by_nobody(lambda: run_experiment(POLICIES_ONLY, public))
    finally:
        public.parent.chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="the writer must be somebody else")
def test_files_left_in_the_middle_are_read_or_explained(public: Path) -> None:
    def read() -> int:
        return len(read_results(public))

    # As files were left before, and as they are where a reader was there to the end.
    with contextlib.closing(sqlite3.connect(public, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
    assert by_nobody(read) == "16"
    with contextlib.closing(sqlite3.connect(public, isolation_level=None)) as writer:
        writer.execute("DELETE FROM members WHERE position = 0")
        assert by_nobody(read) == "15"
        moved = public.parent / "moved.sqlite"
        for suffix in ("", "-wal"):
            shutil.copy(f"{public}{suffix}", f"{moved}{suffix}")
        # Without its log the file would show a place that is no longer there.
        said = by_nobody(lambda: len(read_results(moved)))
        assert "cannot be read without moved.sqlite-wal: copy both" in said


def test_what_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path(os.devnull)):
        with pytest.raises(FileFormatError, match="no regular file"):
            read_results(path)
        with pytest.raises(FileFormatError, match="no regular file"):
            run_experiment(POLICIES_ONLY, path)


def test_an_error_message_that_no_text_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **options: Any) -> None:
        raise ValueError("half a character: \ud800")

    monkeypatch.setattr("online.comparison.running.simulate", broken)
    experiment: Experiment = dataclasses.replace(POLICIES_ONLY, policies=["fcfs"])
    assert run_experiment(experiment, tmp_path / "r.sqlite").failed == 4
    (error,) = {trial.reason for trial in read_results(tmp_path / "r.sqlite")}
    assert error == "ValueError: half a character: \\ud800"


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_format_of_another_release(copy: Path, version: int) -> None:
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as database:
        database.execute(f"PRAGMA user_version = {version}")
    assert_refused(copy, f"has format version {version}; this release reads 2")


def test_reading_changes_nothing(copy: Path, tmp_path: Path) -> None:
    """Not even what a killed writer left in the log is moved into the file."""
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("DELETE FROM members WHERE position = 0")
        left = tmp_path / "left.sqlite"
        for suffix in ("", "-wal"):
            shutil.copy(f"{copy}{suffix}", f"{left}{suffix}")
    files = [left, left.with_name("left.sqlite-wal")]
    before = [file.read_bytes() for file in files]
    assert len(read_results(left)) == 15
    assert [file.read_bytes() for file in files] == before
    with store.open_for_reading(left) as database, pytest.raises(sqlite3.OperationalError):
        database.execute("DELETE FROM members")

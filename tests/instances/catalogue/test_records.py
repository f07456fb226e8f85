"""Records in a folder: the better half counts, nothing is lost, no other instance's is taken."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from instances import FileFormatError, InvalidValueError, Record, RecordStore, library

ENTRY = library()["worst-n3-00"]
FIRST, SECOND = ((f"2026-01-0{day}", f"method {day}", "0") for day in (1, 2))
"""Date, method and version."""


pytestmark = pytest.mark.usefixtures("no_package")


def record(upper: int, lower: int, credit: tuple[str, str, str] = FIRST) -> Record:
    rounds = {"start_times": [0] * ENTRY.n}
    return Record(ENTRY, upper, rounds, lower, "output lengths", *credit)


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    """A folder of one's own."""
    return RecordStore(tmp_path / "own")


def reread(tmp_path: Path) -> Record:
    """Read the record in that folder anew."""
    found = RecordStore(tmp_path / "own").record(ENTRY)
    assert found is not None
    return found


def test_what_is_put_is_there_for_others(tmp_path: Path, store: RecordStore) -> None:
    assert store.record(ENTRY) is None
    put = store.put(record(90, 80), b"proof")
    again = reread(tmp_path)
    assert (again.upper_bound, again.lower_bound, again.status) == (90, 80, "open")
    assert again.certificate == put.certificate
    assert again.certificate is not None
    assert again.certificate.read_bytes() == b"proof"
    assert (again.interval, again.date, again.method) == ("[80, 90]", "2026-01-01", "method 1")


def test_each_half_is_kept_where_it_is_better(tmp_path: Path, store: RecordStore) -> None:
    store.put(record(90, 80), b"first")
    worse = store.put(record(95, 70, SECOND), b"worse")
    assert (worse.upper_bound, worse.lower_bound, worse.method) == (90, 80, "method 1")
    path = tmp_path / "own" / "certificates" / f"{ENTRY.name}.json.xz"
    assert path.read_bytes() == b"first"
    half = store.put(record(88, 79, SECOND))
    assert (half.upper_bound, half.lower_bound) == (88, 80)
    assert (half.date, half.method) == SECOND[:2]
    assert half.certified
    closed = store.put(record(99, 88, SECOND), b"second")
    assert (closed.status, closed.method) == ("closed", "method 2")
    assert path.read_bytes() == b"second"


def test_of_equal_bounds_the_certified_one_is_kept(tmp_path: Path, store: RecordStore) -> None:
    store.put(record(90, 80))
    kept = store.put(record(90, 80, SECOND), b"proof")
    assert (kept.certified, kept.method) == (True, "method 2")
    assert kept.certificate is not None
    assert kept.certificate.read_bytes() == b"proof"
    assert store.put(record(90, 80)).certified


def test_bounds_that_contradict_those_known_are_not_kept(
    tmp_path: Path, store: RecordStore
) -> None:
    store.put(record(90, 80))
    for wrong in (record(79, 70), record(99, 91)):
        with pytest.raises(InvalidValueError, match="contradict"):
            store.put(wrong, b"wrong")
    kept = reread(tmp_path)
    assert (kept.interval, kept.certified) == ("[80, 90]", False)
    assert not (tmp_path / "own" / "certificates").exists()


def test_attempts_are_counted_as_far_as_they_are_read(tmp_path: Path, store: RecordStore) -> None:
    store.put(record(90, 80).tried(2**53 + 1))
    assert reread(tmp_path).attempts == 2**53


def test_a_record_of_another_digest_is_none(tmp_path: Path, store: RecordStore) -> None:
    store.put(record(90, 80))
    path = tmp_path / "own" / "records" / "worst.json"
    path.write_text(path.read_text("utf-8").replace(ENTRY.digest, "0" * 64), "utf-8")
    fresh = RecordStore(tmp_path / "own")
    assert fresh.record(ENTRY) is None
    assert fresh.stale(ENTRY) == "0" * 64


def test_what_another_process_wrote_stays(tmp_path: Path) -> None:
    one, other = RecordStore(tmp_path / "own"), RecordStore(tmp_path / "own")
    assert one.record(ENTRY) is None
    entry = library()["worst-n7-00"]
    found = Record(entry, 9, {"start_times": [0] * 7}, 8, "output lengths", *FIRST)
    other.put(found)
    one.put(record(90, 80))
    fresh = RecordStore(tmp_path / "own")
    assert fresh.record(entry) is not None
    assert fresh.record(ENTRY) is not None


def test_a_killed_write_leaves_the_record_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: RecordStore
) -> None:
    store.put(record(90, 80), b"first")
    replace = os.replace

    def killed(written: str, path: Path) -> None:
        if path.suffix == ".json":
            raise KeyboardInterrupt
        replace(written, path)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        store.put(record(85, 84, SECOND), b"second")
    fresh = reread(tmp_path)
    # Its certificate proves more than it says.
    assert (fresh.upper_bound, fresh.lower_bound) == (90, 80)
    assert (tmp_path / "own" / "certificates" / f"{ENTRY.name}.json.xz").read_bytes() == b"second"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"upper_bound": "90"}, "whole number"),
        ({"upper_bound": -1}, "is below 0"),
        ({"lower_bound": 1.5}, "whole number"),
        ({"schedule": {}}, "unpack"),
        ({"schedule": {"start_times": 3}}, "not a list"),
        ({"upper_bound": 0, "lower_bound": 0}, "not the cost of a schedule"),
        ({"lower_bound": 91}, "lower_bound = 91 is above 90"),
        ({"attempts": 2.0}, "whole number"),
        ({"attempts": -1}, "below 0"),
        ({"date": 5}, "not a string"),
        ({"method": ["x"]}, "not a string"),
        ({"method": "\x1b[2J"}, "control character"),
        ({"proof": ["prices"]}, "not a string"),
    ],
)
def test_a_damaged_record_is_one_line(
    tmp_path: Path, change: dict[str, object], match: str
) -> None:
    RecordStore(tmp_path / "own").put(record(90, 80))
    path = tmp_path / "own" / "records" / "worst.json"
    document = json.loads(path.read_text("utf-8"))
    document["records"][ENTRY.name] |= change
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(FileFormatError, match=rf"record of {ENTRY.name}.*{match}"):
        RecordStore(tmp_path / "own").record(ENTRY)
    del document["records"][ENTRY.name]["schedule"]
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(FileFormatError, match=rf"record of {ENTRY.name} lacks 'schedule'"):
        RecordStore(tmp_path / "own").record(ENTRY)


def test_a_schedule_is_read_by_its_goal() -> None:
    def schedule(name: str, rounds: dict[str, list[object]]) -> Any:
        return Record(library()[name], 2, rounds, 1, "output lengths", *FIRST).schedule

    starts = [0, 100, 200]
    assert schedule(ENTRY.name, {"start_times": starts}).start_times.tolist() == starts
    name = "preemptive-j25-m1-n10-00"
    lengths = library()[name].instance.output_lengths.tolist()
    stretches = [[[1, 1], [3, o + 1]] if o > 1 else [[2, 2]] for o in lengths]
    found = schedule(name, {"stretches": stretches})
    assert [[list(one) for one in own] for own in found.stretches] == stretches
    with pytest.raises(FileFormatError, match="not a schedule for"):
        schedule(name, {"start_times": [0] * len(lengths)})
    name = "seconds-azure-code-n20-00"
    work = library()[name].instance
    prompts, outputs = work.prompt_lengths.tolist(), work.output_lengths.tolist()
    rows = [[i, 1, outputs[i], -1, 0, prompts[i]] for i in range(len(outputs))]
    found = schedule(name, {"stretches_in_seconds": rows})
    assert (found.rounds.tolist(), found.prompt_left.tolist()) == (outputs, prompts)


def test_bounds_in_seconds_are_shown_outward_to_a_microsecond() -> None:
    entry = library()["seconds-azure-code-n20-00"]
    shown = Record(entry, 2.00000049, {}, 1.00000051, "mean busy times", *FIRST)
    assert shown.interval == "[1.000000, 2.000001]"


def test_seconds_beyond_any_clock_are_refused(tmp_path: Path) -> None:
    """Shown to a microsecond they would be no number."""
    entry = next(one for one in library() if one.goal == "seconds")
    rounds: dict[str, list[object]] = {"stretches_in_seconds": []}
    folder = tmp_path / "own"
    RecordStore(folder).put(Record(entry, 2.0, rounds, 1.0, "mean busy times", *FIRST))
    path = folder / "records" / f"{entry.set}.json"
    path.write_text(path.read_text("utf-8").replace(":2.0", ":1e308"), "utf-8")
    with pytest.raises(FileFormatError, match="is above"):
        RecordStore(folder).record(entry)

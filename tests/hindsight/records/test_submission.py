"""What others hand in: taken where it is better, refused with the reason where it does not hold."""

from __future__ import annotations

import json
import lzma
import os
import shutil
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from library_records import OPEN, bare_record, change, listed_record

import hindsight
from hindsight import make_certificate
from hindsight.records.submission import submit
from hindsight.records.verification import RefusedRecordError, verify_record
from instances import (
    FileFormatError,
    Instance,
    InvalidValueError,
    KnownBounds,
    PreemptiveSchedule,
    RecordStore,
    Schedule,
    library,
    save,
    save_schedule,
)
from instances.problem.json_io import to_document

ENTRY = library(OPEN)

pytestmark = pytest.mark.usefixtures("no_package")


@pytest.fixture
def store(tmp_path: Path) -> RecordStore:
    """A folder of one's own."""
    return RecordStore(tmp_path / "own")


def in_turn(instance: Instance) -> Schedule:
    """One after the other, in order of arrival."""
    starts, now = [0] * len(instance), 0
    for index in sorted(range(len(instance)), key=lambda i: instance[i].arrival_time):
        starts[index] = now = max(now, instance[index].arrival_time)
        now += instance[index].output_length
    return Schedule(instance, starts)


def saved(tmp_path: Path, schedule: Schedule | PreemptiveSchedule) -> Path:
    path = tmp_path / "schedule.json"
    save_schedule(schedule, path)
    return path


def certificate(tmp_path: Path, schedule: Schedule | PreemptiveSchedule, **entries: Any) -> Path:
    document = {**make_certificate(schedule, None), **entries}
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


def test_a_schedule_is_taken_where_it_is_better(tmp_path: Path, store: RecordStore) -> None:
    slow = saved(tmp_path, in_turn(ENTRY.problem))
    (gain,) = submit(slow, store, by="A. Person")
    assert gain.improves
    assert gain.before is None
    assert gain.after.upper_bound == in_turn(ENTRY.problem).total_latency
    assert gain.after.found.method == "submitted by A. Person"
    assert verify_record(ENTRY, store).kind == "open"
    _, listed = bare_record(store)
    assert listed.upper_bound < gain.after.upper_bound
    (again,) = submit(slow, store)
    assert not again.improves
    assert again.found == f"a schedule of {in_turn(ENTRY.problem).total_latency}"
    assert store.record(ENTRY).upper_bound == listed.upper_bound  # type: ignore[union-attr]


def test_an_infeasible_schedule_is_refused_with_the_round(tmp_path: Path) -> None:
    path = saved(tmp_path, Schedule(ENTRY.problem, ENTRY.problem.arrival_times))
    with pytest.raises(RefusedRecordError, match=r"infeasible: .*round"):
        submit(path, RecordStore(tmp_path / "own"))
    assert not (tmp_path / "own").exists()


def test_a_schedule_of_no_instance_is_refused(tmp_path: Path) -> None:
    own = Instance.from_arrays([1], [3], memory_limit=9)
    path = saved(tmp_path, Schedule(own, [0]))
    with pytest.raises(RefusedRecordError, match="which no instance of the library has"):
        submit(path, RecordStore(tmp_path / "own"))
    other = saved(tmp_path, in_turn(ENTRY.problem))
    with pytest.raises(RefusedRecordError, match="and worst-n3-00 has 1a30fe0f22f37b71"):
        submit(other, RecordStore(tmp_path / "own"), library("worst-n3-00"))


def test_a_schedule_counts_for_every_goal_of_its_instance(tmp_path: Path) -> None:
    """Without preemption it is a schedule that may preempt; the other way round it is none."""
    plain, preemptive = library("j25-m1-n10-00"), library("preemptive-j25-m1-n10-00")
    store = RecordStore(tmp_path / "own")
    gains = submit(saved(tmp_path, in_turn(plain.problem)), store)
    assert [gain.entry for gain in gains] == [plain, preemptive]
    assert {gain.after.upper_bound for gain in gains} == {in_turn(plain.problem).total_latency}
    both = [verify_record(entry, store).kind for entry in (plain, preemptive)]
    assert both == ["open", "open"]
    starts = in_turn(plain.problem).start_times.tolist()
    rounds = zip(starts, plain.problem.output_lengths.tolist(), strict=True)
    stretches = [[[t + 1, t + o]] for t, o in rounds]
    path = saved(tmp_path, PreemptiveSchedule(plain.problem, stretches))
    assert [gain.entry for gain in submit(path, store)] == [preemptive]


def test_a_schedule_for_a_service_level_counts_late_requests(tmp_path: Path) -> None:
    entry, store = library("service-j25-m1-n20-00"), RecordStore(tmp_path / "own")
    assert entry.level is not None
    schedule = in_turn(entry.problem)
    (gain,) = submit(saved(tmp_path, schedule), store)
    assert gain.after.upper_bound == entry.n - schedule.on_time(entry.level).sum()
    assert verify_record(entry, store).kind == "open"
    found = certificate(tmp_path, schedule)
    with pytest.raises(RefusedRecordError, match="no instance of the library has the goal"):
        submit(found, store)


def test_a_certificate_is_taken_where_it_proves_more(tmp_path: Path, store: RecordStore) -> None:
    bare_record(store)
    path = certificate(tmp_path, in_turn(ENTRY.problem))
    (gain,) = submit(path, store)
    assert gain.improves
    assert gain.before is not None
    assert gain.after.lower_bound > gain.before.lower_bound
    assert gain.after.upper_bound == gain.before.upper_bound
    assert gain.after.certified
    assert verify_record(ENTRY, store).has_certificate
    packed = tmp_path / "certificate.json.xz"
    packed.write_bytes(lzma.compress(path.read_bytes()))
    (again,) = submit(packed, store)
    assert not again.improves


def test_a_certificate_that_does_not_hold_is_refused(tmp_path: Path, store: RecordStore) -> None:
    schedule = in_turn(ENTRY.problem)
    path = certificate(tmp_path, schedule, lower_bound=schedule.total_latency)
    with pytest.raises(RefusedRecordError, match="the certificate does not hold: lower_bound is"):
        submit(path, store)
    path = certificate(tmp_path, schedule, lower_bound=None)
    with pytest.raises(FileFormatError, match="whole number"):
        submit(path, store)


def test_bounds_that_contradict_those_known_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: RecordStore
) -> None:
    """By a checker that believes anything: the record known stays."""
    _, known = listed_record(store)
    path = certificate(tmp_path, in_turn(ENTRY.problem))
    wrong = known.upper_bound + 1
    monkeypatch.setattr(
        "hindsight.records.submission.certified_bound", lambda *_: (wrong, "memory-prices")
    )
    with pytest.raises(RefusedRecordError, match="contradict those known"):
        submit(path, store)


@pytest.mark.parametrize(
    ("tampered", "reason"),
    [
        ({"lower_bound": 1, "upper_bound": 1}, "upper bound is 1, the schedule has"),
        ({"certificate": False}, "has no certificate, and by output lengths it is"),
    ],
)
@pytest.mark.parametrize("of", [saved, certificate])
def test_a_record_that_does_not_hold_is_blamed_and_not_what_is_handed_in(
    tmp_path: Path,
    of: Callable[[Path, Schedule], Path],
    tampered: dict[str, object],
    reason: str,
) -> None:
    listed_record(RecordStore(tmp_path / "own"))
    change(tmp_path / "own", **tampered)
    path = of(tmp_path, in_turn(ENTRY.problem))
    blamed = f"^the record known of {OPEN} does not hold: .*{reason}"
    with pytest.raises(RefusedRecordError, match=blamed):
        submit(path, RecordStore(tmp_path / "own"))


@pytest.mark.parametrize("of", [saved, certificate])
def test_a_bound_whose_certificate_is_not_installed_is_taken_as_it_is(
    tmp_path: Path, store: RecordStore, no_package: Path, of: Callable[[Path, Schedule], Path]
) -> None:
    """A wheel has records without certificates."""
    _, known = listed_record(RecordStore(no_package))
    shutil.rmtree(no_package / "certificates")
    (gain,) = submit(of(tmp_path, in_turn(ENTRY.problem)), store)
    assert not gain.improves
    assert gain.after.interval == known.interval


def test_a_schedule_below_a_claim_refutes_it(tmp_path: Path, store: RecordStore) -> None:
    """A claim is no proof: the schedule, which is checked, stays."""
    schedule = in_turn(ENTRY.problem)
    submit(saved(tmp_path, schedule), store)
    known = store.record(ENTRY)
    assert known is not None
    wrong = known.upper_bound
    store.put(known.claiming(wrong, known.found))
    shifted = Schedule(ENTRY.problem, hindsight.solve(ENTRY.problem, 0.5).schedule.start_times)
    assert shifted.total_latency < wrong
    (gain,) = submit(saved(tmp_path, shifted), store)
    assert gain.improves
    assert gain.refuted_claim == wrong
    assert gain.after.claimed_bound is None
    assert verify_record(ENTRY, RecordStore(tmp_path / "own")).kind == "open"
    # As one that is claimed now does.
    assert store.put(gain.after.claiming(wrong, known.found)).claimed_bound is None


def test_a_solution_of_another_solver(tmp_path: Path) -> None:
    schedule = in_turn(ENTRY.problem)
    lines = [f"x({i}_{t}) 1" for i, t in enumerate(schedule.start_times.tolist())]
    path = tmp_path / "model.sol"
    path.write_text("# Objective value = " + f"{schedule.total_latency}\n" + "\n".join(lines))
    store = RecordStore(tmp_path / "own")
    with pytest.raises(FileFormatError, match="does not name its instance"):
        submit(path, store)
    (gain,) = submit(path, store, ENTRY)
    assert gain.after.upper_bound == schedule.total_latency
    path.write_text("\n".join(lines[1:]))
    with pytest.raises(FileFormatError):
        submit(path, store, ENTRY)
    at_once = enumerate(ENTRY.problem.arrival_times.tolist())
    path.write_text("\n".join(f"x({i}_{t}) 1" for i, t in at_once))
    with pytest.raises(RefusedRecordError, match=r"is no schedule of this instance: .*round"):
        submit(path, store, ENTRY)


@pytest.mark.parametrize("kind", ["schedule", "marked", "certificate", "packed", "solution"])
def test_a_pipe_is_read_once(kind: str, tmp_path: Path) -> None:
    schedule = in_turn(ENTRY.problem)
    starts = enumerate(schedule.start_times.tolist())
    proved = certificate(tmp_path, schedule).read_bytes()
    written = saved(tmp_path, schedule).read_bytes()
    content = {
        "schedule": written,
        "marked": BOM_UTF8 + b"\n" * 9 + written,
        "certificate": b" " * 9 + proved,
        "packed": lzma.compress(proved),
        "solution": "\n".join(f"x({i}_{t}) 1" for i, t in starts).encode(),
    }[kind]
    reading, writing = os.pipe()
    try:
        with open(writing, "wb") as stream:
            stream.write(content)
        (gain,) = submit(f"/dev/fd/{reading}", RecordStore(tmp_path / "own"), ENTRY)
    finally:
        os.close(reading)
    assert gain.after.upper_bound == schedule.total_latency


def test_of_an_instance_with_known_bounds_the_schedule_counts(
    tmp_path: Path, store: RecordStore
) -> None:
    schedule = in_turn(ENTRY.problem)
    total = schedule.total_latency
    starts = tuple(schedule.start_times.tolist())
    solved = KnownBounds(total, total, total, starts).attached_to(ENTRY.problem)
    path = tmp_path / "solved.json"
    save(solved, path)
    (gain,) = submit(path, store)
    assert (gain.improves, gain.after.upper_bound) == (True, total)
    # Whoever writes a bound there has not proved it.
    assert gain.after.lower_bound < total
    other = Instance.from_arrays([1], [3], memory_limit=9)
    save(KnownBounds(3, 3, 3, (0,)).attached_to(other), path)
    with pytest.raises(RefusedRecordError, match="which no instance of the library has"):
        submit(path, store)
    save(solved, path)
    path.write_text(path.read_text("utf-8").replace(f'"upper_bound": {total}', '"upper_bound": 1'))
    with pytest.raises(RefusedRecordError, match=f"the start times' total latency {total}"):
        submit(path, store)


def test_whom_a_record_names_is_somebody(tmp_path: Path) -> None:
    path = saved(tmp_path, in_turn(ENTRY.problem))
    with pytest.raises(InvalidValueError, match="by = ' ' names nobody"):
        submit(path, RecordStore(tmp_path / "own"), by=" ")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (to_document(ENTRY.problem), "no schedule is among its known bounds"),
        ({"format": "x"}, "neither a schedule nor a certificate, but 'x'"),
        ({"start_times": [0]}, "neither a schedule nor a certificate, and names no format"),
    ],
)
def test_what_is_none_of_these_is_no_submission(
    tmp_path: Path, document: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(FileFormatError, match=reason):
        submit(path, RecordStore(tmp_path / "own"))


@pytest.mark.parametrize("name", ["seconds-azure-conv-n20-00", "service-j25-m1-n20-00"])
def test_no_solution_is_read_in_seconds_or_of_late_requests(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.sol"
    path.write_text("x(0_0) 1\n")
    with pytest.raises(RefusedRecordError, match="in rounds that serve everybody"):
        submit(path, RecordStore(tmp_path / "own"), library(name))

"""Records verified: what was tampered with is refused, with the reason."""

from __future__ import annotations

import json
import lzma
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_records import OPEN, bare_record, change, listed_record, records_file
from tiny_problems import most_on_time

from hindsight.certificates import limits
from hindsight.records.verification import (
    RecordVerdict,
    check_schedule,
    closed_form_bound,
    fits_two_rounds,
    late_by_volume,
    verify_record,
)
from instances import Instance, RecordStore, ServiceLevel, library
from instances.service_level import limits_of
from online import simulate

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.usefixtures("no_package")


def verdict(folder: Path, name: str = OPEN) -> RecordVerdict:
    return verify_record(library()[name], RecordStore(folder))


def test_a_record_with_a_certificate_and_one_without(tmp_path: Path) -> None:
    _, record = listed_record(RecordStore(tmp_path / "proved"))
    found = verdict(tmp_path / "proved")
    assert (found.kind, found.proof) == ("open", "memory-prices")
    assert (found.lower_bound, found.upper_bound) == (record.lower_bound, record.upper_bound)
    bare_record(RecordStore(tmp_path / "bare"))
    found = verdict(tmp_path / "bare")
    assert (found.kind, found.proof) == ("open", "output lengths")
    assert verdict(tmp_path / "empty").kind == "none"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"starts": lambda starts: [0] * len(starts)}, "the schedule is infeasible: "),
        ({"starts": lambda starts: [*starts[:-1], 10**6]}, "is {upper}, the schedule has"),
        ({"starts": lambda starts: starts[:-1]}, "the schedule is not valid"),
        ({"schedule": {"stretches": [1]}}, "is not a schedule for total_latency"),
        ({"lower_bound": 1}, "its certificate proves {lower}"),
        ({"upper_bound": -1}, "upper bound is"),
        ({"lower_bound": 10**3}, "is above {upper}"),
        ({"lower_bound": 1, "certificate": False}, "no certificate, and by output lengths"),
        ({"proof": "any text"}, "the proof is memory-prices, not any text"),
        ({"digest": "0" * 64}, "the record is of digest 00000000"),
    ],
)
def test_a_tampered_record_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    """Numbers are added to those of the record."""
    _, record = listed_record(RecordStore(tmp_path))
    changes = dict(changes)
    if "starts" in changes:
        starts = changes.pop("starts")(record.rounds["start_times"])
        changes["schedule"] = {"start_times": starts}
    for name in {"lower_bound", "upper_bound"} & set(changes):
        changes[name] += getattr(record, name)
    change(tmp_path, **changes)
    expected = reason.format(lower=record.lower_bound, upper=record.upper_bound)
    assert expected in verdict(tmp_path).reason
    records_file(tmp_path).write_text('{"format": ', "utf-8")
    assert verdict(tmp_path).kind == "refused"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("records/worst.json", "worst.json: cannot be read: Is a directory"),
        (f"certificates/{OPEN}.json.xz", "certificate: Is a directory"),
    ],
)
def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path, place: str, reason: str) -> None:
    listed_record(RecordStore(tmp_path))
    (tmp_path / place).unlink()
    (tmp_path / place).mkdir()
    assert reason in verdict(tmp_path).reason


def test_a_tampered_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, record = listed_record(RecordStore(tmp_path))
    path = record.certificate
    assert path is not None
    document = json.loads(lzma.decompress(path.read_bytes()))

    def reason(**entries: Any) -> str:
        text = json.dumps({**document, **entries})
        path.write_bytes(lzma.compress(text.encode()))
        return verdict(tmp_path).reason

    assert reason() == ""
    claims = reason(lower_bound=document["lower_bound"] + 1)
    assert claims.startswith("certificate: lower_bound is ")
    assert "proves no more than" in claims
    assert "its certificate proves" in reason(lower_bound=document["lower_bound"] - 1)
    other = {**document["instance"], "memory_limit": 10**4}
    assert "certificate: digest does not belong" in reason(instance=other)
    listed_record(RecordStore(tmp_path), "worst-n3-00")
    theirs = tmp_path / "certificates" / "worst-n3-00.json.xz"
    path.write_bytes(theirs.read_bytes())
    assert verdict(tmp_path).reason == "the certificate is for another instance"
    path.write_bytes(theirs.read_bytes()[:-20])
    assert "cut off" in verdict(tmp_path).reason
    path.write_bytes(b"\xfd7zXZ\x00 nothing")
    assert "is not compressed by xz" in verdict(tmp_path).reason
    monkeypatch.setattr(limits, "LARGEST_FILE", 10**4)
    path.write_bytes(lzma.compress(bytes(10**4 + 1)))
    assert "is larger than 10000 bytes" in verdict(tmp_path).reason
    path.unlink()
    assert verdict(tmp_path).reason == "certificate: No such file or directory"


def test_certificates_are_of_the_optimum_that_is_meant(tmp_path: Path) -> None:
    """The same requests: a bound without preemption says nothing of the optimum with it."""
    _, plain = listed_record(RecordStore(tmp_path), "j25-m1-n10-00")
    assert plain.certificate is not None
    name = "preemptive-j25-m1-n10-00"
    assert library()[name].digest == plain.entry.digest
    path = records_file(tmp_path, name)
    rounds = [
        [[s + 1, s + o]]
        for s, o in zip(
            plain.rounds["start_times"],
            library()[name].instance.output_lengths.tolist(),
            strict=True,
        )
    ]
    record = json.loads(records_file(tmp_path, "j25-m1-n10-00").read_text("utf-8"))
    own = {**record["records"]["j25-m1-n10-00"], "schedule": {"stretches": rounds}}
    path.write_text(json.dumps({**record, "set": "preemptive", "records": {name: own}}), "utf-8")
    (path.parents[1] / "certificates" / f"{name}.json.xz").write_bytes(
        plain.certificate.read_bytes()
    )
    reason = verdict(tmp_path, name).reason
    assert reason == "the certificate is for the optimum without preemption"


@pytest.mark.parametrize(
    ("peaks", "limit"),
    [
        ([3, 3, 3, 3], 6),
        ([3, 3, 2], 4),
        ([5, 5, 2], 6),
        ([5, 4, 3], 6),
        ([7, 7], 7),
        ([6, 5, 5, 5, 5], 13),
    ],
)
def test_two_rounds_hold_them_or_not(peaks: list[int], limit: int) -> None:
    """By every way to choose the first round."""
    instance = Instance.from_arrays([p - 1 for p in peaks], [1] * len(peaks), memory_limit=limit)
    fits = any(
        sum(p for k, p in enumerate(peaks) if chosen >> k & 1) <= limit
        and sum(p for k, p in enumerate(peaks) if not chosen >> k & 1) <= limit
        for chosen in range(1 << len(peaks))
    )
    assert fits_two_rounds(instance) is fits


SERVICE = "service-j25-m1-n20-00"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"upper_bound": 7}, "upper bound is 7, the schedule has 8"),
        ({"lower_bound": 8}, "lower bound 8 has no certificate, and by volume it is 7"),
        ({"proof": "requests late alone"}, "the proof is volume, not requests late alone"),
    ],
)
def test_late_requests_are_counted_anew(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    path = records_file(tmp_path, SERVICE)
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / "instances" / "catalogue" / "records" / "service.json", path)
    document = json.loads(path.read_text("utf-8"))
    document["records"][SERVICE] |= changes
    path.write_text(json.dumps(document), "utf-8")
    assert verdict(tmp_path, SERVICE).reason == reason


@pytest.mark.parametrize("seed", range(12))
def test_late_by_volume_is_below_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = (rng.integers(low, high, 5).tolist() for low, high in ((1, 4), (1, 5), (0, 4)))
    prompts, outputs, arrivals = columns
    instance = Instance.from_arrays(prompts, outputs, memory_limit=8, arrival_times=arrivals)
    first = None if seed % 2 else float(rng.integers(2, 9))
    level = ServiceLevel(latency=float(rng.integers(3, 12)), first_token=first)
    late = late_by_volume(instance, limits_of(level, 5))
    assert late <= 5 - most_on_time(instance, level)
    fleet = instance.replaced(replicas=2)
    assert late_by_volume(fleet, limits_of(level, 5)) <= 5 - most_on_time(fleet, level)


def test_late_by_volume_by_hand() -> None:
    """Volumes of 5, 2 and 2 with M = 5; what arrives last has a round of its own."""
    arrays = {"prompt_lengths": [4, 1, 1], "output_lengths": [1, 1, 1], "memory_limit": 5}
    level = limits_of(ServiceLevel(latency=1), 3)
    assert late_by_volume(Instance.from_arrays(**arrays), level) == 1
    assert late_by_volume(Instance.from_arrays(**arrays, arrival_times=[9, 0, 0]), level) == 0
    short = limits_of(ServiceLevel(first_token=0.5), 3)
    assert late_by_volume(Instance.from_arrays(**arrays), short) == 3
    # Volumes of 9 each in rounds 3 .. 5, as the first token has to come in round 3.
    for limit, late in ((8, 0), (5, 1)):
        two = Instance.from_arrays([1, 1], [3, 3], [2, 2], memory_limit=limit)
        assert late_by_volume(two, limits_of(ServiceLevel(first_token=1), 2)) == late


def test_costs_and_closed_forms_of_the_library() -> None:
    late = library()["service-seconds-azure-conv-n30-00"]
    alone = [simulate(late.instance.of([i]), "fcfs").schedule for i in range(late.n)]
    count = sum(not one.on_time(late.level)[0] for one in alone)
    assert closed_form_bound(late) == (count, "requests late alone")
    pairs = library()["reduction-partition-no-n10-00"]
    assert closed_form_bound(pairs) == (3, "no two rounds hold them all")
    seconds = library()["seconds-azure-code-n20-00"]
    assert closed_form_bound(seconds)[1] == "mean busy times"
    for entry in (late, pairs, seconds):
        check_schedule(entry, RecordStore(ROOT / "instances" / "catalogue").record(entry))


def test_verifying_needs_no_solver_and_no_compiler() -> None:
    """Records in rounds and of the makespan, in a process of its own; closed forms in seconds."""
    code = (
        "import sys\n"
        "banned = ('pyomo', 'highspy', 'pulp', 'numba', 'scipy', 'ortools', 'networkx')\n"
        "banned += ('hindsight.solver', 'hindsight.relaxation', 'hindsight.certificates.writing')\n"
        "sys.modules.update(dict.fromkeys(banned))\n"
        "from hindsight.records.verification import closed_form_bound, verify_record\n"
        "from instances import RecordStore, library\n"
        "assert all(verify_record(one, RecordStore()).reason == '' for one in "
        "library().matching('worst-n7-*'))\n"
        "for name in ('seconds-azure-code-n20-00', 'reduction-partition-no-n10-00', "
        "'service-j25-m1-n20-00', 'service-seconds-azure-conv-n30-00'):\n"
        "    closed_form_bound(library()[name])\n"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr

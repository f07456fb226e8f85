"""Results of solves as records."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from library_records import OPEN, bare_record

import hindsight
from hindsight.certificates.seconds_proof import proved_seconds
from hindsight.prices.minorants import affine_minorants
from hindsight.prices.round_lengths import RoundLengthPrices, SecondsProof, Shares
from hindsight.records import improvement
from hindsight.records.improvement import compressed, record_of
from hindsight.records.verification import RefusedRecordError, verify_record
from instances import (
    InvalidValueError,
    LibraryEntry,
    Record,
    RecordStore,
    Schedule,
    ServiceLevel,
    Workload,
    library,
)

ENTRY = library()[OPEN]


def take_result(
    entry: LibraryEntry, result: hindsight.Result, store: RecordStore, **credit: Any
) -> Record:
    return store.put(*record_of(entry, result, store.record(entry), **credit))


pytestmark = pytest.mark.usefixtures("no_package")


def test_a_result_closes_a_record(tmp_path: Path) -> None:
    store = RecordStore(tmp_path)
    _, before = bare_record(store)
    result = hindsight.solve(ENTRY.instance)
    after = take_result(ENTRY, result, store, method="a long solve")
    assert after.lower_bound > before.lower_bound
    assert (after.status, after.upper_bound) == ("closed", result.upper_bound)
    assert after.method == "a long solve"
    verdict = verify_record(ENTRY, store)
    assert verdict.kind == "closed"
    assert take_result(ENTRY, result, store).interval == after.interval


def test_a_certificate_becomes_a_record(tmp_path: Path) -> None:
    store, result = RecordStore(tmp_path), hindsight.solve(ENTRY.instance)
    document = hindsight.make_certificate(result.schedule, result.proof)
    after = store.put(*record_of(ENTRY, document, method="elsewhere"))
    assert (after.certified, after.method) == (True, "elsewhere")
    assert (after.lower_bound, after.upper_bound) == (document["lower_bound"], result.upper_bound)
    assert verify_record(ENTRY, store).kind == after.status
    with pytest.raises(RefusedRecordError, match="another instance"):
        record_of(library()["worst-n7-01"], document)
    entry = library()["seconds-azure-code-n20-00"]
    other = hindsight.make_certificate(hindsight.relax(cast(Workload, entry.instance), 0).schedule)
    with pytest.raises(RefusedRecordError, match="has no schedule"):
        record_of(entry, other)


def test_a_result_of_another_instance_or_goal_is_refused(tmp_path: Path) -> None:
    result = hindsight.solve(library()["worst-n3-00"].instance)
    with pytest.raises(InvalidValueError, match="is not a result of"):
        take_result(ENTRY, result, RecordStore(tmp_path))
    makespan = replace(hindsight.solve(ENTRY.instance), goal="makespan")
    with pytest.raises(InvalidValueError, match="for total_latency"):
        take_result(ENTRY, makespan, RecordStore(tmp_path))
    early = Schedule(ENTRY.instance, ENTRY.instance.arrival_times)
    broken = replace(hindsight.solve(ENTRY.instance), schedule=early, proof=None)
    with pytest.raises((InvalidValueError, RefusedRecordError), match="infeasible"):
        take_result(ENTRY, broken, RecordStore(tmp_path))


def priced_result(entry: LibraryEntry) -> hindsight.Result:
    """A result whose prices, all 0, prove the requests' own time."""
    workload = cast(Workload, entry.instance)
    result = hindsight.relax(workload, time_limit=0)
    (minorant,) = affine_minorants(workload.batch_time, workload.memory_limit)
    none = np.zeros(len(workload), dtype=np.int64)
    levels = np.zeros(4), Shares(none, none, np.zeros(0))
    prices = RoundLengthPrices(0.5, np.zeros(4), np.zeros(4), levels)
    return replace(result, proof=SecondsProof(prices, minorant, np.ones(len(workload))))


def test_a_record_in_seconds_has_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, store = library()["seconds-azure-code-n20-00"], RecordStore(tmp_path)
    result = priced_result(entry)

    def poor(workload: Workload, time: Any, part: Any, *rest: Any) -> Fraction:
        if part["kind"] == "machine-bounds":
            return Fraction(1)
        return proved_seconds(workload, time, part, *rest)

    monkeypatch.setattr("hindsight.certificates.seconds_proof.proved_seconds", poor)
    monkeypatch.setattr(improvement.verification, "closed_form_bound", lambda _: (1.0, "own time"))
    after = take_result(entry, result, store)
    assert (after.certified, after.proof) == (True, "round-length-prices")
    own = float(result.bounds["own time"].value)
    assert after.lower_bound == pytest.approx(own)
    verdict = verify_record(entry, store)
    assert (verdict.kind, verdict.proof) == ("open", after.proof)
    assert take_result(entry, result, store).lower_bound == after.lower_bound
    assert after.certificate is not None
    document = hindsight.read_certificate(after.certificate)
    slower = {**document, "batch_time": [0.06, 0.00028, 1.1e-07]}
    after.certificate.write_bytes(compressed(slower))
    assert verify_record(entry, store).reason == "the certificate is for another batch time"
    after.certificate.write_bytes(compressed({**document, "lower_bound": 999.0}))
    assert "proves no more than" in verify_record(entry, store).reason


def test_a_record_with_a_service_level(tmp_path: Path) -> None:
    entry, store = library()["service-w25-mixed-n50-00"], RecordStore(tmp_path)
    assert entry.level is not None
    goals = [hindsight.OnTime(one, "serve") for one in (entry.level, ServiceLevel(latency=9))]
    result, other = (hindsight.solve(entry.instance, 2.0, goal=goal) for goal in goals)
    found = take_result(entry, result, store)
    assert (found.lower_bound, found.proof, found.certified) == (17, "volume", False)
    assert len(found.schedule.latencies) == entry.n
    assert found.upper_bound == (~found.schedule.on_time(entry.level)).sum()
    assert verify_record(entry, RecordStore(tmp_path)).kind == found.status
    with pytest.raises(InvalidValueError, match="is not a result of service-w25-mixed-n50-00"):
        take_result(entry, other, store)

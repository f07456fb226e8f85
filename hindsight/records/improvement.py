"""Creation of library records from results of a solve."""

from __future__ import annotations

import json
import lzma
from datetime import UTC, datetime
from typing import Any

from hindsight.certificates.format import CertificateError
from hindsight.certificates.writing import make_certificate
from hindsight.outcomes.goals import OnTime
from hindsight.outcomes.result import Result
from hindsight.runtime.clock import Clock
from instances import InvalidValueError, LibraryEntry, Record
from instances.catalogue.records import rounds_of
from instances.version import __version__

from . import verification
from .verification import RefusedRecordError, check_schedule

SECONDS_LIMIT = 7.2
"""Time limit, in seconds, for making a certificate of a bound in seconds. Time grids stay coarse:
bounds are up to 0.6 % lower, and all eight such certificates of the library are checked in 7 s."""


def compressed(certificate: dict[str, Any]) -> bytes:
    """Return a certificate as the library stores it: as JSON, compressed with xz."""
    text = json.dumps(certificate, separators=(",", ":")) + "\n"
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def record_of(
    entry: LibraryEntry,
    result: Result,
    known: Record | None = None,
    *,
    method: str = "solve",
    time_limit: float | None = None,
) -> tuple[Record, bytes | None]:
    """Create a record from a result of a solve, and a compressed certificate of its lower bound.

    ``store.put(*record_of(entry, result, store.record(entry)))`` puts those bounds of the result
    that are better into the record of a `RecordStore`.

    A certificate is made and checked if the lower bound of the result exceeds both the certified
    bound of the known record and the closed-form bound of the instance (one from a formula). The
    record then gets the bound that the certificate proves. Otherwise it gets the closed-form bound
    and no certificate.

    Parameters
    ----------
    entry : LibraryEntry
        An entry of the library.
    result : Result
        Result for the instance and goal of the entry; for `OnTime`, with ``late="serve"``.
    known : Record or None, default None
        The present record of the entry; None if there is none.
    method : str, default "solve"
        Method to store with the record.
    time_limit : float or None, default None
        Seconds for making the certificate; see `make_certificate`.

    Raises
    ------
    InvalidValueError
        The result belongs to another instance or another goal.
    RefusedRecordError
        The schedule is infeasible.
    """
    asked = solving_goal(entry)
    found = {name: getattr(result, name) for name in asked}
    if result.problem.digest != entry.digest or found != asked:
        reason = f"is not a result of {entry.name} for {entry.goal}"
        raise InvalidValueError(None, "result", result, reason)
    schedule: Any = result.schedule
    lower, proof = verification.closed_form_bound(entry)
    certificate = None
    verified = lower if known is None or not known.certified else max(lower, known.lower_bound)
    if entry.goal == "seconds":
        schedule = schedule.without_waiting()
        time_limit = min(SECONDS_LIMIT, Clock(time_limit).seconds_left())
    has_certificates = entry.goal not in verification.UNCERTIFIED
    if has_certificates and result.certified_lower_bound > verified:
        search = result.status == "optimal"
        document = make_certificate(schedule, result.proof, search=search, time_limit=time_limit)
        try:
            proved, kind = verification.certified_bound(entry, document)
        except CertificateError as error:
            raise RefusedRecordError(f"certificate: {error}") from error
        if proved > lower:
            lower, proof, certificate = proved, kind, compressed(document)
    credit = (datetime.now(UTC).date().isoformat(), method, __version__)
    upper = verification.cost(schedule, entry)
    record = Record(entry, upper, rounds_of(schedule), lower, proof, *credit)
    check_schedule(entry, record)
    return record, certificate


def solving_goal(entry: LibraryEntry) -> dict[str, Any]:
    """Return the arguments ``goal`` and ``preemption`` of `hindsight.solve` for an entry's goal.

    ``preemption`` is left out if the goal is the number of late requests or the total latency in
    seconds. In seconds, a record may come from a solve with any kind of preemption.
    """
    if entry.level is not None:
        return {"goal": OnTime(entry.level, "serve")}
    if entry.goal == "seconds":
        return {"goal": "latency"}
    preemption = "keep" if entry.goal == "preemptive_total_latency" else "never"
    return {"goal": "makespan" if entry.goal == "makespan" else "latency", "preemption": preemption}

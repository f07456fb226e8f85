"""Creation of library records from results of a solve, or from certificates."""

from __future__ import annotations

import json
import lzma
from datetime import UTC, datetime
from typing import Any

from hindsight.certificates.format import CertificateError
from hindsight.certificates.writing import make_certificate
from hindsight.outcomes.goals import OnTime
from hindsight.outcomes.result import Result
from instances import InvalidValueError, LibraryEntry, Record
from instances.catalogue.records import rounds_of, schedule_of
from instances.version import __version__

from . import verification

SECONDS_LIMIT = 100.0
"""Time limit in seconds for certifying a bound in seconds. The check then takes a few seconds."""


def compressed(certificate: dict[str, Any]) -> bytes:
    """Return a certificate as the library stores it: as JSON, compressed with xz."""
    text = json.dumps(certificate, separators=(",", ":")) + "\n"
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def record_of(
    entry: LibraryEntry,
    result: Result | dict[str, Any],
    known: Record | None = None,
    *,
    method: str = "solve",
    time_limit: float | None = None,
) -> tuple[Record, bytes | None]:
    """Create a record from a result of a solve, and a compressed certificate of its lower bound.

    ``store.put(*record_of(entry, result, store.record(entry)))`` puts those bounds of the result
    that are better into the record of ``store``, a `RecordStore`. A certificate may be given in
    place of the result.

    A certificate is made and checked if the lower bound of the result exceeds both the certified
    bound of the known record and the closed-form bound of the instance (computed by a formula). The
    record then gets the bound that the certificate proves. Otherwise it gets the closed-form bound
    and no certificate.

    Parameters
    ----------
    entry : LibraryEntry
        An entry of the library.
    result : Result or dict
        Result for the instance and goal of the entry; for `OnTime`, with ``late="serve"``. Or a
        certificate, as `read_certificate` returns it. A certificate in seconds has no schedule, so
        the record gets the schedule of ``known``.
    known : Record or None, default None
        The present record of the entry. None if there is none.
    method : str, default "solve"
        Method to store with the record.
    time_limit : float or None, default None
        Seconds for making the certificate (see `make_certificate`).

    Raises
    ------
    InvalidValueError
        The result belongs to another instance or another goal.
    RefusedRecordError
        The schedule is infeasible, or the certificate does not prove its claims for the entry.
    """
    lower, proof = verification.closed_form_bound(entry)
    certificate = document = None
    if isinstance(result, Result):
        asked = solving_goal(entry)
        found = {name: getattr(result, name) for name in asked}
        if result.problem.digest != entry.digest or found != asked:
            reason = f"is not a result of {entry.name} for {entry.goal}"
            raise InvalidValueError(None, "result", result, reason)
        schedule: Any = result.schedule
        verified = lower if known is None or not known.certified else max(lower, known.lower_bound)
        if entry.goal == "seconds":
            schedule = schedule.without_waiting()
            time_limit = SECONDS_LIMIT if time_limit is None else min(SECONDS_LIMIT, time_limit)
        if entry.goal not in verification.UNCERTIFIED and result.certified_lower_bound > verified:
            options: Any = {"search": result.status == "optimal", "time_limit": time_limit}
            document = make_certificate(schedule, result.proof, **options)
    else:
        document = result
        rounds: Any = {key: result[key] for key in ("start_times", "stretches") if key in result}
        rounds = rounds or (known and known.rounds)
        verification.demand(bool(rounds), "the certificate has no schedule")
        schedule = schedule_of(entry, rounds)
    if document is not None:
        try:
            proved, kind = verification.certified_bound(entry, document)
        except CertificateError as error:
            raise verification.RefusedRecordError(f"certificate: {error}") from error
        if proved > lower:
            lower, proof, certificate = proved, kind, compressed(document)
    credit = (datetime.now(UTC).date().isoformat(), method, __version__)
    upper = verification.cost(schedule, entry)
    record = Record(entry, upper, rounds_of(schedule), lower, proof, *credit)
    verification.check_schedule(entry, record)
    return record, certificate


def solving_goal(entry: LibraryEntry) -> dict[str, Any]:
    """Return the arguments ``goal`` and ``preemption`` of `hindsight.solve` for an entry's goal.

    ``preemption`` is left out if the goal is the number of late requests or the total latency in
    seconds. In seconds, a record may come from a solve with any kind of preemption.
    """
    if entry.level is not None or entry.goal == "seconds":
        return {"goal": "latency" if entry.level is None else OnTime(entry.level, "serve")}
    preemption = "keep" if entry.goal == "preemptive_total_latency" else "never"
    return {"goal": "makespan" if entry.goal == "makespan" else "latency", "preemption": preemption}

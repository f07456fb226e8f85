"""Subcommand `verify`: check a certificate, or entries of the library of benchmark instances."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import instances
from hindsight.certificates.checking import check_certificate
from hindsight.certificates.format import (
    CertificateError,
    MalformedCertificateError,
    read_certificate,
)
from instances import FileFormatError, InvalidValueError, RecordStore
from instances.problem.conditions import conditions
from instances.progress import progress_bar
from online.workers import in_order

from .console import FAILED_STATUS, complain
from .json_output import answer, check_json
from .sources import parse_source

MOST_SHOWN = 20
"""Checked records are listed one by one up to this number. If there are more, only counts are."""


def verify(subject: str, *, jobs: int = 1, json: Path | None = None) -> int:
    """Check a certificate or records: status 0 valid, 1 a claim does not hold, 2 not a certificate.

    A record is the entry of a library instance: its best known schedule, and a bound with a proof.
    Of a record the schedule, its cost, and the proof of the bound are checked. The check loads
    neither Pyomo nor HiGHS nor compiled loops, and shares no code with the solver. Only prices in
    seconds are evaluated by compiled loops of the solver. A file that is malformed, or would take
    more than some minutes to check, gives status 2: no claim was refused.

    Parameters
    ----------
    subject : FILE.json or library:NAME
        A certificate, as solve --certificate writes it; or records of library instances by name,
        set or pattern; 'library' for all.
    jobs : NUMBER
        Number of processes that check records.
    json : FILE
        Write the answer as JSON; - is standard output, which then has nothing else.
    """
    source = parse_source("library:*" if subject == "library" else subject)
    check_json(json, source=source.file)
    if source.kind not in ("file", "library"):
        raise InvalidValueError(None, "subject", subject, "is neither a file nor library:NAME")
    began = time.monotonic()
    if source.kind == "library":
        found, refused, parts = _records(source.name, jobs)
    else:
        found, refused, parts = *_certificate(Path(source.name)), []
    if found:
        found["runtime_seconds"] = time.monotonic() - began
        printed = {name: it for name, it in found.items() if name != "verdicts"}
        answer(json, "verify", found, *parts, printed)
    for line in refused:
        complain(line, "rejected")
    return FAILED_STATUS if refused else 0


def _certificate(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Check a certificate file. Return the fields to print, or the reasons of a refusal.

    If the certificate is valid, the list of reasons is empty, else the dictionary of fields.
    """
    try:
        verdict = check_certificate(read_certificate(path))
    except MalformedCertificateError as error:
        raise FileFormatError(path, str(error)) from error
    except CertificateError as error:
        return {}, [str(error)]
    is_timed = verdict.batch_time is not None
    unit = "seconds" if is_timed else "rounds"
    how = "optimal" if verdict.is_optimal else "valid interval"
    found = {
        "verdict": "valid lower bound" if is_timed else how,
        "preemptive": verdict.preemptive,
        f"optimum_{unit}": (verdict.lower_bound, verdict.upper_bound),
        "batch_time": str(verdict.batch_time) if is_timed else None,
        "proof": verdict.kind,
        "holds_for": conditions(is_timed, preempts=verdict.preemptive),
    }
    # The value of the field ``memory_rule`` is empty if memory is counted in tokens.
    names = ("replicas", "requests", "leaves", "memory_rule", "digest")
    found |= {name: getattr(verdict, name) for name in names}
    goal = "seconds" if is_timed else "latency"
    return found | record_fields(verdict.digest, goal, preempts=verdict.preemptive), []


def record_fields(digest: str, goal: str, *, preempts: bool) -> dict[str, Any]:
    """Return the fields to print about a library instance: its name and the bounds of its record.

    The dictionary is empty if the library has no instance with this digest and goal. ``goal`` is
    latency, makespan or seconds.
    """
    goal = {"latency": f"{'preemptive_' * preempts}total_latency"}.get(goal, goal)
    for one in instances.library():
        if (one.digest, one.goal) == (digest, goal):
            return {"library_instance": one.name, "record": one.record and one.record.interval}
    return {}


def _records(pattern: str, jobs: int) -> tuple[dict[str, Any], list[str], list[Any]]:
    """Check the library records that match a pattern, in ``jobs`` processes.

    Return the document for JSON, which has the verdict on each record, the reasons of refusals, and
    what to print first: a table of the verdicts if there are at most `MOST_SHOWN`.
    """
    entries = instances.library().matching(pattern)
    verdicts: list[Any] = []
    with progress_bar(len(entries)) as update:
        names = [entry.name for entry in entries]
        for verdict in in_order(_verdict, names, min(jobs, len(names))):
            verdicts.append(verdict)
            update(len(verdicts), verdict.name)
    refused = [f"{one.name}: {one.reason}" for one in verdicts if one.kind == "refused"]
    found = {"verdicts": verdicts, "records": Counter(one.kind for one in verdicts)}
    table = [[vars(one) for one in verdicts], ""] if len(verdicts) <= MOST_SHOWN else []
    return found, refused, table


def _verdict(name: str) -> Any:
    from hindsight.records.verification import verify_record

    return verify_record(instances.library()[name], RecordStore())

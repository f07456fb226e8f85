"""Check a certificate, or records of the library, with no solver in sight."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

import instances
from hindsight.certificates.checking import check_certificate
from hindsight.certificates.format import (
    CertificateError,
    MalformedCertificateError,
    read_certificate,
)
from instances import FileFormatError, InvalidValueError, LibraryEntry, RecordStore
from online.workers import in_order

from .console import FAILED_STATUS, progress_bar, reject
from .json_output import JsonFile, answer, check_json

if TYPE_CHECKING:
    from hindsight.records.verification import RecordVerdict

LIBRARY = "library"


def verify(
    subject: Annotated[
        str,
        Argument(
            metavar="FILE.json or library:NAME",
            help="A certificate, as solve --certificate writes it; or records of the library by "
            "name, set or pattern; 'library' for all.",
        ),
    ],
    jobs: Annotated[int, Option(min=1, help="Processes for records of the library.")] = 1,
    json_file: JsonFile = None,
) -> int:
    """Check a certificate or records: status 0 valid, 1 a claim does not hold, 2 no certificate.

    Of a record the schedule, its cost, and the proof of the bound are checked. Loads neither Pyomo
    nor HiGHS nor compiled loops, and shares no code with the solver, except to evaluate prices in
    seconds, by compiled loops of the solver. A file that is malformed, or takes more than some
    minutes to check, is none: no claim was refused.
    """
    name, _, pattern = subject.partition(":")
    if not Path(subject).exists() and subject in instances.library():
        raise InvalidValueError(None, "subject", subject, f"is no file: write library:{subject}")
    if name != LIBRARY or Path(subject).exists():
        return _certificate(Path(subject), json_file)
    check_json(json_file)
    return _records(instances.library().matching(*filter(None, [pattern])), jobs, json_file)


def _certificate(path: Path, json_file: Path | None) -> int:
    check_json(json_file, source=path)
    began = time.monotonic()
    try:
        verdict = check_certificate(read_certificate(path))
    except MalformedCertificateError as error:
        raise FileFormatError(path, str(error)) from error
    except MemoryError as error:
        raise FileFormatError(path, "takes more memory than there is") from error
    except CertificateError as error:
        reject(error)
        return FAILED_STATUS
    is_timed = verdict.batch_time is not None
    how = "optimal" if verdict.is_optimal else "valid interval"
    optimum = "optimum_seconds" if is_timed else "optimum_rounds"
    found = {
        "verdict": "valid lower bound" if is_timed else how,
        "preemptive": verdict.preemptive,
        optimum: (verdict.lower_bound, verdict.upper_bound),
        "batch_time": str(verdict.batch_time) if is_timed else None,
    }
    # The memory rule is empty if memory is counted in tokens.
    for name in ("replicas", "requests", "price_sets", "leaves", "digest", "memory_rule"):
        found[name] = getattr(verdict, name)
    seconds = time.monotonic() - began
    answer(json_file, "verify", {**found, "proof": verdict.kind, "runtime_seconds": seconds})
    return 0


def _records(entries: Sequence[LibraryEntry], jobs: int, json_file: Path | None) -> int:
    RecordStore().require_certificates(entries)
    began = time.monotonic()
    verdicts: list[RecordVerdict] = []
    with progress_bar(len(entries)) as update:
        names = [entry.name for entry in entries]
        for verdict in in_order(_verdict, names, min(jobs, len(names))):
            verdicts.append(verdict)
            update(len(verdicts), verdict.name)
    refused = [f"{one.name}: {one.reason}" for one in verdicts if one.kind == "refused"]
    counts = Counter(verdict.kind for verdict in verdicts)
    records = {kind: counts[kind] for kind in ("closed", "open", "none")}
    found = {"records": records, "refused": refused, "runtime_seconds": time.monotonic() - began}
    answer(json_file, "verify", {"verdicts": verdicts, **found}, {**found, "refused": len(refused)})
    for line in refused:
        reject(line)
    return FAILED_STATUS if refused else 0


def _verdict(name: str) -> RecordVerdict:
    from hindsight.records.verification import verify_record

    return verify_record(instances.library(name), RecordStore())

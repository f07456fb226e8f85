"""Check a certificate, or records of the library, with no solver in sight."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import instances
from hindsight.certificates.checking import check_certificate
from hindsight.certificates.format import (
    CertificateError,
    MalformedCertificateError,
    read_certificate,
)
from instances import FileFormatError, LibraryEntry, RecordStore
from online.tables import Table, table_of
from online.workers import in_order

from .console import FAILED_STATUS, progress_bar, reject
from .json_output import Answer, JsonFile, answer, check_json

if TYPE_CHECKING:
    from hindsight.records.verification import RecordVerdict

LIBRARY = "library"


def verify(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="FILE.json or library:NAME",
            help="A certificate, as solve --certificate writes it; or records of the library by "
            "name, set or pattern; 'library' for all.",
        ),
    ],
    jobs: Annotated[int, typer.Option(min=1, help="Processes for records of the library.")] = 1,
    json_file: JsonFile = None,
) -> int:
    """Check a certificate or records: status 0 valid, 1 a claim does not hold, 2 no certificate.

    Of a record the schedule, its cost, and the proof of the bound are checked. Loads neither Pyomo
    nor HiGHS nor compiled loops, and shares no code with the solver, except to evaluate prices in
    seconds, by compiled loops of the solver. A file that is malformed, or takes more than some
    minutes to check, is none: no claim was refused.
    """
    name, _, pattern = subject.partition(":")
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
    unit, timed = "rounds", verdict.batch_time is not None
    how = "optimal" if verdict.is_optimal else "valid interval"
    low = str(verdict.lower_bound)
    if timed:
        unit, how, low = "seconds", "valid lower bound", f"{low} s total latency"
    found = Answer()
    found.add("is_optimal", verdict.is_optimal, "verdict", how)
    kind = "with preemption" if verdict.preemptive else "without preemption"
    found.add("preemptive", verdict.preemptive, "schedules", kind)
    found.add(f"optimum_{unit}", [verdict.lower_bound, verdict.upper_bound])
    found.show("upper bound", "" if timed else verdict.upper_bound)
    found.show("verified lower bound", low)
    if timed:
        found.add("batch_time", str(verdict.batch_time), "batch time")
    if verdict.replicas > 1:
        found.add("replicas", verdict.replicas, "replicas")
    found.add("proof", verdict.kind, "proof")
    # The memory rule is empty if memory is counted in tokens.
    for name in ("requests", "price_sets", "leaves", "digest", "memory_rule"):
        found.add(name, getattr(verdict, name), name.replace("_", " "))
    seconds = time.monotonic() - began
    found.add("runtime_seconds", seconds, "runtime", f"{seconds:.1f} s")
    answer(json_file, "verify", found.found, found.shown)
    return 0


def _records(entries: Sequence[LibraryEntry], jobs: int, json_file: Path | None) -> int:
    store = RecordStore()
    store.require_certificates(entries)
    began = time.monotonic()
    verdicts: list[RecordVerdict] = []
    names = [entry.name for entry in entries]
    with progress_bar(len(names)) as update:
        for verdict in in_order(_verdict, names, min(jobs, len(names))):
            verdicts.append(verdict)
            update(len(verdicts), verdict.name)
    seconds = time.monotonic() - began
    refused = [f"{one.name}: {one.reason}" for one in verdicts if one.kind == "refused"]
    every = frozenset(entry.name for entry in instances.library())
    for name in dict.fromkeys(entry.set for entry in entries):
        # If the file cannot be read, each of its instances is refused already.
        with suppress(FileFormatError):
            strangers = store.unknown(name, every)
            refused += [f"{one}: is not the name of an instance" for one in strangers]
    found = {"verdicts": verdicts, "refused": refused, "runtime_seconds": seconds}
    count = sum(verdict.kind != "none" for verdict in verdicts)
    line = f"{count} record{'s' * (count != 1)} checked in {seconds:.1f} s, {len(refused)} refused"
    answer(json_file, "verify", found, _verdict_table(entries, verdicts), line)
    for line in refused:
        reject(line)
    return FAILED_STATUS if refused else 0


def _verdict(name: str) -> RecordVerdict:
    from hindsight.records.verification import verify_record

    return verify_record(instances.library(name), RecordStore())


def _verdict_table(entries: Sequence[LibraryEntry], verdicts: Sequence[RecordVerdict]) -> Table:
    """Return a table with a row for each set, and one for all."""
    own: dict[str, list[RecordVerdict]] = {}
    for entry, verdict in zip(entries, verdicts, strict=True):
        own.setdefault(entry.set, []).append(verdict)
    rows = []
    for name, some in {**own, "all": verdicts}.items():
        kinds = Counter(verdict.kind for verdict in some)
        holding = [verdict for verdict in some if verdict.kind in ("closed", "open")]
        row = {
            "set": name,
            "instances": len(some),
            "closed": kinds["closed"],
            "open": kinds["open"],
            "no certificate": sum(not verdict.has_certificate for verdict in holding),
            "no record": kinds["none"],
            "refused": kinds["refused"],
        }
        rows.append(row)
    return table_of(rows)

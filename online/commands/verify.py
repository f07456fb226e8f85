"""Check a certificate of a lower bound or an optimum, with no solver in sight."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from hindsight.certificates.checking import check_certificate
from hindsight.certificates.format import (
    CertificateError,
    MalformedCertificateError,
    read_certificate,
)
from instances import FileFormatError

from .console import FAILED_STATUS, reject
from .json_output import JsonFile, answer, check_json


def verify(
    certificate_file: Annotated[
        Path,
        typer.Argument(
            metavar="CERTIFICATE.json",
            help="Written by hindsight.write_certificate or solve --certificate.",
        ),
    ],
    json_file: JsonFile = None,
) -> int:
    """Check a certificate: exit status 0 valid, 1 a claim that does not hold, 2 no certificate.

    Loads neither Pyomo nor HiGHS nor compiled loops, and shares no code with the solver, except to
    evaluate prices in seconds, by compiled loops of the solver. A file that is malformed, or takes
    more than some minutes to check, is none: no claim was refused.
    """
    check_json(json_file, source=certificate_file)
    began = time.monotonic()
    try:
        verdict = check_certificate(read_certificate(certificate_file))
    except MalformedCertificateError as error:
        raise FileFormatError(certificate_file, str(error)) from error
    except MemoryError as error:
        raise FileFormatError(certificate_file, "takes more memory than there is") from error
    except CertificateError as error:
        reject(error)
        return FAILED_STATUS
    seconds = time.monotonic() - began
    unit = "rounds" if verdict.batch_time is None else "seconds"
    found: dict[str, object] = {
        "is_optimal": verdict.is_optimal,
        "preemptive": verdict.preemptive,
        f"optimum_{unit}": [verdict.lower_bound, verdict.upper_bound],
        "proof": verdict.kind,
        "requests": verdict.requests,
        "price_sets": verdict.price_sets,
        "leaves": verdict.leaves,
        "digest": verdict.digest,
        "memory_rule": verdict.memory_rule,
        "runtime_seconds": seconds,
    }
    fields = {
        "verdict": "optimal" if verdict.is_optimal else "valid interval",
        "schedules": "with preemption" if verdict.preemptive else "without preemption",
        "upper bound": str(verdict.upper_bound),
        "verified lower bound": str(verdict.lower_bound),
    }
    if verdict.batch_time is not None:
        found["batch_time"] = str(verdict.batch_time)
        del fields["upper bound"]
        fields |= {
            "verdict": "valid lower bound",
            "verified lower bound": f"{verdict.lower_bound} s total latency",
            "batch time": str(verdict.batch_time),
        }
    if verdict.replicas > 1:
        found["replicas"] = verdict.replicas
        fields["replicas"] = str(verdict.replicas)
    names = ("proof", "requests", "price_sets", "leaves", "digest", "memory_rule")
    # The memory rule is empty where it is that of tokens.
    fields |= {name.replace("_", " "): str(found[name]) for name in names if found[name] != ""}
    answer(json_file, "verify", found, fields | {"runtime": f"{seconds:.1f} s"})
    return 0

"""Check a certificate of a lower bound or an optimum, with no solver in sight."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from _console import print_fields, run, typer

from hindsight.certificate_check import CertificateError, check_certificate, read_certificate

REJECTED_STATUS = 1


def verify(
    certificate_file: Annotated[
        Path,
        typer.Argument(
            metavar="CERTIFICATE.json",
            help="Written by hindsight.write_certificate or solve.py --certificate.",
        ),
    ],
) -> int:
    """Check a certificate: exit status 0 valid, 1 rejected, 2 unreadable.

    Loads neither Pyomo nor HiGHS nor compiled loops, and shares no code with the solver.
    """
    document = read_certificate(certificate_file)
    began = time.monotonic()
    try:
        verdict = check_certificate(document)
    except CertificateError as error:
        print(f"rejected: {' '.join(str(error).split())}", file=sys.stderr)
        return REJECTED_STATUS
    print_fields(
        {
            "verdict": "optimal" if verdict.is_optimal else "valid interval",
            "upper bound": str(verdict.upper_bound),
            "lower bound": str(verdict.lower_bound),
            "proof": verdict.kind,
            "requests": str(verdict.requests),
            "tables": str(verdict.tables),
            "price sets": str(verdict.price_sets),
            "leaves": str(verdict.leaves),
            "digest": verdict.digest,
            "runtime": f"{time.monotonic() - began:.1f} s",
        }
    )
    return 0


if __name__ == "__main__":
    run(verify)

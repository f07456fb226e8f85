"""What was tried on something of the user's, told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hindsight.testing.verdicts import CheckReport

from .console import say
from .json_output import write_json

FAILED_STATUS = 1

OWN_METAVAR = "NAME or FILE.py[:NAME]"
"""Of what users register, or have in a file."""

Count = Annotated[int, typer.Option(min=1, help="Instances drawn.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the instances.")]


def tell(report: CheckReport, kind: str, json_file: Path | None) -> int:
    """Print the report, or write it as JSON; the exit status."""
    found = {kind: report.subject.removeprefix(f"{kind} "), "passed": report.passed}
    found["checks"] = [{**vars(one), "passed": one.passed} for one in report.verdicts]
    found["notes"] = report.notes
    if not write_json(json_file, f"check-{kind}", found):
        say(str(report))
    return 0 if report.passed else FAILED_STATUS

"""Check a custom policy or bound on what every one of its kind must hold."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Argument, Option

import hindsight.testing
import online.testing
from online.policy_interface.specs import read_policy

from .console import FAILED_STATUS
from .json_output import JsonFile, answer, check_json
from .options import Seed


def check(
    kind: Annotated[Literal["policy", "bound"], Argument(help="Kind of code.")],
    subject: Annotated[str, Argument(metavar="NAME or FILE.py:NAME", help="The policy or bound.")],
    count: Annotated[int, Option(min=1, help="Number of drawn instances.")] = 100,
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> int:
    """Check a custom policy or bound on drawn instances, smallest first.

    A policy must be deterministic, keep to the memory limit, read no unknown output length, and
    complete every request. A bound must not exceed the optimum of any instance, which are tiny.

    Exit status 1 if a check fails: it shows the smallest instance found, and Python code that
    repeats the failure.
    """
    check_json(json_file)
    report: hindsight.testing.CheckReport
    if kind == "policy":
        report = online.testing.check_policy(read_policy(subject), count, seed=seed)
    else:
        report = hindsight.check_bound(subject, count, seed=seed)
    found = {kind: report.subject.removeprefix(f"{kind} "), "passed": report.passed}
    found["checks"] = [{**vars(one), "passed": one.passed} for one in report.verdicts]
    found["notes"] = report.notes
    answer(json_file, f"check-{kind}", found, str(report))
    return 0 if report.passed else FAILED_STATUS

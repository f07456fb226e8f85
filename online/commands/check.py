"""Check a custom policy or bound on what every one of its kind must hold."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

import hindsight
import online.testing
from hindsight.testing import CheckReport
from online.policy_interface.specs import read_policy

from .console import FAILED_STATUS
from .json_output import JsonFile, answer
from .options import POLICY_METAVAR, Seed


class Kind(StrEnum):
    """Kinds of user code that can be checked."""

    policy = "policy"
    bound = "bound"


def check(
    kind: Annotated[Kind, typer.Argument(help="What is checked.")],
    subject: Annotated[str, typer.Argument(metavar=POLICY_METAVAR, help="The policy or bound.")],
    count: Annotated[int, typer.Option(min=1, help="Instances drawn.")] = 100,
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> int:
    """Check code of your own on drawn instances, smallest first.

    A policy: determinism, no peeking, memory kept, nobody starved. A bound: no tiny instance has a
    schedule below it.

    Exit status 0 if every check passed, 1 if one did not: each failure has the smallest instance
    found, and lines of Python that show it.
    """
    report: CheckReport
    if kind is Kind.policy:
        policy = read_policy(subject)
        report = online.testing.check_policy(policy, count, seed=seed)
    else:
        report = hindsight.check_bound(subject, count, seed=seed)
    found = {kind: report.subject.removeprefix(f"{kind} "), "passed": report.passed}
    found["checks"] = [{**vars(one), "passed": one.passed} for one in report.verdicts]
    found["notes"] = report.notes
    answer(json_file, f"check-{kind}", found, str(report))
    return 0 if report.passed else FAILED_STATUS

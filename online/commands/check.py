"""Subcommand `check`: check that a custom policy or bound keeps the rules of its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import hindsight
import online.testing

from .console import FAILED_STATUS
from .json_output import answer, check_json


def check(
    kind: Literal["policy", "bound"],
    subject: str,
    *,
    count: int = 100,
    seed: int = 0,
    json: Path | None = None,
) -> int:
    """Check a custom policy or bound on drawn instances, smallest first.

    A policy must be deterministic, keep to the memory limit, read no unknown output length, and
    complete every request. A bound must not exceed the optimum of any of the tiny instances.

    If a check fails, the smallest such instance is shown with Python code that repeats the failure,
    and the exit status is 1.

    Parameters
    ----------
    kind : KIND
        policy or bound.
    subject : NAME or FILE.py:NAME
        The policy or bound.
    count : NUMBER
        Number of drawn instances.
    seed : NUMBER
        Seed of all random choices.
    json : FILE
        Write the answer as JSON; - is standard output, which then has nothing else.
    """
    check_json(json)
    checker: Any = online.testing.check_policy if kind == "policy" else hindsight.check_bound
    report = checker(subject, count, seed=seed)
    found = {kind: report.subject.removeprefix(f"{kind} "), "passed": report.passed}
    found["checks"] = [{**vars(one), "passed": one.passed} for one in report.verdicts]
    found["notes"] = report.notes
    answer(json, f"check-{kind}", found, str(report))
    return 0 if report.passed else FAILED_STATUS

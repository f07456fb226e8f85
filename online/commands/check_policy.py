"""What every policy must hold, tried on one's own."""

from __future__ import annotations

from typing import Annotated

import typer

from online.comparison.specs import import_sources, read_policy
from online.testing import check_policy as check

from .json_output import JsonFile, check_json, write_json
from .policy_options import Imports

FAILED_STATUS = 1
"""Something that every policy must hold, this one does not."""


def check_policy(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY", help="Such as my_rules.py:LeastVolume(alpha=0.2), or a name."
        ),
    ],
    imports: Imports = None,
    instances: Annotated[int, typer.Option(min=1, help="How many to draw.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of the instances.")] = 0,
    by_design: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="One that it is known not to pass; repeatable."),
    ] = None,
    json_file: JsonFile = None,
) -> int:
    """Try a policy on drawn instances: rules, starvation, determinism, peeking.

    Each failure shows the smallest instance found, as Python. Exit status 1 where a check fails.
    """
    check_json(json_file)
    import_sources(imports or [])
    report = check(read_policy(policy), instances, seed=seed, by_design=by_design or ())
    found = {
        "policy": report.policy,
        "passed": report.passed,
        "checks": [{**vars(one), "passed": one.passed} for one in report.verdicts],
        "notes": report.notes,
    }
    if not write_json(json_file, "check-policy", found):
        print(report)
    return 0 if report.passed else FAILED_STATUS

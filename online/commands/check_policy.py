"""What every online policy must hold, tried on one of the user's."""

from __future__ import annotations

from typing import Annotated

import typer

import online.testing
from instances.user_modules import import_sources
from online.comparison.specs import read_policy

from .console import say
from .json_output import JsonFile, check_json, write_json
from .policy_options import POLICY_METAVAR, Imports

FAILED_STATUS = 1


def check_policy(
    policy: Annotated[str, typer.Argument(metavar=POLICY_METAVAR, help="One policy.")],
    count: Annotated[int, typer.Option(min=1, help="Instances drawn.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of the instances.")] = 0,
    by_design: Annotated[
        list[str] | None,
        typer.Option(metavar="CHECK", help="It is known not to pass this one; repeatable."),
    ] = None,
    imports: Imports = None,
    json_file: JsonFile = None,
) -> int:
    """Determinism, no peeking, memory kept, nobody starved: tried on instances, smallest first.

    Exit status 0 if every check passed, 1 if one did not: each failure has the smallest instance
    found, and lines of Python that show it.
    """
    check_json(json_file)
    import_sources(imports or [])
    report = online.testing.check_policy(
        read_policy(policy), count, seed=seed, by_design=by_design or ()
    )
    found = {"policy": report.policy, "passed": report.passed}
    found["checks"] = [{**vars(one), "passed": one.passed} for one in report.verdicts]
    found["notes"] = report.notes
    if not write_json(json_file, "check-policy", found):
        say(str(report))
    return 0 if report.passed else FAILED_STATUS

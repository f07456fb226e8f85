"""What every online policy must hold, tried on one of the user's."""

from __future__ import annotations

from typing import Annotated

import typer

import online.testing
from instances.user_modules import import_sources
from online.policy_interface.specs import read_policy

from .check_report import Count, Seed, tell
from .json_output import JsonFile, check_json
from .policy_options import POLICY_METAVAR, Imports


def check_policy(
    policy: Annotated[str, typer.Argument(metavar=POLICY_METAVAR, help="One policy.")],
    count: Count = 100,
    seed: Seed = 0,
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
    return tell(report, "policy", json_file)

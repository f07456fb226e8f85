"""What every lower bound must hold, tried on one of the user's."""

from __future__ import annotations

from typing import Annotated

import typer

import hindsight
from instances.user_modules import import_sources

from .check_report import OWN_METAVAR, Count, Seed, tell
from .json_output import JsonFile, check_json
from .policy_options import Imports


def check_bound(
    bound: Annotated[str, typer.Argument(metavar=OWN_METAVAR, help="One bound.")],
    count: Count = 100,
    seed: Seed = 0,
    imports: Imports = None,
    json_file: JsonFile = None,
) -> int:
    """No tiny instance has a schedule below the bound: tried on drawn ones, enumerated.

    Exit status 0 if every check passed, 1 if one did not: each failure has the smallest instance
    found, and lines of Python that show it.
    """
    check_json(json_file)
    import_sources(imports or [])
    report = hindsight.check_bound(bound, count, seed=seed)
    return tell(report, "bound", json_file)

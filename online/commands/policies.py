"""The registered policies."""

from __future__ import annotations

import inspect

from instances.user_modules import import_sources
from online.policy_interface.policy import policy_class, policy_names, policy_parameters
from online.runtime.table import Table

from .console import Wide, parameters_text, print_table
from .json_output import JsonFile, check_json, write_json
from .policy_options import Imports

ENGINES = "engines"


def policies(imports: Imports = None, wide: Wide = False, json_file: JsonFile = None) -> None:
    """The registered policies: what each is from, a line about it, and its parameters."""
    check_json(json_file)
    import_sources(imports or [])
    rows = [
        (
            name,
            _origin(policy_class(name).__module__),
            inspect.cleandoc(policy_class(name).__doc__ or "").partition("\n")[0],
            parameters_text(policy_parameters(name)),
        )
        for name in policy_names()
    ]
    columns = ("policy", "from", "what", "parameters")
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    if not write_json(json_file, "policies", {"policies": found}):
        prose = frozenset({"what", "parameters"})
        table = Table("", columns, tuple(rows), frozenset(columns), prose_columns=prose)
        print_table(table, wide=wide)


def _origin(module: str) -> str:
    """The paper or the engines, by the folder of a policy of this package; else its module."""
    package, _, rest = module.partition(".policies.")
    if package != "online":
        return module.partition("@")[0]
    room = rest.partition(".")[0]
    return "an engine" if room == ENGINES else f"[{room.upper()}]"

"""The registered policies."""

from __future__ import annotations

import inspect

from online.policy_interface.policy import policy_class, policy_names, policy_parameters

from .console import Wide, parameters_text, table_of
from .json_output import JsonFile, answer
from .options import importing

ENGINES = "engines"


@importing
def policies(wide: Wide = False, json_file: JsonFile = None) -> None:
    """The registered policies: what each is from, a line about it, and its parameters."""
    found = [
        {
            "policy": name,
            "from": _origin(policy_class(name).__module__),
            "what": inspect.cleandoc(policy_class(name).__doc__ or "").partition("\n")[0],
            "parameters": parameters_text(policy_parameters(name)),
        }
        for name in policy_names()
    ]
    table = table_of(found, text=found[0], prose=("what", "parameters"))
    answer(json_file, "policies", {"policies": found}, table, wide=wide)


def _origin(module: str) -> str:
    """The paper or the engines, by the folder of a policy of this package; else its module."""
    package, _, rest = module.partition(".policies.")
    if package != "online":
        return module.partition("@")[0]
    room = rest.partition(".")[0]
    return "an engine" if room == ENGINES else f"[{room.upper()}]"

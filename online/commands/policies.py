"""The registered policies and routers."""

from __future__ import annotations

import inspect

from online.policy_interface.policy import (
    named_parameters,
    policy_class,
    policy_names,
    policy_parameters,
)
from online.policy_interface.router import router_names
from online.policy_interface.specs import RouterSpec
from online.runtime.table import table_of

from .console import Wide, parameters_text
from .json_output import JsonFile, answer
from .options import importing

ENGINES = "engines"


@importing
def policies(wide: Wide = False, json_file: JsonFile = None) -> None:
    """The registered policies and routers: a line about each, and its parameters."""
    found = [
        {
            "policy": name,
            "from": _origin(policy_class(name).__module__),
            "what": inspect.cleandoc(policy_class(name).__doc__ or "").partition("\n")[0],
            "parameters": parameters_text(policy_parameters(name)),
        }
        for name in policy_names()
    ]
    routers = [
        {
            "router": name,
            "what": inspect.cleandoc(RouterSpec.registry[name].__doc__ or "").partition("\n")[0],
            "parameters": parameters_text(named_parameters(RouterSpec.registry[name])),
        }
        for name in router_names()
    ]
    tables = [
        table_of("", one, text=one[0], prose=("what", "parameters")) for one in (found, routers)
    ]
    parts = (tables[0], "", tables[1])
    answer(json_file, "policies", {"policies": found, "routers": routers}, *parts, wide=wide)


def _origin(module: str) -> str:
    """The paper or the engines, by the folder of a policy of this package; else its module."""
    package, _, rest = module.partition(".policies.")
    if package != "online":
        return module.partition("@")[0]
    room = rest.partition(".")[0]
    return "an engine" if room == ENGINES else f"[{room.upper()}]"

"""Parts of pages that are made from the packages when the site is built.

A page has a comment where such a part follows:

- ``<!-- names: online.simulation online.Run -->``: the docstrings of public names. A
  package or module stands for the names of the three packages' ``__all__`` that are defined in it;
  if there are none, for all that the module defines. Any other name stands for itself.
- ``<!-- policies -->``: a heading and the docstring of each registered policy.
- ``<!-- options -->``: a table of the options of each subcommand.
- ``<!-- log formats -->``: a table of the columns that each format of logs is read from.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

PACKAGES = ("instances", "hindsight", "online")
MARK = re.compile(
    r"^<!-- (?P<kind>names|policies|options|log formats)(?::(?P<words>.+?))? -->$", re.M | re.S
)
BODY_ONLY = ("show_root_heading", "show_root_toc_entry", "members", "show_bases")
ENTRY = f"    options: {{{', '.join(f'{name}: false' for name in BODY_ONLY)}}}"


def expanded(text: str) -> str:
    """Return the text of a page with its generated parts in place."""
    return MARK.sub(lambda mark: PARTS[mark["kind"]](mark["words"] or ""), text)


def public_names() -> dict[str, Any]:
    """Return what the packages export, by dotted name; constants are left out."""
    found = {}
    for package in PACKAGES:
        module = import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if not name.startswith("_") and (inspect.isclass(value) or callable(value)):
                found[f"{package}.{name}"] = value
    return found


def shown(word: str) -> list[str]:
    """Return the dotted names that a word of a list of names stands for."""
    value = resolved(word)
    if not isinstance(value, ModuleType):
        return [word]
    exported = [
        name
        for name, one in public_names().items()
        if one.__module__ == word or one.__module__.startswith(f"{word}.")
    ]
    if exported:
        return sorted(exported, key=lambda name: name.rpartition(".")[2].lower())
    return [
        f"{word}.{name}"
        for name, one in vars(value).items()
        if not name.startswith("_") and getattr(one, "__module__", None) == word and callable(one)
    ]


def resolved(word: str) -> Any:
    """Return the object of a dotted name, or the module if there is no object of that name."""
    parent, _, name = word.rpartition(".")
    found = getattr(import_module(parent), name, None)
    return import_module(word) if found is None else found


def _names(words: str) -> str:
    return "\n".join(_name(name) for word in words.split() for name in shown(word))


def _name(name: str) -> str:
    if name not in sys.modules:
        return f"::: {name}"
    # A module of the same name would be shown instead of the function.
    heading = f"{{heading: {name}, toc_label: {name}}}"
    return f"::: {name}.{name.rpartition('.')[2]}\n    options: {heading}"


def _policies(words: str) -> str:
    from online.policy_interface.policy import POLICIES

    classes: dict[str, Any] = dict(POLICIES)
    rooms = sorted(classes, key=lambda name: (classes[name].__module__.split(".")[2], name))
    return "\n\n".join(
        f"### {name}\n\n::: {classes[name].__module__}.{classes[name].__qualname__}\n{ENTRY}"
        for name in rooms
    )


def _options(words: str) -> str:
    from llm_hindsight import SUBCOMMANDS

    return "\n\n".join(_subcommand(name, about) for name, about in SUBCOMMANDS.items())


def _subcommand(name: str, about: str) -> str:
    import typer

    from online.commands.console import described

    function = getattr(import_module(f"online.commands.{name}"), name)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(described(function))
    rows = [_option(one) for one in typer.main.get_command(alone).params]
    table = "\n".join(["| option | |", "| :--- | :--- |", *rows])
    return f"### llm-hindsight {name}\n\n{about[:1].upper()}{about[1:]}.\n\n{table}"


def _option(one: Any) -> str:
    names, value = one.metavar or one.name.upper(), ""
    if one.param_type_name == "option":
        names, value = ", ".join(one.opts), "" if one.is_flag else names.replace("|", " or ")
    text = " ".join((getattr(one, "help", None) or "").split()).replace("|", "\\|")
    return f"| `{f'{names} {value}'.strip()}` | {text} |"


def _log_formats(words: str) -> str:
    from instances.logs import FORMATS

    def path(keys: Any) -> str:
        return "`" + ".".join(keys if isinstance(keys, tuple) else (str(keys),)) + "`"

    lines = ["| format | prompt, output | arrival | measured |", "| :--- | :--- | :--- | :--- |"]
    for name, one in FORMATS.items():
        roles = {role: ", ".join(map(path, paths)) for role, paths in one.columns.items()}
        tokens = [roles.pop(role, "") for role in ("prompt", "output")]
        arrivals = [roles.pop(role) for role in list(roles) if role.startswith("arrival")]
        measured = [f"{role}: {text}" for role, text in roles.items() if role in SHOWN]
        cells = [f"`{name}`", "; ".join(filter(None, tokens)), ", ".join(arrivals)]
        lines.append(f"| {' | '.join([*cells, '; '.join(measured)])} |")
    return "\n".join(lines)


SHOWN = (
    *("latency", "time_to_first_token", "inter_token_time", "inter_token_times", "end"),
    *("first_token", "worker"),
)
PARTS: dict[str, Callable[[str], str]] = {
    "names": _names,
    "policies": _policies,
    "options": _options,
    "log formats": _log_formats,
}

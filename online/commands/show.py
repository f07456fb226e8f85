"""The registered policies, routers and generators, the presets, and the library of instances."""

from __future__ import annotations

import inspect
import statistics
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

import instances
from hindsight.outcomes.result import percent
from instances import LibraryEntry, Record, RecordStore, UnknownNameError
from instances.batch_time.presets import preset, preset_names
from online.policy_interface.policy import (
    named_parameters,
    policy_class,
    policy_names,
    policy_parameters,
)
from online.policy_interface.router import router_names
from online.policy_interface.specs import RouterSpec
from online.tables import Table, table_of

from .console import parameters_text
from .json_output import JsonFile, answer, check_json
from .sources import GOALS, Source

KINDS = ("policies", "routers", "generators", "presets", "library")
ENGINES = "engines"
CERTIFICATES = "instances/catalogue/certificates"
PROSE = ("what", "parameters")

Row = dict[str, Any]


def show(
    what: Annotated[
        str,
        typer.Argument(
            metavar="[WHAT]",
            help="policies, routers, generators, presets, library, or library:NAME with a name, a "
            "set or a pattern such as 'library:j25-*-n2*'.",
        ),
    ] = "policies",
    json_file: JsonFile = None,
) -> None:
    """The registered policies and what else has a name, a line each.

    `library` shows the sets of named instances, `library:NAME` the instance with its record: the
    best known schedule and the best verified bound. Records are printed as they are;
    `verify library:NAME` checks them.
    """
    check_json(json_file)
    kind, _, pattern = what.partition(":")
    if kind not in KINDS or (pattern and kind != "library"):
        raise UnknownNameError("kind of names", what, [*KINDS, "library:NAME"])
    if kind == "library":
        found, shown = _library(pattern)
        answer(json_file, "show", {"instances": found}, shown)
        return
    rows = {"policies": _policies, "routers": _routers, "generators": _generators}
    listed = _presets() if kind == "presets" else rows[kind]()
    texts = [{name: str(value) for name, value in one.items()} for one in listed]
    names = tuple(texts[0])
    table = table_of("", texts, text=(*names[:1], "from", *PROSE), main=names, prose=PROSE)
    answer(json_file, "show", {kind: listed}, table)


def _policies() -> list[Row]:
    return [
        {
            "policy": name,
            "from": _origin(policy_class(name).__module__),
            "what": _first_line(policy_class(name)),
            "parameters": parameters_text(policy_parameters(name)),
        }
        for name in policy_names()
    ]


def _origin(module: str) -> str:
    """Return the paper or the engine that a policy is from, by its folder; else its module."""
    package, _, rest = module.partition(".policies.")
    if package != "online":
        return module.partition("@")[0]
    folder = rest.partition(".")[0]
    return "an engine" if folder == ENGINES else f"[{folder.upper()}]"


def _routers() -> list[Row]:
    return [
        {
            "router": name,
            "what": _first_line(RouterSpec.registry[name]),
            "parameters": parameters_text(named_parameters(RouterSpec.registry[name])),
        }
        for name in router_names()
    ]


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _generators() -> list[Row]:
    return [
        {
            "generator": name,
            "what": instances.generator_documentation(name).partition("\n")[0],
            "parameters": parameters_text(instances.generator_parameters(name)),
        }
        for name in instances.generator_names()
    ]


def _presets() -> list[Row]:
    known = [preset(name) for name in preset_names()]
    return [
        {
            "preset": one.name,
            "memory_limit_tokens": one.memory_limit,
            "batch_time": type(one.batch_time).__name__,
        }
        for one in known
    ]


def _library(pattern: str) -> tuple[list[Row], Table | Mapping[str, str]]:
    """Return entries of the library for JSON, and what the screen shows of them."""
    store, entries = RecordStore(), instances.library().matching(*filter(None, [pattern]))
    known = {entry.name: store.record(entry) for entry in entries}
    found = [_about(entry, known[entry.name]) for entry in entries]
    if not pattern:
        return found, _set_table(known)
    shown = [_fields(entry, known[entry.name]) for entry in entries]
    if len(entries) == 1:
        return found, {name: text for name, text in shown[0].items() if text}
    columns = ("instance", "optimum", "gap", "status", "requests", "goal")
    rows = [{name: one.get(name, "") for name in columns} for one in shown]
    text = ("instance", "status", "goal")
    return found, table_of("", rows, text=text, main=columns, prose=("goal",))


def _set_table(known: Mapping[str, Record | None]) -> Table:
    rows = []
    for one in instances.library().sets:
        found = [record for entry in one if (record := known[entry.name]) is not None]
        gaps = [record.gap for record in found if record.status == "open"]
        sizes = [entry.n for entry in one]
        row = {
            "set": one.name,
            "instances": str(len(one)),
            "n": "..".join(map(str, sorted({min(sizes), max(sizes)}))),
            "closed": str(len(found) - len(gaps)),
            "open": str(len(gaps)),
            "median gap": percent(statistics.median(gaps), ".2f") if gaps else "",
            "what": one.title,
        }
        rows.append(row)
    main = ("set", "instances", "closed", "open", "median gap", "what", "n")
    return table_of("", rows, text=("set", "what"), main=main, prose=("what",))


def _about(entry: LibraryEntry, record: Record | None) -> Row:
    found: Row = {
        "instance": entry.name,
        "set": entry.set,
        "source": entry.source,
        "licence": entry.licence,
        "requests": entry.n,
        "goal": entry.goal,
        "batch_time": entry.batch_time,
        "level": None if entry.level is None else asdict(entry.level),
        "digest": entry.digest,
        "recipe": None if entry.recipe is None else dict(entry.recipe),
        "status": None if record is None else record.status,
    }
    if record is None:
        return found
    path = record.certificate
    names = ("gap", "proof", "date", "method", "version")
    return found | {
        "optimum": [record.lower_bound, record.upper_bound],
        **{name: getattr(record, name) for name in names},
        "certificate": path if path is not None and path.exists() else None,
    }


def _fields(entry: LibraryEntry, record: Record | None) -> dict[str, str]:
    """Return what `_about` has as lines of the screen."""
    about = _about(entry, record)
    fields = {name: "" if value is None else str(value) for name, value in about.items()}
    fields |= {
        "goal": GOALS[entry.goal],
        "level": entry.told_level,
        "recipe": _recipe(entry),
        "memory limit": str(entry.instance.memory_limit),
        "memory rule": entry.instance.memory_rule.told,
        "note": instances.rounding_note(entry.instance.metadata) or "",
    }
    if record is not None:
        how = "certificate" if record.certified else "closed form, no certificate"
        fields |= {
            "optimum": record.interval,
            "gap": percent(record.gap),
            "proof": f"{record.proof}, {how}",
        }
        if record.certificate is not None and not fields["certificate"]:
            missing = f"not installed; the repository has {CERTIFICATES}/{record.certificate.name}"
            fields["certificate"] = missing
    return fields


def _recipe(entry: LibraryEntry) -> str:
    """Return the source that draws the instance again; empty if its requests are stored."""
    if entry.recipe is None:
        return ""
    settings = {**entry.recipe["parameters"], "seed": entry.recipe["seed"]}
    given = {key: str(value) for key, value in settings.items()}
    return str(Source("generator", entry.recipe["generator"], given))

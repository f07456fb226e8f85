"""The registered policies, routers and generators, the presets, and the library of instances."""

from __future__ import annotations

import inspect
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

import instances
from hindsight.outcomes.result import percent
from instances import (
    LibraryEntry,
    Record,
    RecordStore,
    UnknownNameError,
    generator_documentation,
    generator_parameters,
)
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

from .json_output import Answer, JsonFile, answer, check_json
from .sources import Source

ENGINES = "engines"
CERTIFICATES = "instances/catalogue/certificates"
GOALS = {
    "total_latency": "total latency, rounds",
    "makespan": "makespan, rounds",
    "preemptive_total_latency": "total latency with preemption, rounds",
    "seconds": "total latency, seconds",
    "late_requests": "late requests",
}
"""Minimised objectives, by the names that entries of the library have for them."""

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
    if kind == "library":
        found, shown = _library(pattern)
        answer(json_file, "show", {"instances": found}, shown)
        return
    if what not in LISTS:
        raise UnknownNameError("kind of names", what, [*LISTS, "library", "library:NAME"])
    rows = LISTS[what]()
    answer(json_file, "show", {what: rows}, table_of(rows))


def _row(kind: str, name: str, text: str | None, known: Mapping[str, inspect.Parameter]) -> Row:
    """Return a name with the first line of its docstring, and its parameters with defaults."""
    shown = (k if one.default is one.empty else f"{k}={one.default}" for k, one in known.items())
    what = (text or "").partition("\n")[0]
    return {kind: name, "what": what, "parameters": ", ".join(shown)}


def _policies() -> list[Row]:
    rows = []
    for name in policy_names():
        made = policy_class(name)
        row = _row("policy", name, inspect.getdoc(made), policy_parameters(name))
        rows.append({"policy": name, "from": _origin(made.__module__), **row})
    return rows


def _origin(module: str) -> str:
    """Return the paper or the engine that a policy is from, by its folder; else its module."""
    package, _, rest = module.partition(".policies.")
    if package != "online":
        return module.partition("@")[0]
    folder = rest.partition(".")[0]
    if folder[-2:].isdigit():
        return f"[{folder.upper()}]"
    return "an engine" if folder == ENGINES else ""


def _routers() -> list[Row]:
    rows = []
    for name in router_names():
        made = RouterSpec.registry[name]
        rows.append(_row("router", name, inspect.getdoc(made), named_parameters(made)))
    return rows


def _generators() -> list[Row]:
    return [
        _row("generator", name, generator_documentation(name), generator_parameters(name))
        for name in instances.generator_names()
    ]


def _presets() -> list[Row]:
    return [
        {
            "preset": one.name,
            "memory_limit_tokens": one.memory_limit,
            "batch_time": type(one.batch_time).__name__,
        }
        for one in map(preset, preset_names())
    ]


LISTS: dict[str, Callable[[], list[Row]]] = {
    "policies": _policies,
    "routers": _routers,
    "generators": _generators,
    "presets": _presets,
}


def _library(pattern: str) -> tuple[list[Row], Table | Mapping[str, str]]:
    """Return entries of the library for JSON, and what the screen shows of them."""
    store, entries = RecordStore(), instances.library().matching(*filter(None, [pattern]))
    known = {entry.name: store.record(entry) for entry in entries}
    answers = [_about(entry, known[entry.name]) for entry in entries]
    found = [one.found for one in answers]
    if not pattern:
        return found, _set_table(known)
    if len(entries) == 1:
        return found, answers[0].shown
    columns = ("instance", "optimum", "gap", "status", "requests", "goal")
    rows = [{name: one.shown.get(name, "") for name in columns} for one in answers]
    return found, table_of(rows, numbers=("optimum", "gap", "requests"))


def _set_table(known: Mapping[str, Record | None]) -> Table:
    rows = []
    for one in instances.library().sets:
        found = [record for entry in one if (record := known[entry.name]) is not None]
        gaps = [record.gap for record in found if record.status == "open"]
        sizes = [entry.n for entry in one]
        row = {
            "set": one.name,
            "instances": len(one),
            "n": "..".join(map(str, sorted({min(sizes), max(sizes)}))),
            "closed": len(found) - len(gaps),
            "open": len(gaps),
            "median gap": percent(statistics.median(gaps), ".2f") if gaps else "",
            "what": one.title,
        }
        rows.append(row)
    main = ("set", "instances", "closed", "open", "median gap", "what", "n")
    return table_of(rows, main=main, numbers=("n", "median gap"))


def _about(entry: LibraryEntry, record: Record | None) -> Answer:
    """Return what is known of an instance, for JSON and as lines of the screen."""
    found = Answer()
    found.add("instance", entry.name, "instance")
    for name in ("set", "source", "licence"):
        found.add(name, getattr(entry, name), name)
    found.add("requests", entry.n, "requests")
    found.show("memory limit", entry.instance.memory_limit)
    found.show("memory rule", entry.instance.memory_rule.told)
    found.add("goal", entry.goal, "goal", GOALS[entry.goal])
    found.add("batch_time", entry.batch_time, "batch time")
    level = None if entry.level is None else asdict(entry.level)
    found.add("level", level, "level", entry.told_level)
    found.add("digest", entry.digest, "digest")
    recipe = None if entry.recipe is None else dict(entry.recipe)
    found.add("recipe", recipe, "recipe", _recipe(entry))
    found.show("note", instances.rounding_note(entry.instance.metadata))
    found.add("status", None if record is None else record.status, "status")
    if record is None:
        return found
    ends = [record.lower_bound, record.upper_bound]
    found.add("optimum", ends, "optimum", record.interval)
    found.add("gap", record.gap, "gap", percent(record.gap))
    how = "certificate" if record.certified else "closed form, no certificate"
    found.add("proof", record.proof, "proof", f"{record.proof}, {how}")
    for name in ("date", "method", "version"):
        found.add(name, getattr(record, name), name)
    if (path := record.certificate) is not None and not path.exists():
        found.show("certificate", f"not installed; the repository has {CERTIFICATES}/{path.name}")
        path = None
    found.add("certificate", path, "certificate")
    return found


def _recipe(entry: LibraryEntry) -> str:
    """Return the source that draws the instance again; empty if its requests are stored."""
    if entry.recipe is None:
        return ""
    settings = {**entry.recipe["parameters"], "seed": entry.recipe["seed"]}
    given = {key: str(value) for key, value in settings.items()}
    return str(Source("generator", entry.recipe["generator"], given))

"""The registered policies, routers and generators, the presets, and the library of instances."""

from __future__ import annotations

import inspect
import statistics
from collections.abc import Mapping
from typing import Annotated, Any

from typer import Argument

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

from .json_output import JsonFile, answer, check_json, lines_of
from .sources import Source

KINDS = {
    "policies": "policy",
    "routers": "router",
    "generators": "generator",
    "presets": "preset",
}
CERTIFICATES = "instances/catalogue/certificates"
OF_RECORD = ("gap", "proof", "certified", "date", "method", "version")

Row = dict[str, Any]


def show(
    what: Annotated[
        str,
        Argument(
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
        found, tables = _library(pattern)
        answer(json_file, "show", {"instances": found}, *(tables or found))
        return
    if what not in KINDS:
        raise UnknownNameError("kind of names", what, [*KINDS, "library", "library:NAME"])
    rows = _listed(what)
    answer(json_file, "show", {what: rows}, table_of(rows))


def _listed(kind: str) -> list[Row]:
    """Return names with the first lines of their docstrings, and parameters with defaults."""
    if kind == "presets":
        limits = {name: preset(name).memory_limit for name in preset_names()}
        return [{"preset": name, "memory_limit_tokens": limit} for name, limit in limits.items()]
    known: dict[str, tuple[str | None, Mapping[str, inspect.Parameter]]] = {}
    if kind == "policies":
        for name in policy_names():
            known[name] = inspect.getdoc(policy_class(name)), policy_parameters(name)
    elif kind == "routers":
        for name in router_names():
            made = RouterSpec.registry[name]
            known[name] = inspect.getdoc(made), named_parameters(made)
    else:
        for name in instances.generator_names():
            known[name] = generator_documentation(name), generator_parameters(name)
    rows = []
    for name, (about, parameters) in known.items():
        shown = (
            key if one.default is one.empty else f"{key}={one.default}"
            for key, one in parameters.items()
        )
        what = (about or "").partition("\n")[0]
        rows.append({KINDS[kind]: name, "what": what, "parameters": ", ".join(shown)})
    return rows


def _library(pattern: str) -> tuple[list[Row], list[Table]]:
    """Return entries of the library for JSON, and the tables that are printed of several."""
    store, entries = RecordStore(), instances.library().matching(*filter(None, [pattern]))
    known = {entry.name: store.record(entry) for entry in entries}
    found = [_about(entry, known[entry.name]) for entry in entries]
    if not pattern:
        return found, [_set_table(known)]
    if len(entries) == 1:
        return found, []
    columns = ("instance", "optimum", "gap", "status", "requests", "goal")
    rows = [{name: lines_of(one).get(name, "") for name in columns} for one in found]
    return found, [table_of(rows, numbers=("optimum", "gap", "requests"))]


def _set_table(known: Mapping[str, Record | None]) -> Table:
    rows = []
    for one in instances.library().sets:
        found = [record for entry in one if (record := known[entry.name]) is not None]
        gaps = [record.gap for record in found if record.status == "open"]
        row = {
            "set": one.name,
            "instances": len(one),
            "closed": len(found) - len(gaps),
            "open": len(gaps),
            "median gap": percent(statistics.median(gaps), ".2f") if gaps else "",
            "what": one.title,
        }
        rows.append(row)
    return table_of(rows, numbers=("median gap",))


def _about(entry: LibraryEntry, record: Record | None) -> Row:
    """Return the fields of an instance and of its record."""
    instance = entry.instance
    found = {
        "instance": entry.name,
        **{name: getattr(entry, name) for name in ("set", "source", "licence")},
        "requests": entry.n,
        "memory_limit_tokens": instance.memory_limit,
        "memory_rule": instance.memory_rule.told,
        **{name: getattr(entry, name) for name in ("goal", "batch_time", "level", "digest")},
        "recipe": _recipe(entry),
        "note": instances.rounding_note(instance.metadata),
        "status": None if record is None else record.status,
    }
    if record is None:
        return found
    path = record.certificate
    is_there = path is not None and path.exists()
    return {
        **found,
        "optimum": (record.lower_bound, record.upper_bound),
        **{name: getattr(record, name) for name in OF_RECORD},
        "certificate": path if is_there else None,
        "certificate_in_repository": None
        if path is None or is_there
        else f"{CERTIFICATES}/{path.name}",
    }


def _recipe(entry: LibraryEntry) -> str | None:
    """Return the source that draws the instance again; None if its requests are stored."""
    if entry.recipe is None:
        return None
    settings = {**entry.recipe["parameters"], "seed": entry.recipe["seed"]}
    given = {key: str(value) for key, value in settings.items()}
    return str(Source("generator", entry.recipe["generator"], given))

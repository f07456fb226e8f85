"""Subcommand `show`: list policies, routers, generators, presets, and instances of the library."""

from __future__ import annotations

import inspect
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import instances
from instances import LibraryEntry, LibrarySet, Record, RecordStore, UnknownNameError
from instances.batch_time.models import AffineTime
from instances.batch_time.presets import preset, preset_names
from instances.generators.registry import GENERATORS
from instances.registry import Registry
from online.policy_interface.policy import named_parameters
from online.policy_interface.specs import PolicySpec, RouterSpec

from .json_output import answer, check_json, instance_fields
from .sources import Source

CERTIFICATES = "instances/catalogue/certificates"
OF_ENTRY = ("set", "source", "licence", "goal", "batch_time", "level")
OF_RECORD = ("status", "gap", "proof", "certified", "date", "method", "version")
SEVERAL = ("instance", "optimum", "gap", "status", "requests", "goal")
"""Printed fields: OF_ENTRY for an instance, OF_RECORD for its record, SEVERAL in a list of them."""

REGISTRIES: dict[str, tuple[str, Registry[Any]]] = {
    "policies": ("policy", PolicySpec.registry),
    "routers": ("router", RouterSpec.registry),
    "generators": ("generator", GENERATORS),
}

Row = dict[str, Any]


def show(what: str = "policies", *, json: Path | None = None) -> None:
    """List the registered policies, or other things with a name, one per line.

    `library` lists the sets of named instances. `library:NAME` shows an instance with its record:
    the best known schedule and the best verified bound. Records are printed without a check;
    `verify library:NAME` checks them.

    Parameters
    ----------
    what : WHAT
        policies, routers, generators, presets, library, or library:NAME with a name, a set or a
        pattern such as 'library:j25-*-n2*'.
    json : FILE
        Write the answer as JSON; - is standard output, which then has nothing else.
    """
    check_json(json)
    kind, _, pattern = what.partition(":")
    if kind == "library":
        store, library = RecordStore(), instances.library()
        entries = library.matching(*filter(None, [pattern]))
        found = [_instance(entry, store.record(entry)) for entry in entries]
        part: Any = [{name: one.get(name) for name in SEVERAL} for one in found]
        if not pattern:
            by_set = {one: [row for row in found if row["set"] == one.name] for one in library.sets}
            part = [_summary(*item) for item in by_set.items()]
        elif len(found) == 1:
            (part,) = found
        answer(json, "show", {"instances": found}, part)
    elif what in REGISTRIES or what == "presets":
        rows = _registered(*REGISTRIES[what]) if what in REGISTRIES else _presets()
        answer(json, "show", {what: rows}, rows)
    else:
        known = [*REGISTRIES, "presets", "library", "library:NAME"]
        raise UnknownNameError("kind of names", what, known)


def _registered(kind: str, registry: Registry[Any]) -> list[Row]:
    """Return a row for each registered name: first line of its docstring, and parameters."""
    rows = []
    for name in registry.names():
        shown = (
            key if one.default is one.empty else f"{key}={one.default}"
            for key, one in named_parameters(registry[name]).items()
            if key != "rng"
        )
        about = (inspect.getdoc(registry[name]) or "").partition("\n")[0]
        rows.append({kind: name, "what": about, "parameters": ", ".join(shown)})
    return rows


def _presets() -> list[Row]:
    rows = []
    for one in map(preset, preset_names()):
        time: Any = one.batch_time
        empty = time.d0 if isinstance(time, AffineTime) else time.at(0)
        row = {"preset": one.name, "what": one.what, "empty_round_milliseconds": 1000 * empty}
        rows.append({**row, "memory_limit_tokens": one.memory_limit})
    return rows


def _instance(entry: LibraryEntry, record: Record | None) -> Row:
    """Return the fields of a library instance and of its record, if it has one."""
    instance, recipe, found = entry.instance, entry.recipe, dict[str, Any]()
    if recipe is not None:
        settings = {**recipe["parameters"], "seed": recipe["seed"]}
        given = {key: str(value) for key, value in settings.items()}
        found["recipe"] = str(Source("generator", recipe["generator"], given))
    if record is not None:
        found["optimum"] = (record.lower_bound, record.upper_bound)
        found |= {name: getattr(record, name) for name in OF_RECORD}
        if path := record.certificate:
            elsewhere = f"{CERTIFICATES}/{path.name} of the repository"
            found["certificate"] = path if path.exists() else elsewhere
    return {
        **instance_fields(instance),
        "memory_rule": instance.memory_rule.told,
        **{name: getattr(entry, name) for name in OF_ENTRY},
        "note": instances.rounding_note(instance.metadata),
        "status": None,
        **found,
    }


def _summary(one: LibrarySet, rows: Sequence[Row]) -> Row:
    """Return a row for a set of the library: its instances, closed records, open records, and gap.

    A record is closed if its optimum is proved, else open. The gap is the median of the relative
    gaps of open records.
    """
    gaps = [row["gap"] for row in rows if row["status"] == "open"]
    return {
        "set": one.name,
        "instances": len(one),
        "closed": sum(row["status"] == "closed" for row in rows),
        "open": len(gaps),
        "median_gap": statistics.median(gaps) if gaps else None,
        "what": one.title,
    }

"""Experiments as TOML, from a file or shipped as a preset."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from importlib import resources
from typing import Any

from instances import InvalidTypeError, InvalidValueError, MemoryRule, UnknownNameError
from instances.batch_time import parse_batch_time
from instances.files import parse_toml, read_bytes
from instances.user_modules import import_sources
from instances.validation import as_integer
from online.policy_interface.specs import AnyPolicy, PolicySpec, read_policy

from .checks import MOST_TRIALS
from .declaration import BATCH_TIME, POLICY_TIME_LIMIT, Experiment, Predictions, Solver
from .families import Family, InstanceFiles, InstanceSource, LibraryInstances, TraceWindows

SUFFIX = ".toml"

MOST_SETTINGS = 10_000
"""Of one grid."""


def preset_names() -> list[str]:
    """Names of the experiments that come with the package, sorted."""
    folder = resources.files(__package__) / "presets"
    return sorted(
        entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)
    )


def preset(name: str) -> Experiment:
    """An experiment that comes with the package.

    Raises
    ------
    UnknownNameError
        No such preset; the message lists those that are.
    """
    if name not in preset_names():
        raise UnknownNameError("preset", name, preset_names())
    file = resources.files(__package__) / "presets" / (name + SUFFIX)
    return parse_experiment(file.read_text("utf-8"), f"preset {name}")


def read_experiment(path: str | os.PathLike[str]) -> Experiment:
    """An experiment from a TOML file, whose paths are relative to it; see `parse_experiment`.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        It is not TOML.
    UnknownNameError, InvalidValueError, InvalidTypeError, MissingParameterError
        What it says.
    """
    return parse_experiment(read_bytes(path), str(path), os.path.dirname(path))


def parse_experiment(
    text: str | bytes, path: str = "experiment", folder: str | os.PathLike[str] = ""
) -> Experiment:
    """An experiment from TOML.

    Each table ``[[instances]]`` names a ``generator``, a ``trace``, a ``file`` or instances of the
    ``library``: one path or name or a list, each of which may be a pattern. Relative paths are
    relative to ``folder``.
    Tables ``[[instances]]``, ``[[policies]]`` and ``[[predictions]]`` take ``parameters`` and a
    ``grid``: lists of values, of which every combination is taken, the last named varying first.
    ``seeds`` are a list, or ``{start = 0, count = 10}``. ``policies`` may list plain names; a name
    is what `read_policy` reads. ``import`` lists modules and files that register what the rest
    names. Paths begin at ``folder``.

    Raises
    ------
    FileFormatError
        Not TOML.
    UnknownNameError, InvalidValueError, InvalidTypeError, MissingParameterError
        What it says.
    """
    document = parse_toml(text, path)
    known = (
        *("name", "import", "instances", "policies", "predictions", "policy_seeds", "solver"),
        *(BATCH_TIME, POLICY_TIME_LIMIT),
    )
    _check_keys(path, document, known)
    import_sources(_names(path, document.get("import", [])), folder)
    batch_time, memory_limit = None, None
    if BATCH_TIME in document:
        batch_time, memory_limit = parse_batch_time(_text(path, "experiment", document, BATCH_TIME))
    families = [
        family
        for entry in _entries(path, document, "instances", _INSTANCE_FIELDS)
        for family in _sources(path, entry, os.fspath(folder), memory_limit)
    ]
    if not families:
        raise InvalidValueError(path, "instances", [], "is missing: write a table [[instances]]")
    policies: list[AnyPolicy] | None = None
    if "policies" in document:
        policies = [
            replace(spec, params={**spec.params, **parameters})
            for entry in _entries(path, document, "policies", ("name", "parameters", "grid"))
            for spec in [read_policy(_text(path, "policies", entry, "name"), folder)]
            for parameters, _ in _combinations("policies", entry)
        ]
    predictions = [
        Predictions(_text(path, "predictions", entry, "name"), parameters)
        for entry in _entries(path, document, "predictions", ("name", "parameters", "grid"))
        for parameters, _ in _combinations("predictions", entry)
    ]
    return Experiment(
        name=_text(path, "experiment", document, "name"),
        families=families,
        policies=policies,
        predictions=predictions or (Predictions(),),
        policy_seeds=_seeds("policy_seeds", document.get("policy_seeds", [0])),
        solver=_solver(path, document.get("solver", {})),
        batch_time=batch_time,
        policy_time_limit=document.get(POLICY_TIME_LIMIT),
    )


def _names(path: str, found: Any) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise InvalidTypeError(path, "import", found, "is not a list of modules and files")
    return found


_KINDS = ("generator", "trace", "file", "library")
_INSTANCE_FIELDS = (*_KINDS, "parameters", "grid", "seeds", "label", "memory_rule", "faster")


def _sources(
    path: str, entry: Mapping[str, Any], folder: str, memory_limit: int | None
) -> Iterator[InstanceSource]:
    """What a table of instances stands for: a family for each setting of its grid."""
    given = [kind for kind in _KINDS if kind in entry]
    if len(given) != 1:
        reason = f"need one of {', '.join(_KINDS[:-1])} and {_KINDS[-1]}"
        raise InvalidValueError(path, "instances", dict(entry), reason)
    (kind,) = given
    _refuse_keys(f"{path}: instances: {kind}", entry, _UNUSED[kind])
    shared: dict[str, Any] = {
        "memory_rule": _memory_rule(path, entry.get("memory_rule", {})),
        "faster": entry.get("faster"),
    }
    if kind == "file":
        yield InstanceFiles(entry["file"], _label(entry, {}), folder, **shared)
        return
    if kind == "library":
        yield LibraryInstances(entry["library"], _label(entry, {}), **shared)
        return
    for parameters, varied in _combinations("instances", entry):
        name, label = _text(path, "instances", entry, kind), _label(entry, varied)
        if kind == "generator":
            seeds = _seeds("instances", entry.get("seeds", [0]))
            yield Family(name, parameters, seeds, label, **shared)
        else:
            if memory_limit is not None:
                parameters = {"memory_limit": memory_limit, **parameters}
            yield TraceWindows(name, parameters, label, folder, **shared)


_UNUSED = {
    "generator": (),
    "trace": ("seeds",),
    **dict.fromkeys(("file", "library"), ("seeds", "parameters", "grid")),
}


def _refuse_keys(owner: str, entry: Mapping[str, Any], names: Iterable[str]) -> None:
    for key in names:
        if key in entry:
            raise InvalidValueError(owner, key, entry[key], "is not one of its fields")


def _memory_rule(path: str, entry: Any) -> MemoryRule:
    if not isinstance(entry, dict):
        raise InvalidTypeError(f"{path}: instances", "memory_rule", entry, "is not a table")
    _check_keys(f"{path}: memory_rule", entry, [field.name for field in fields(MemoryRule)])
    return MemoryRule(**entry)


def _solver(path: str, entry: Any) -> Solver | None:
    """``solver = false`` leaves the optima out."""
    if entry is False:
        return None
    if not isinstance(entry, dict):
        raise InvalidTypeError(path, "solver", entry, "is neither a table nor false")
    _check_keys(f"{path}: solver", entry, ("time_limit", "method", "seed", "threads"))
    return Solver(**entry)


def _entries(
    path: str, document: Mapping[str, Any], name: str, known: Iterable[str]
) -> list[dict[str, Any]]:
    found = document.get(name, [])
    if not isinstance(found, list):
        raise InvalidTypeError(path, name, found, f"is not a list: write [[{name}]]")
    entries: list[dict[str, Any]] = []
    for entry in found:
        if isinstance(entry, str) and name != "instances":
            entries.append({"name": entry})
            continue
        if not isinstance(entry, dict):
            raise InvalidTypeError(path, name, entry, "is not a table")
        _check_keys(f"{path}: {name}", entry, known)
        entries.append(entry)
    return entries


def _combinations(
    name: str, entry: Mapping[str, Any]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every setting of the grid as (all parameters, those of the grid)."""
    fixed, grid = entry.get("parameters", {}), entry.get("grid", {})
    for field, found in (("parameters", fixed), ("grid", grid)):
        if not isinstance(found, dict):
            raise InvalidTypeError(name, field, found, "is not a table")
    for key, values in grid.items():
        if not isinstance(values, list):
            raise InvalidTypeError(f"{name}: grid", key, values, "is not a list of values")
        if not values:
            raise InvalidValueError(f"{name}: grid", key, values, "is empty")
        if key in fixed:
            raise InvalidValueError(f"{name}: grid", key, values, "is among the parameters too")
    number = math.prod(len(values) for values in grid.values())
    if number > MOST_SETTINGS:
        reason = f"stands for {number} combinations, more than {MOST_SETTINGS}"
        raise InvalidValueError(name, "grid", list(grid), reason)
    settings = [
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    ]
    return [({**fixed, **varied}, varied) for varied in settings]


def _label(entry: Mapping[str, Any], varied: dict[str, Any]) -> str | None:
    """The label given, told apart by what the grid varies."""
    label = entry.get("label")
    if label is None:
        return None
    if not isinstance(label, str) or not label.strip():
        raise InvalidValueError("instances", "label", label, "is not a name")
    return PolicySpec(label, varied).label


def _seeds(owner: str, found: Any) -> Iterable[int]:
    if not isinstance(found, dict):
        return found  # type: ignore[no-any-return]  # the declaration checks it
    _check_keys(f"{owner}: seeds", found, ("start", "count"))
    start = as_integer(found.get("start", 0), owner, "start", minimum=0)
    count = as_integer(found.get("count", 1), owner, "count", minimum=1, maximum=MOST_TRIALS)
    return range(start, start + count)


def _text(path: str, name: str, entry: Mapping[str, Any], key: str) -> str:
    found = entry.get(key)
    if not isinstance(found, str):
        reason = "is missing" if found is None else "is not a text"
        raise InvalidTypeError(f"{path}: {name}", key, found, reason)
    return found


def _check_keys(owner: str, entry: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in entry:
        if key not in known:
            reason = f"is not one of its fields ({', '.join(known)})"
            raise InvalidValueError(owner, key, entry[key], reason)

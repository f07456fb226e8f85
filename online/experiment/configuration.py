"""Experiments as TOML, from a file or shipped as a preset."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from importlib import resources
from typing import Any

from instances import (
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    ServiceLevel,
    UnknownNameError,
)
from instances.files import parse_toml, read_bytes
from instances.service_level import Limits
from instances.user_modules import import_sources
from instances.validation import as_integer
from online.batch_time.measured_tables import read_batch_time
from online.policy_interface.specs import AnyPolicy, PolicySpec, read_policy

from .declaration import BATCH_TIME, LEVEL, POLICY_TIME_LIMIT, Experiment, Predictions, Solver
from .families import (
    MOST_TRIALS,
    Family,
    InstanceFiles,
    InstanceSource,
    LibraryInstances,
    TraceWindows,
)

SUFFIX = ".toml"

MOST_SETTINGS = 10_000
"""Combinations that one grid may stand for."""

_LISTS = ("import", "instances", "policies", "predictions", "policy_seeds")
_FIELDS = ("name", *_LISTS, "solver", BATCH_TIME, POLICY_TIME_LIMIT, LEVEL)
_NAMED_FIELDS = ("name", "parameters", "grid")
_KINDS: dict[str, tuple[str, ...]] = {
    "generator": (),
    "trace": ("seeds",),
    "file": ("seeds", "parameters", "grid"),
    "library": ("seeds", "parameters", "grid"),
}
"""Kinds of instances, and the fields that each does without."""
_INSTANCE_FIELDS = (*_KINDS, *_NAMED_FIELDS[1:], "seeds", "label", "memory_rule", "faster")


def preset_names() -> list[str]:
    """List the experiments that come with the package, sorted."""
    folder = resources.files(__package__) / "presets"
    return sorted(
        entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)
    )


def preset(name: str) -> Experiment:
    """Read an experiment that comes with the package.

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
    """Read an experiment from a TOML file, whose paths are relative to it; see `parse_experiment`.

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
    """Read an experiment from TOML.

    Each table ``[[instances]]`` names a ``generator``, a ``trace``, a ``file`` or instances of the
    ``library``: one path or name or a list, each of which may be a pattern. Relative paths are
    relative to ``folder``.
    Tables ``[[instances]]``, ``[[policies]]`` and ``[[predictions]]`` take ``parameters`` and a
    ``grid``: lists of values, of which every combination is taken, the last named varying first.
    ``seeds`` are a list, or ``{start = 0, count = 10}``. ``policies`` may list plain names; a name
    is what `read_policy` reads. ``import`` lists modules and files that register what the rest
    names. Paths begin at ``folder``. A table ``[level]`` has the limits of a service level.

    Raises
    ------
    FileFormatError
        Not TOML.
    UnknownNameError, InvalidValueError, InvalidTypeError, MissingParameterError
        What it says.
    """
    document = parse_toml(text, path)
    _check_keys(path, document, _FIELDS)
    imported = document.get("import", [])
    if not isinstance(imported, list) or not all(isinstance(name, str) for name in imported):
        raise InvalidTypeError(path, "import", imported, "is not a list of modules and files")
    import_sources(imported, folder)
    batch_time, memory_limit = None, None
    if BATCH_TIME in document:
        batch_time, memory_limit = read_batch_time(_text(path, "experiment", document, BATCH_TIME))
    families = [
        family
        for entry in _entries(path, document, "instances", _INSTANCE_FIELDS)
        for family in _sources(path, entry, os.fspath(folder), memory_limit)
    ]
    if not families:
        raise InvalidValueError(path, "instances", [], "is missing: write a table [[instances]]")
    policies: list[AnyPolicy] = [
        replace(spec, params={**spec.params, **parameters})
        for entry in _entries(path, document, "policies", _NAMED_FIELDS)
        for spec in [read_policy(_text(path, "policies", entry, "name"), folder)]
        for parameters, _ in _combinations("policies", entry)
    ]
    predictions = [
        Predictions(_text(path, "predictions", entry, "name"), parameters)
        for entry in _entries(path, document, "predictions", _NAMED_FIELDS)
        for parameters, _ in _combinations("predictions", entry)
    ]
    return Experiment(
        name=_text(path, "experiment", document, "name"),
        families=families,
        policies=policies if "policies" in document else None,
        predictions=predictions or (Predictions(),),
        policy_seeds=_seeds("policy_seeds", document.get("policy_seeds", [0])),
        solver=_solver(path, document.get("solver", {})),
        batch_time=batch_time,
        policy_time_limit=document.get(POLICY_TIME_LIMIT),
        level=_level(path, document.get(LEVEL)),
    )


def _sources(
    path: str, entry: Mapping[str, Any], folder: str, memory_limit: int | None
) -> Iterator[InstanceSource]:
    """Yield the families that a table of instances stands for, one for each setting of its grid."""
    given = [kind for kind in _KINDS if kind in entry]
    if len(given) != 1:
        reason = "need one of generator, trace, file and library"
        raise InvalidValueError(path, "instances", dict(entry), reason)
    (kind,) = given
    for key in _KINDS[kind]:
        if key in entry:
            owner = f"{path}: instances: {kind}"
            raise InvalidValueError(owner, key, entry[key], "is not one of its fields")
    rule = entry.get("memory_rule", {})
    _check_table(f"{path}: instances", "memory_rule", rule)
    _check_keys(f"{path}: memory_rule", rule, [field.name for field in fields(MemoryRule)])
    shared: dict[str, Any] = {"memory_rule": MemoryRule(**rule), "faster": entry.get("faster")}
    for parameters, varied in _combinations("instances", entry):
        label = _label(entry, varied)
        if kind == "file":
            yield InstanceFiles(entry["file"], label, folder, **shared)
        elif kind == "library":
            yield LibraryInstances(entry["library"], label, **shared)
        elif kind == "generator":
            seeds = _seeds("instances", entry.get("seeds", [0]))
            name = _text(path, "instances", entry, kind)
            yield Family(name, parameters, seeds, label, **shared)
        else:
            # The batch time's own memory limit, unless another is given.
            known = {} if memory_limit is None else {"memory_limit": memory_limit}
            name = _text(path, "instances", entry, kind)
            yield TraceWindows(name, {**known, **parameters}, label, folder, **shared)


def _solver(path: str, entry: Any) -> Solver | None:
    """Read the solver's limits; ``solver = false`` leaves the optima out."""
    if entry is False:
        return None
    _check_table(path, "solver", entry, "is neither a table nor false")
    _check_keys(f"{path}: solver", entry, [field.name for field in fields(Solver)])
    return Solver(**entry)


def _level(path: str, entry: Any) -> ServiceLevel | None:
    if entry is None:
        return None
    _check_table(path, LEVEL, entry)
    _check_keys(f"{path}: {LEVEL}", entry, Limits._fields)
    return ServiceLevel(**entry)


def _entries(
    path: str, document: Mapping[str, Any], name: str, known: Iterable[str]
) -> list[dict[str, Any]]:
    found = document.get(name, [])
    if not isinstance(found, list):
        raise InvalidTypeError(path, name, found, f"is not a list: write [[{name}]]")
    plain = name != "instances"
    entries = [{"name": one} if plain and isinstance(one, str) else one for one in found]
    for entry in entries:
        _check_table(path, name, entry)
        _check_keys(f"{path}: {name}", entry, known)
    return entries


def _combinations(
    name: str, entry: Mapping[str, Any]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """List every setting of the grid as (all parameters, those of the grid)."""
    fixed, grid = entry.get("parameters", {}), entry.get("grid", {})
    _check_table(name, "parameters", fixed)
    _check_table(name, "grid", grid)
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
    settings = (
        dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())
    )
    return [({**fixed, **varied}, varied) for varied in settings]


def _label(entry: Mapping[str, Any], varied: dict[str, Any]) -> str | None:
    """Return the label given, told apart by what the grid varies."""
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


def _check_table(owner: str, name: str, found: Any, reason: str = "is not a table") -> None:
    if not isinstance(found, dict):
        raise InvalidTypeError(owner, name, found, reason)


def _check_keys(owner: str, entry: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in entry:
        if key not in known:
            reason = f"is not one of its fields ({', '.join(known)})"
            raise InvalidValueError(owner, key, entry[key], reason)

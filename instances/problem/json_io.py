"""Read and write instances as JSON files. A file has the version of its format."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError
from instances.files import check_head, check_shape, parse_json, read_bytes, write_atomically
from instances.validation import as_integer

from .instance import Instance
from .memory_rule import TOKENS, MemoryRule
from .request import Request
from .schedule import Schedule

HEAD = {"format": "llm-hindsight/instance", "version": 1}
REQUEST_KEYS = ("id", "arrival_time", "prompt_length", "output_length")
INSTANCE_KEYS = (*HEAD, "name", "metadata", "memory_limit", "memory_rule", "replicas", "requests")

KNOWN_BOUNDS = "known_bounds"
"""Metadata key under which an instance stores known bounds on its optimum."""


@dataclass(frozen=True)
class KnownBounds:
    """Known bounds on the optimal total latency of an instance, in rounds; None if unknown.

    `attached_to` and the function `known_bounds` check whether the bounds fit the instance. `load`
    does not check this.

    Attributes
    ----------
    upper_bound : int or None
        Total latency of a feasible schedule, weighted if the instance has weights.
    lower_bound : int or None
        Lower bound that a solver proved in floating point.
    certified_lower_bound : int or None
        Lower bound proved in exact arithmetic.
    start_times : list[int] or None
        Start times of a schedule with total latency ``upper_bound``.
    source : str or None
        Origin of the bounds, as text.
    """

    upper_bound: int | None = None
    lower_bound: int | None = None
    certified_lower_bound: int | None = None
    start_times: list[int] | None = field(default=None, repr=False)
    source: str | None = None

    def attached_to(self, instance: Instance) -> Instance:
        """Return a copy of ``instance`` with these bounds in its metadata.

        Raises
        ------
        InvalidValueError
            The start times are not a feasible schedule of total latency ``upper_bound``, or a lower
            bound exceeds the upper bound.
        """
        self._check(instance)
        entries = {"digest": instance.digest, **asdict(self)}
        return instance.replaced(metadata={**instance.metadata, KNOWN_BOUNDS: entries})

    def _check(self, instance: Instance) -> None:
        owner, names = "known bounds", ("certified_lower_bound", "lower_bound", "upper_bound")
        given = ((name, getattr(self, name)) for name in names)
        bounds = [as_integer(one, owner, name, minimum=0) for name, one in given if one is not None]
        if bounds != sorted(bounds):
            raise InvalidValueError(owner, ", ".join(names), bounds, "do not increase")
        if self.start_times is None:
            return
        if not isinstance(self.start_times, list):
            raise InvalidTypeError(owner, "start_times", self.start_times, "is not a list")
        schedule = Schedule(instance, self.start_times)
        for violation in schedule.violations():
            raise InvalidValueError(owner, "start_times", "...", f"is infeasible: {violation}")
        if schedule.total_latency != self.upper_bound:
            reason = f"differs from the start times' total latency {schedule.total_latency}"
            raise InvalidValueError(owner, "upper_bound", self.upper_bound, reason)


def known_bounds(instance: Instance) -> KnownBounds | None:
    """Return the known bounds in the metadata of an instance, after a check. None without any.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        The bounds belong to another instance, the start times are not a feasible schedule of total
        latency ``upper_bound``, or a lower bound exceeds the upper bound.
    """
    entries = instance.metadata.get(KNOWN_BOUNDS)
    if entries is None:
        return None
    if not isinstance(entries, dict):
        raise InvalidTypeError("metadata", KNOWN_BOUNDS, entries, "is not a JSON object")
    if (digest := entries.get("digest")) != instance.digest:
        raise InvalidValueError("known bounds", "digest", digest, "belongs to another instance")
    bounds = KnownBounds(**{one.name: entries.get(one.name) for one in fields(KnownBounds)})
    bounds._check(instance)
    return bounds


def save(instance: Instance, path: str | os.PathLike[str]) -> None:
    """Write an instance to a JSON file, with its metadata and known bounds.

    Raises
    ------
    OSError
        The file cannot be written. No partial file is left.
    InvalidTypeError
        The metadata cannot be written as JSON.
    """
    rule = {} if instance.memory_rule == TOKENS else {"memory_rule": asdict(instance.memory_rule)}
    document = {
        **HEAD,
        "name": instance.name,
        "memory_limit": instance.memory_limit,
        **rule,
        **({"replicas": instance.replicas} if instance.replicas > 1 else {}),
        "metadata": instance.metadata,
        "requests": [
            {key: getattr(request, key) for key in REQUEST_KEYS}
            | ({} if request.weight == 1 else {"weight": request.weight})
            for request in instance
        ],
    }
    try:
        check_shape(document, path)
        content = json.dumps(document, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        reason = f"cannot be written as JSON: {error}"
        raise InvalidTypeError("instance", "metadata", "...", reason) from error
    write_atomically(path, content + "\n")


def load(path: str | os.PathLike[str]) -> Instance:
    """Read an instance written by `save`.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        The file is not valid JSON, a key is duplicate, missing or unknown, or the file is not an
        instance in this version of the format.
    InvalidValueError, InvalidTypeError
        A value is not allowed in an `Instance`, such as a negative length.
    """
    document = parse_json(read_bytes(path), path)
    check_head(document, HEAD, path)
    _check_object(document, path, "instance", ("memory_limit", "requests"), INSTANCE_KEYS)
    if not isinstance(document["requests"], list):
        raise FileFormatError(path, "'requests' is not a list")
    requests, known = [], (*REQUEST_KEYS, "weight")
    for position, entry in enumerate(document["requests"]):
        _check_object(entry, path, f"request {position}", REQUEST_KEYS[2:], known)
        label = position if entry.get("id") is None else entry["id"]
        requests.append(Request(**{"arrival_time": 0} | entry | {"id": label}))
    rule = document.get("memory_rule", {})
    _check_object(rule, path, "memory_rule", (), [one.name for one in fields(MemoryRule)])
    given = {key: document[key] for key in ("name", "metadata", "replicas") if key in document}
    return Instance(requests, document["memory_limit"], memory_rule=MemoryRule(**rule), **given)


def _check_object(
    entry: Any, path: object, name: str, required: Iterable[str], known: Iterable[str]
) -> None:
    """Raise an error unless ``entry`` is a JSON object with all required and only known keys."""
    if not isinstance(entry, dict):
        raise FileFormatError(path, f"{name} is not a JSON object")
    for key in required:
        if key not in entry:
            raise FileFormatError(path, f"{name}: key {key!r} is missing")
    for key in sorted(entry.keys() - set(known)):
        raise FileFormatError(path, f"{name}: unknown key {key!r}")

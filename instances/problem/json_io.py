"""Instances and schedules as versioned JSON."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from typing import Any

from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError
from instances.files import check_shape, parse_json, read_bytes, write_atomically
from instances.validation import as_integer

from .fleet_schedule import FleetSchedule, as_assignment, by_replica
from .instance import Instance
from .memory_rule import TOKENS, MemoryRule
from .preemptive_schedule import PreemptiveSchedule
from .request import Request
from .schedule import Schedule

FORMAT = "llm-hindsight/instance"
SCHEDULE_FORMAT = "llm-hindsight/schedule"
VERSION = 1
REQUEST_KEYS = ("id", "arrival_time", "prompt_length", "output_length")

KNOWN_BOUNDS = "known_bounds"
"""Metadata key under which what is known of the optimum travels with an instance."""


@dataclass(frozen=True)
class KnownBounds:
    """Known bounds on the optimum of an instance; None for those that are not known.

    They are checked when attached and when asked for with `known_bounds`, not by `load`.

    Attributes
    ----------
    upper_bound : int or None
        Total latency of a feasible schedule; weighted if the instance is.
    lower_bound : int or None
        Proved by a solver in floating point.
    certified_lower_bound : int or None
        Proved in exact arithmetic.
    start_times : tuple[int, ...] or None
        A schedule of total latency ``upper_bound``.
    source : str or None
        Where the numbers come from.
    """

    upper_bound: int | None = None
    lower_bound: int | None = None
    certified_lower_bound: int | None = None
    start_times: tuple[int, ...] | None = None
    source: str | None = None

    def __repr__(self) -> str:
        bounds = f"[{self.lower_bound}, {self.upper_bound}]"
        return f"KnownBounds({bounds}, certified_lower_bound={self.certified_lower_bound})"

    def attached_to(self, instance: Instance) -> Instance:
        """A copy of ``instance`` that carries these bounds in its metadata.

        Raises
        ------
        InvalidValueError
            The start times are not a feasible schedule of total latency ``upper_bound``, or a lower
            bound exceeds the upper bound.
        """
        self._check(instance)
        entries = {"digest": instance.digest} | asdict(self)
        if self.start_times is not None:
            entries["start_times"] = list(self.start_times)
        return instance.with_metadata(**{KNOWN_BOUNDS: entries})

    def _check(self, instance: Instance) -> None:
        for field in ("upper_bound", "lower_bound", "certified_lower_bound"):
            if getattr(self, field) is not None:
                as_integer(getattr(self, field), "known bounds", field, minimum=0)
        if self.start_times is not None:
            schedule = Schedule(instance, self.start_times)
            violations = schedule.violations()
            if violations:
                reason = f"is infeasible: {violations[0]}"
                raise InvalidValueError("known bounds", "start_times", "...", reason)
            if schedule.total_latency != self.upper_bound:
                reason = f"differs from the start times' total latency {schedule.total_latency}"
                raise InvalidValueError("known bounds", "upper_bound", self.upper_bound, reason)
        certified, lower = self.certified_lower_bound, self.lower_bound
        if certified is not None and (lower is None or certified > lower):
            reason = f"exceeds lower_bound = {lower}"
            raise InvalidValueError("known bounds", "certified_lower_bound", certified, reason)
        for field in ("lower_bound", "certified_lower_bound"):
            bound = getattr(self, field)
            if bound is not None and self.upper_bound is not None and bound > self.upper_bound:
                reason = f"exceeds upper_bound = {self.upper_bound}"
                raise InvalidValueError("known bounds", field, bound, reason)


def known_bounds(instance: Instance) -> KnownBounds | None:
    """The bounds an instance carries, or None; they are re-checked against the instance.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        The bounds contradict the instance or themselves.
    """
    entries = instance.metadata.get(KNOWN_BOUNDS)
    if entries is None:
        return None
    if not isinstance(entries, dict):
        raise InvalidTypeError("metadata", KNOWN_BOUNDS, entries, "is not a JSON object")
    if entries.get("digest") != instance.digest:
        raise InvalidValueError(
            "known bounds", "digest", entries.get("digest"), "belongs to another instance"
        )
    starts = entries.get("start_times")
    if starts is not None and not isinstance(starts, list):
        raise InvalidTypeError("known bounds", "start_times", starts, "is not a list")
    given = {field.name: entries.get(field.name) for field in fields(KnownBounds)}
    bounds = KnownBounds(**given | {"start_times": None if starts is None else tuple(starts)})
    bounds._check(instance)
    return bounds


def to_document(instance: Instance) -> dict[str, Any]:
    """The instance as a JSON-ready dictionary."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": instance.name,
        "memory_limit": instance.memory_limit,
        **({} if instance.memory_rule == TOKENS else {"memory_rule": asdict(instance.memory_rule)}),
        **({"replicas": instance.replicas} if instance.replicas > 1 else {}),
        "metadata": dict(instance.metadata),
        "requests": [
            {key: getattr(request, key) for key in REQUEST_KEYS}
            | ({} if request.weight == 1 else {"weight": request.weight})
            for request in instance
        ],
    }


def from_document(document: Any, path: str = "document") -> Instance:
    """Rebuild an instance from `to_document`'s dictionary.

    Raises
    ------
    FileFormatError
        A key is missing or unknown, or the format or version is another one.
    InvalidValueError, InvalidTypeError
        What `Request` and `Instance` refuse.
    """
    optional = ("name", "metadata", "memory_rule", "replicas")
    _check_keys(document, path, FORMAT, ("memory_limit", "requests"), optional)
    if not isinstance(document["requests"], list):
        raise FileFormatError(path, "'requests' is not a list")
    try:
        json.dumps(document.get("metadata"), allow_nan=False)
    except ValueError as error:
        raise FileFormatError(path, f"metadata is not valid JSON: {error}") from error
    requests = [
        _request(entry, position, path) for position, entry in enumerate(document["requests"])
    ]
    return Instance(
        requests,
        document["memory_limit"],
        document.get("name"),
        document.get("metadata"),
        memory_rule=_memory_rule(document.get("memory_rule", {}), path),
        replicas=document.get("replicas", 1),
    )


def _check_keys(
    document: Any, path: str, expected: str, required: tuple[str, ...], optional: tuple[str, ...]
) -> None:
    """Refuse what is no object of that format and this version with these keys."""
    if not isinstance(document, dict):
        raise FileFormatError(path, "the top level is not a JSON object")
    if document.get("format") != expected:
        raise FileFormatError(path, f"format is {document.get('format')!r}, expected {expected!r}")
    unknown = set(document) - {"format", "version", *required, *optional}
    if unknown:
        raise FileFormatError(path, f"unknown key {min(unknown)!r}")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        raise FileFormatError(path, f"version is {version!r}; this release reads {VERSION}")
    for key in required:
        if key not in document:
            raise FileFormatError(path, f"key {key!r} is missing")


def _memory_rule(entry: Any, path: str) -> MemoryRule:
    if not isinstance(entry, dict):
        raise FileFormatError(path, "'memory_rule' is not a JSON object")
    unknown = set(entry) - {field.name for field in fields(MemoryRule)}
    if unknown:
        raise FileFormatError(path, f"'memory_rule' has the unknown key {min(unknown)!r}")
    return MemoryRule(**entry)


def _request(entry: Any, position: int, path: str) -> Request:
    if not isinstance(entry, dict):
        raise FileFormatError(path, f"request {position} is not a JSON object")
    for key in ("prompt_length", "output_length"):
        if key not in entry:
            raise FileFormatError(path, f"request {position} lacks {key!r}")
    unknown = set(entry).difference(REQUEST_KEYS, ("weight",))
    if unknown:
        raise FileFormatError(path, f"request {position} has the unknown key {min(unknown)!r}")
    identifier = entry.get("id")
    return Request(
        entry.get("arrival_time", 0),
        entry["prompt_length"],
        entry["output_length"],
        position if identifier is None else identifier,
        entry.get("weight", 1),
    )


def save(instance: Instance, path: str | os.PathLike[str]) -> None:
    """Write an instance, with its metadata and known bounds, as JSON.

    Raises
    ------
    OSError
        The path cannot be written; no partial file is left.
    InvalidTypeError
        Metadata that JSON cannot hold.
    """
    _write(to_document(instance), path)


def load(path: str | os.PathLike[str]) -> Instance:
    """Read an instance written by `save`.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        Not JSON, truncated, a key given twice, or not an instance.
    InvalidValueError, InvalidTypeError
        A field the model cannot hold.
    """
    return from_document(parse_json(read_bytes(path), path), str(path))


def save_schedule(
    schedule: Schedule | PreemptiveSchedule | FleetSchedule, path: str | os.PathLike[str]
) -> None:
    """Write a schedule in rounds, feasible or not, with its instance, as JSON.

    Raises
    ------
    OSError
        The path cannot be written; no partial file is left.
    InvalidTypeError
        Metadata of the instance that JSON cannot hold.
    """
    document: dict[str, Any] = {
        "format": SCHEDULE_FORMAT,
        "version": VERSION,
        "instance": to_document(schedule.instance),
    }
    document |= schedule_document(schedule)
    _write(document, path)


def schedule_document(schedule: Schedule | PreemptiveSchedule | FleetSchedule) -> dict[str, Any]:
    """Return the rounds of a schedule, and the replica of each request of a fleet, for JSON."""
    if isinstance(schedule, Schedule):
        return {"start_times": schedule.start_times.tolist()}
    if isinstance(schedule, PreemptiveSchedule):
        return {"stretches": schedule.stretches}
    document: dict[str, Any] = {"assignment": schedule.assignment.tolist()}
    for own, part in zip(schedule.positions, schedule.parts, strict=True):
        if part is not None:
            for key, rounds in schedule_document(part).items():
                column = document.setdefault(key, [None] * len(schedule.problem))
                for position, one in zip(own.tolist(), rounds, strict=True):
                    column[position] = one
    return document


def load_schedule(
    path: str | os.PathLike[str],
) -> Schedule | PreemptiveSchedule | FleetSchedule:
    """Read a schedule written by `save_schedule`.

    It is a `PreemptiveSchedule` if it has stretches, and a `FleetSchedule` if it has an assignment.

    Like any schedule it may be infeasible: ask its ``violations``.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        Not JSON, truncated, a key given twice, or not a schedule of one kind.
    InvalidValueError, InvalidTypeError
        A field the model cannot hold.
    """
    document, name = parse_json(read_bytes(path), path), str(path)
    kinds = ("start_times", "stretches")
    _check_keys(document, name, SCHEDULE_FORMAT, ("instance",), (*kinds, "assignment"))
    given = [key for key in kinds if key in document]
    if len(given) != 1:
        raise FileFormatError(path, "holds not one of 'start_times' and 'stretches'")
    instance, rounds = from_document(document["instance"], name), document[given[0]]
    if not isinstance(rounds, list):
        raise FileFormatError(path, f"{given[0]!r} is not a list")
    if "assignment" in document:
        return _fleet_schedule(instance, document["assignment"], rounds, given[0], path)
    return _machine_schedule(instance, rounds, given[0], path)


def _fleet_schedule(
    instance: Instance, assignment: Any, rounds: list[Any], kind: str, path: Any
) -> FleetSchedule:
    if not isinstance(assignment, list):
        raise FileFormatError(path, "'assignment' is not a list")
    replicas = as_assignment(instance, assignment)
    if len(rounds) != len(instance):
        raise FileFormatError(path, f"{kind!r} has not one entry for each request")
    parts = []
    for own in by_replica(replicas, instance.replicas):
        there = [rounds[position] for position in own.tolist()]
        part = _machine_schedule(instance.alone(own), there, kind, path) if there else None
        parts.append(part)
    return FleetSchedule(instance, replicas, parts)


def _machine_schedule(
    instance: Instance, rounds: list[Any], kind: str, path: Any
) -> Schedule | PreemptiveSchedule:
    if kind == "start_times":
        return Schedule(instance, rounds)
    for position, own in enumerate(rounds):
        if not isinstance(own, list) or not all(isinstance(stretch, list) for stretch in own):
            raise FileFormatError(path, f"stretches of request {position} are not lists")
    return PreemptiveSchedule(instance, rounds)


def _write(document: dict[str, Any], path: str | os.PathLike[str]) -> None:
    try:
        check_shape(document, path)
        content = json.dumps(document, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(
            "instance", "metadata", "...", f"cannot be written as JSON: {error}"
        ) from error
    write_atomically(path, content + "\n")

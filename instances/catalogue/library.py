"""Named instances of the library, read from one file per set.

An instance is made on its first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from instances.batch_time.presets import preset
from instances.errors import FileFormatError, InvalidValueError, UnknownNameError
from instances.files import check_head, parse_json, read_bytes
from instances.generators.registry import SYNTHETIC, generate
from instances.problem.instance import Instance
from instances.problem.memory_rule import MemoryRule
from instances.problem.workload import Workload
from instances.service_level import ServiceLevel
from instances.validation import as_name

from .records import LATE, Record, RecordStore

FORMAT = "llm-hindsight/library-set"
VERSION = 1

FOLDER = Path(__file__).resolve().parent

SETS = (
    *("j25-m1", "j25-m1-published", "j25-m2", "j25-m2-published", "w25", "c25"),
    *("adversary", "worst", "reduction", "azure-code", "azure-conv"),
    *("blocks", "preemptive", "seconds", "service"),
)
"""Names of the sets of instances, in the order of the library."""


_PACKAGED = RecordStore()

GOALS = ("total_latency", "makespan", "preemptive_total_latency", "seconds", LATE)
"""Goals: total latency in rounds, makespan, total latency with preemption, in seconds, lateness."""


@dataclass(frozen=True, eq=False, repr=False)
class LibraryEntry:
    """A named instance of the library, with its objective and its source.

    Attributes
    ----------
    name : str
        Name of the form set-family-size-number, such as ``"j25-m1-n50-03"``.
    set : str
        Name of the set.
    n : int
        Number of requests.
    goal : str
        Objective to minimise: ``"total_latency"``, ``"makespan"``, ``"preemptive_total_latency"``
        (total latency with preemption), ``"seconds"`` (total latency in seconds) or
        ``"late_requests"``.
    level : ServiceLevel or None
        Limits beyond which a request is late, for the goal ``"late_requests"``; else None.
    batch_time : str or None
        Name of a preset (`instances.batch_time.presets`) if times are in seconds; else None.
    recipe : Mapping[str, Any] or None
        Generator, seed and parameters with which the instance was drawn. None if it was not drawn.
    digest : str
        Content hash. When the instance is made, its digest is compared with this one.
    source, licence : str
        Citation or origin of the data, and their licence.
    """

    name: str
    set: str
    n: int
    goal: str
    level: ServiceLevel | None
    batch_time: str | None
    recipe: Mapping[str, Any] | None
    digest: str
    source: str
    licence: str
    _stored: Mapping[str, Any] = field(repr=False)
    _path: Path = field(repr=False)

    def __repr__(self) -> str:
        return f"LibraryEntry({self.name!r}, {self.n} requests, {self.goal})"

    @cached_property
    def instance(self) -> Instance | Workload:
        """The instance, made on first use. A workload with batch time if times are in seconds.

        Raises
        ------
        FileFormatError
            The stored data do not make an instance, or its digest differs from the stored one.
        """
        try:
            made = self._made()
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(self._path, f"{self.name}: {error}") from error
        if made.digest != self.digest:
            reason = f"{self.name} is made with the digest {made.digest}, not {self.digest}"
            raise FileFormatError(self._path, reason)
        if isinstance(made, Workload) and self.batch_time is not None:
            made = made.replaced(batch_time=preset(self.batch_time).batch_time)
        return made

    @property
    def record(self) -> Record | None:
        """Best known schedule and bounds, read from the package; None if it has no record.

        Raises
        ------
        FileFormatError
            The file of records is damaged.
        """
        return _PACKAGED.record(self)

    def _made(self) -> Instance | Workload:
        """Make the instance from stored lengths or a generator; `instance` adds batch time."""
        stored, rule = self._stored, MemoryRule(**self._stored.get("memory_rule", {}))
        drawn: Instance | Workload
        if "output_lengths" not in stored:
            recipe = self.recipe or {}
            drawn = generate(recipe["generator"], recipe["seed"], **recipe["parameters"])
            drawn = drawn.replaced(memory_rule=rule)
        else:
            lengths = stored["prompt_lengths"], stored["output_lengths"]
            arrivals = stored.get("arrival_times", [0] * len(lengths[1]))
            details: dict[str, Any] = {key: stored.get(key) for key in ("memory_limit", "metadata")}
            if self.batch_time is not None:
                drawn = Workload(arrivals, *lengths, memory_rule=rule, **details)
            else:
                drawn = Instance.from_arrays(*lengths, arrivals, memory_rule=rule, **details)
        # Mark instances that imitate real data in their name, which all tables show.
        name = f"{self.name} (synthetic)" if SYNTHETIC in drawn.metadata else self.name
        origin = {} if self.recipe is None else {"origin": dict(self.recipe)}
        library = {"library": {"name": self.name, "set": self.set}}
        return drawn.renamed(name, {**drawn.metadata, **origin, **library})


@dataclass(frozen=True, eq=False)
class LibrarySet:
    """A named collection of the library's instances.

    Attributes
    ----------
    name, title : str
        Name of the set in commands, and a line that describes it.
    entries : tuple[LibraryEntry, ...]
        Instances of the set, in the order of the library.
    """

    name: str
    title: str
    entries: tuple[LibraryEntry, ...]

    def __repr__(self) -> str:
        return f"LibrarySet({self.name!r}, {len(self.entries)} instances)"

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[LibraryEntry]:
        return iter(self.entries)


def read_set(path: Path) -> LibrarySet:
    """Read a set of the library from its JSON file.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        The file is not JSON, or not a set of the library in this version of the format.
    """
    document = parse_json(read_bytes(path), path)
    check_head(document, {"format": FORMAT, "version": VERSION}, path)
    try:
        name = str(document["name"])
        of_set = {"set": name} | {key: document[key] for key in ("source", "licence")}
        entries = [_entry(of_set | stored, path) for stored in document["entries"]]
        return LibrarySet(name, document["title"], tuple(entries))
    except (KeyError, TypeError) as error:
        raise FileFormatError(path, f"is not a set of the library: {error}") from error


def _entry(stored: Mapping[str, Any], path: Path) -> LibraryEntry:
    goal = stored.get("goal", "total_latency")
    if goal not in GOALS:
        raise FileFormatError(path, f"goal {goal!r} is not one of {', '.join(GOALS)}")
    limits = stored.get("level")
    if (goal == LATE) != (limits is not None):
        raise FileFormatError(path, f"{stored['name']}: goal {goal!r}, service level {limits!r}")
    level = None if limits is None else ServiceLevel(**limits)
    given = {key: stored[key] for key in ("name", "set", "n", "digest", "source", "licence")}
    given |= {key: stored.get(key) for key in ("batch_time", "recipe")}
    return LibraryEntry(**given, goal=goal, level=level, _stored=stored, _path=path)


class Library:
    """Collection of all named instances: iterable in a fixed order, and indexed by name.

    Attributes
    ----------
    sets : tuple[LibrarySet, ...]
        The sets of instances, in order.
    """

    def __init__(self, sets: tuple[LibrarySet, ...]) -> None:
        self.sets = sets

    @cached_property
    def _by_name(self) -> dict[str, LibraryEntry]:
        return {entry.name: entry for one in self.sets for entry in one.entries}

    def __repr__(self) -> str:
        return f"Library({len(self)} instances in {len(self.sets)} sets)"

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[LibraryEntry]:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> LibraryEntry:
        """Return an instance by name, such as ``library()["j25-m1-n50-03"]``.

        Raises
        ------
        UnknownNameError
            No instance has this name; the message suggests similar names.
        InvalidValueError
            The name is that of a set, or has control characters.
        InvalidTypeError
            The name is not a string.
        """
        name = as_name(name, None, "name")
        if name in SETS:
            reason = f"is a set: its instances are library().matching({name!r})"
            raise InvalidValueError(None, "name", name, reason)
        if name not in self._by_name:
            raise UnknownNameError("instance or set of the library", name, [*SETS, *self._by_name])
        return self._by_name[name]

    def matching(self, *patterns: str) -> list[LibraryEntry]:
        """Return the instances whose name or set matches a pattern, such as ``"j25-m1-n2*"``.

        Parameters
        ----------
        *patterns : str
            Names of instances, names of sets, or patterns with ``*`` and ``?``. An instance needs
            to match one of them. Without patterns all instances are returned.

        Raises
        ------
        UnknownNameError
            A pattern matches no instance.
        InvalidTypeError
            A pattern is not a string, for example a list of strings.
        """
        found: set[str] = set()
        for pattern in (as_name(one, None, "pattern") for one in patterns):
            texts = ((entry.name, text) for entry in self for text in (entry.name, entry.set))
            fits = {name for name, text in texts if fnmatchcase(text, pattern)}
            if not fits:
                self[pattern]
            found |= fits
        return [entry for entry in self if not patterns or entry.name in found]


@cache
def library() -> Library:
    """Return the library of named instances, which is read from its files on the first call.

    Raises
    ------
    FileFormatError
        A file of the library is damaged.
    """
    return Library(tuple(read_set(FOLDER / "sets" / f"{name}.json") for name in SETS))

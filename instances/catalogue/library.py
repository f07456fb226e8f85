"""Named instances, by set and by name: the files of the library's sets, read.

An instance is made when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, get_args, overload

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
"""The sets, in the order of the library."""


_PACKAGED = RecordStore()

LibraryGoal = Literal[
    "total_latency", "makespan", "preemptive_total_latency", "seconds", "late_requests"
]
"""What is minimised, among which schedules."""

GOALS = get_args(LibraryGoal)


@dataclass(frozen=True, eq=False, repr=False)
class LibraryEntry:
    """A named instance and what is known of its optimum.

    Attributes
    ----------
    name : str
        Tells set, family, size and number: ``"j25-m1-n50-03"``.
    set : str
        Name of its set.
    n : int
        Number of requests.
    goal : str
        ``"total_latency"``, ``"makespan"``, ``"preemptive_total_latency"``, ``"seconds"`` or
        ``"late_requests"``.
    level : ServiceLevel or None
        What makes a request late, where the goal counts late requests.
    batch_time : str or None
        Name of a preset (`instances.batch_time.presets`), where times are in seconds.
    recipe : Mapping[str, Any] or None
        Generator, seed and parameters where it was drawn.
    digest : str
        Of the instance: what it is held against whenever it is made.
    source, licence : str
        Citation, or where it is from, and the licence that its data may be used under.
    """

    name: str
    set: str
    n: int
    goal: LibraryGoal
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

    @property
    def is_stored(self) -> bool:
        """Return whether its requests are in the library's files; else its recipe makes them."""
        return "output_lengths" in self._stored

    @cached_property
    def instance(self) -> Instance | Workload:
        """Make the instance; a workload with its batch time where times are in seconds.

        Raises
        ------
        FileFormatError
            What is made is not what the digest is of, or no instance at all.
        """
        try:
            made = self._made()
        except (KeyError, TypeError, ValueError) as error:
            raise FileFormatError(self._path, f"{self.name}: {error}") from error
        if made.digest != self.digest:
            reason = f"{self.name} is made with the digest {made.digest}, not {self.digest}"
            raise FileFormatError(self._path, reason)
        if isinstance(made, Workload) and self.batch_time is not None:
            made = made.with_batch_time(preset(self.batch_time).batch_time)
        return made

    @property
    def problem(self) -> Instance:
        """Return the instance where it is one in rounds.

        Raises
        ------
        TypeError
            Its times are in seconds.
        """
        if not isinstance(self.instance, Instance):
            raise TypeError(f"{self.name} is a workload in seconds")
        return self.instance

    @property
    def record(self) -> Record | None:
        """Read what the package knows of the optimum; None where nobody has tried.

        Raises
        ------
        FileFormatError
            A damaged file.
        """
        return _PACKAGED.record(self)

    def _made(self) -> Instance | Workload:
        """Make the instance from its rows or its recipe, without the batch time."""
        stored, rule = self._stored, MemoryRule(**self._stored.get("memory_rule", {}))
        drawn: Instance | Workload
        if not self.is_stored:
            recipe = self.recipe or {}
            drawn = generate(recipe["generator"], recipe["seed"], **recipe["parameters"])
            drawn = drawn.under(rule)
        else:
            lengths = stored["prompt_lengths"], stored["output_lengths"]
            arrivals = stored.get("arrival_times", [0] * len(lengths[1]))
            details: dict[str, Any] = {key: stored.get(key) for key in ("memory_limit", "metadata")}
            if self.batch_time is not None:
                drawn = Workload(arrivals, *lengths, memory_rule=rule, **details)
            else:
                drawn = Instance.from_arrays(*lengths, arrivals, memory_rule=rule, **details)
        # The names of synthetic stand-ins for data say so, wherever they are shown.
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
        Its name in commands, and a line on what it holds.
    source, licence : str
        Where its instances are from, and the strictest licence among theirs.
    entries : tuple[LibraryEntry, ...]
        Its instances, in the order of the library.
    """

    name: str
    title: str
    source: str
    licence: str
    entries: tuple[LibraryEntry, ...]

    def __repr__(self) -> str:
        return f"LibrarySet({self.name!r}, {len(self.entries)} instances)"

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[LibraryEntry]:
        return iter(self.entries)


def read_set(path: Path) -> LibrarySet:
    """Read a set of the library from its file.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        Not JSON, or not of this format.
    """
    document = parse_json(read_bytes(path), path)
    check_head(document, {"format": FORMAT, "version": VERSION}, path)
    try:
        name = str(document["name"])
        title, source, licence = (document[key] for key in ("title", "source", "licence"))
        of_set = {"set": name, "source": source, "licence": licence}
        entries = [_entry(of_set | stored, path) for stored in document["entries"]]
        return LibrarySet(name, title, source, licence, tuple(entries))
    except (KeyError, TypeError) as error:
        raise FileFormatError(path, f"is no set of the library: {error}") from error


def _entry(stored: Mapping[str, Any], path: Path) -> LibraryEntry:
    goal = stored.get("goal", "total_latency")
    if goal not in GOALS:
        raise FileFormatError(path, f"goal {goal!r} is not one of {', '.join(GOALS)}")
    limits = stored.get("level")
    if (goal == LATE) != (limits is not None):
        raise FileFormatError(path, f"{stored['name']}: goal {goal!r}, service level {limits!r}")
    texts = {key: stored[key] for key in ("name", "set", "n", "digest", "source", "licence")}
    return LibraryEntry(
        **texts,
        goal=goal,
        level=None if limits is None else ServiceLevel(**limits),
        batch_time=stored.get("batch_time"),
        recipe=stored.get("recipe"),
        _stored=stored,
        _path=path,
    )


class Library:
    """Every named instance, in a fixed order.

    Attributes
    ----------
    sets : tuple[LibrarySet, ...]
        The sets, in that order.
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
        name = as_name(name, None, "name")
        if name in SETS:
            reason = f"is a set: its instances are library().matching({name!r})"
            raise InvalidValueError(None, "name", name, reason)
        if name not in self._by_name:
            raise UnknownNameError("instance or set of the library", name, [*SETS, *self._by_name])
        return self._by_name[name]

    def matching(self, *patterns: str) -> list[LibraryEntry]:
        """List those whose name or set is one of the patterns, ``"j25-m1-n2*"`` for instance.

        Parameters
        ----------
        *patterns : str
            Names, names of sets, or patterns of the shell; none: all.

        Raises
        ------
        UnknownNameError
            A pattern that nothing matches.
        InvalidTypeError
            A pattern that is no string, such as a list of them.
        """
        found: set[str] = set()
        for pattern in (as_name(one, None, "pattern") for one in patterns):
            fits = {
                entry.name
                for entry in self
                if fnmatchcase(entry.name, pattern) or fnmatchcase(entry.set, pattern)
            }
            if not fits:
                self[pattern]
            found |= fits
        return [entry for entry in self if not patterns or entry.name in found]


@overload
def library() -> Library: ...


@overload
def library(name: str) -> LibraryEntry: ...


def library(name: str | None = None) -> Library | LibraryEntry:
    """Return the library of instances, or one of them by name.

    Parameters
    ----------
    name : str or None, default None
        Such as ``"j25-m1-n50-03"``; None for all.

    Raises
    ------
    UnknownNameError
        No instance of that name; the message tells the names nearest to it.
    InvalidValueError
        It is the name of a set, or no text for a line.
    InvalidTypeError
        It is no string.
    FileFormatError
        A file of the library is damaged.
    """
    return _library() if name is None else _library()[name]


@cache
def _library() -> Library:
    return Library(tuple(read_set(FOLDER / "sets" / f"{name}.json") for name in SETS))

"""Named instances, by set and by name."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import overload

from instances.errors import InvalidValueError, UnknownNameError
from instances.html import table
from instances.validation import as_name

from .entries import LibraryEntry, LibrarySet, read_set

FOLDER = Path(__file__).resolve().parent

SETS = (
    "j25-m1",
    "j25-m1-published",
    "j25-m2",
    "j25-m2-published",
    "w25",
    "c25",
    "adversary",
    "worst",
    "reduction",
    "azure-code",
    "azure-conv",
    "blocks",
    "preemptive",
    "seconds",
)
"""The sets, in the order of the library."""


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

    def _repr_html_(self) -> str:
        rows = []
        for one in self.sets:
            sizes = [entry.n for entry in one]
            records = [entry.record for entry in one]
            closed = sum(record is not None and record.status == "closed" for record in records)
            least, most = str(min(sizes)), str(max(sizes))
            requests = least if least == most else f"{least} to {most}"
            rows.append((one.name, str(len(one)), requests, str(closed), one.title))
        columns = ("set", "instances", "requests", "closed", "what")
        return table(columns, rows, ("set", "what"), repr(self))

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
        """Those whose name or set is one of the patterns, ``"j25-m1-n2*"`` for instance.

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
    """The library of instances, or one of them by name.

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

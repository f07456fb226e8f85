"""What the library knows of an instance that a command was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import instances
from instances import LibraryEntry, Record

from .library import GOALS


def entry_of(problem: Any) -> LibraryEntry | None:
    """Where an instance is in the library; None where another rule of memory has changed it."""
    told = getattr(problem, "metadata", {}).get("library")
    name = told.get("name") if isinstance(told, dict) else None
    library = instances.library()
    if not isinstance(name, str) or name not in library:
        return None
    entry = library[name]
    return entry if entry.digest == problem.digest else None


def record_of(problem: Any, goal: str) -> Record | None:
    """What the package knows of an instance of the library whose goal that is."""
    entry = entry_of(problem)
    return entry.record if entry is not None and entry.goal == goal else None


def goal_notes(problems: Iterable[Any], goal: str, options: Mapping[str, str]) -> list[str]:
    """Which goals of the library's instances are another one, and the options that ask for them.

    Whoever has another goal than total latency in mind chose it by an option.
    """
    others: dict[str, list[str]] = {}
    for entry in map(entry_of, problems):
        if entry is not None and entry.goal not in ("total_latency", goal):
            others.setdefault(entry.goal, []).append(entry.name)
    notes = []
    for other, names in others.items():
        of = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        asked = f", asked for by {options[other]}" if other in options else ""
        told = GOALS[other].removesuffix(", rounds")
        notes.append(f"the library's goal of {of} is {told}{asked}")
    return notes

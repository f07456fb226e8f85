"""Bounds on the optima of trials, taken from the records of library instances."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import instances
from instances import LibraryEntry

from .intervals import ON_TIME
from .trial import Trial, with_best_bounds


def entry_of(problem: Any) -> LibraryEntry | None:
    """Return the library entry of an instance, or None if the library does not have the instance.

    The metadata of the instance has the name of the entry. The digests of the instance and of the
    entry must be equal.
    """
    stored = getattr(problem, "metadata", {}).get("library")
    name = stored.get("name") if isinstance(stored, dict) else None
    library = instances.library()
    if not isinstance(name, str) or name not in library:
        return None
    entry = library[name]
    return entry if entry.digest == problem.digest else None


def source_of(trial: Trial) -> str:
    """Return a label for where the instance of a trial comes from.

    For an instance of the library it is its set, for a generated instance the name of the
    generator, else the name of the instance.
    """
    library, name = instances.library(), trial.instance
    return library[name].set if name in library else name.partition("[")[0]


def with_records(trials: Iterable[Trial], problems: Iterable[Any]) -> list[Trial]:
    """Return copies of trials with the bounds on their optima from the records of the library.

    ``problems`` has the instance of each trial. Trials of instances without a record do not change.
    """
    found = []
    for trial, problem in zip(trials, problems, strict=True):
        entry = entry_of(problem)
        if entry is not None and (record := entry.record) is not None:
            known = (record.lower_bound, record.upper_bound)
            ends = [Fraction(end) if isinstance(end, float) else end for end in known]
            if trial.goal.startswith(ON_TIME):
                ends = [trial.requests - end for end in reversed(ends)]
            trial = replace(trial, lower=ends[0], upper=ends[1], bound=record.proof)
        found.append(trial)
    return with_best_bounds(found)

"""Declaration of a reproduction: a claim of a paper, and a function that measures it again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from instances import InvalidValueError, UnknownNameError
from online.workers import in_order

from .conditions import OWN, Conditions, DataSet, Varied
from .verdicts import Statement, Verdict, verdict_of

Task = TypeVar("Task")
Result = TypeVar("Result")
Measure = TypeVar("Measure", bound="Callable[[Setting], Outcome]")

STUDIES = ("j25", "c25", "w25", "a25")
"""Subpackages that register reproductions when imported: [J25], [C25], [W25], [A25]."""


@dataclass(frozen=True)
class Setting:
    """Setting in which a reproduction runs.

    Attributes
    ----------
    quick : bool
        A size that takes seconds, to see that the command works: fewer seeds, requests or points.
        Its verdict speaks of that size.
    jobs : int
        Processes.
    conditions : Conditions
        Lengths that a reader gives, and what an experiment varies.
    results : Path or None
        SQLite file in which trials against hindsight optima are kept, so that a killed run goes on;
        None keeps them in memory only.
    progress : Callable[[int, int], None] or None
        Told (done, total) of the tasks of `map`.
    """

    quick: bool = False
    jobs: int = 1
    conditions: Conditions = OWN
    results: Path | None = None
    progress: Callable[[int, int], None] | None = None

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """``function`` of every task, in order, on ``jobs`` processes.

        ``function`` and tasks are pickled where ``jobs`` is above 1.
        """
        waiting = list(tasks)
        results: list[Result] = []
        if self.jobs == 1 or len(waiting) == 1:
            for task in waiting:
                results.append(function(task))
                self._tell(len(results), len(waiting))
            return results
        for result in in_order(function, waiting, min(self.jobs, max(len(waiting), 1))):
            results.append(result)
            self._tell(len(results), len(waiting))
        return results

    def _tell(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress(done, total)


@dataclass(frozen=True)
class Outcome:
    """Findings of a reproduction.

    Attributes
    ----------
    columns, rows : Sequence[str], Sequence[Sequence[Any]]
        The data behind the figure, written as CSV: numbers, text or None (empty).
    figure : Any
        A matplotlib Figure.
    measured : str
        One sentence, with the figures the claim is about.
    statements : Sequence[Statement]
        The claim taken apart, each part with whether the numbers bear it out: what the verdict
        rests on.
    remark : str
        One line: what differs from the paper's set-up, and what else is to be known.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    figure: Any
    measured: str
    statements: Sequence[Statement]
    remark: str

    def __post_init__(self) -> None:
        verdict_of(self.statements)
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                reason = f"has not the {len(self.columns)} cells of the heading"
                raise InvalidValueError(f"row {number}", "cells", len(row), reason)
        texts = {"measured": self.measured, "remark": self.remark}
        statements = [("statement", one.text) for one in self.statements]
        for what, text in [*texts.items(), *statements]:
            if not text.strip() or "\n" in text:
                raise InvalidValueError(None, what, text, "is not one line")

    @property
    def verdict(self) -> Verdict:
        """Return the verdict by the rule for all papers."""
        return verdict_of(self.statements)


CauseKind = Literal[
    "lengths", "batch time", "memory size not stated", "rule not stated", "the claim itself"
]
"""Why a measurement may come out as it does, though nothing is wrong with it."""


@dataclass(frozen=True)
class Cause:
    """Cause why a measurement does not reproduce, as far as it is known.

    Attributes
    ----------
    kinds : tuple[CauseKind, ...]
        What is left: one where experiments tell it, more where they do not.
    text : str
        At most a paragraph. ``{memory=65968}`` stands for what comes out with exactly that
        changed, as ``"2 of 3 statements"``, from the record of that experiment.
    """

    kinds: tuple[CauseKind, ...]
    text: str

    @property
    def experiments(self) -> list[str]:
        """List the variations that the text asks for."""
        return list(dict.fromkeys(_EXPERIMENT.findall(self.text)))

    def told(self, found: Mapping[str, str]) -> str:
        """The text with what came out, by experiment; one without a record says so."""

        def outcome(match: re.Match[str]) -> str:
            return found.get(match[1], f"(`--vary {match[1]}` not run)")

        return _EXPERIMENT.sub(outcome, self.text)


_EXPERIMENT = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True)
class Reproduction:
    """A table or figure of a paper that can be measured again.

    Attributes
    ----------
    name : str
        Of the command and the files, e.g. ``"j25-figure-3"``.
    paper, item : str
        As in `paper_items.ITEMS`, e.g. ``"J25"`` and ``"Figure 3"``.
    claim : str
        What the paper says, one sentence, with its figures.
    measure : Callable[[Setting], Outcome]
        The function.
    lengths : Mapping[DataSet, int]
        Data sets whose lengths it takes, and of how many requests at least in the full size.
    varies : tuple[Varied, ...]
        Conditions that an experiment may change in it.
    cause : Cause or None
        Why it does not reproduce.
    """

    name: str
    paper: str
    item: str
    claim: str
    measure: Callable[[Setting], Outcome]
    lengths: Mapping[DataSet, int] = field(default_factory=dict)
    varies: tuple[Varied, ...] = ()
    cause: Cause | None = None


_REPRODUCTIONS: dict[str, Reproduction] = {}


def register_reproduction(
    name: str,
    paper: str,
    item: str,
    claim: str,
    *,
    lengths: Mapping[DataSet, int] = MappingProxyType({}),
    varies: tuple[Varied, ...] = (),
    cause: Cause | None = None,
) -> Callable[[Measure], Measure]:
    """Decorator: make ``function(setting)`` the reproduction ``name``; see `Reproduction`.

    Raises
    ------
    InvalidValueError
        The name is taken.
    """

    def register(function: Measure) -> Measure:
        if name in _REPRODUCTIONS:
            raise InvalidValueError(None, "name", name, "is registered already")
        _REPRODUCTIONS[name] = Reproduction(
            name, paper, item, claim, function, lengths, varies, cause
        )
        return function

    return register


def _load() -> None:
    for study in STUDIES:
        import_module(f"studies.reproduction.{study}")


def reproduction_names() -> list[str]:
    """Return all names, paper by paper."""
    _load()
    return sorted(_REPRODUCTIONS, key=lambda name: STUDIES.index(name.partition("-")[0]))


def reproduction(name: str) -> Reproduction:
    """The reproduction of that name.

    Raises
    ------
    UnknownNameError
        There is none.
    """
    _load()
    if name not in _REPRODUCTIONS:
        raise UnknownNameError("reproduction", name, list(_REPRODUCTIONS))
    return _REPRODUCTIONS[name]

"""Tables and figures of the papers, declared for repeated measurements with verdicts.

A verdict says whether the measured numbers agree with the claim of the paper.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from instances import FileFormatError, InvalidValueError, UnknownNameError
from instances.files import parse_json, read_bytes, write_atomically
from online.pictures import save
from online.workers import in_order

from .lengths import Given, described
from .paper_items import PAPERS

Task = TypeVar("Task")
Result = TypeVar("Result")
Verdict = Literal["reproduced", "in part", "not reproduced", "by construction"]

ROOMS = tuple(map(str.lower, PAPERS))
"""Names of the subpackages, one for each paper. Importing one declares its figures."""

VARIATIONS = "variations"
"""Name of the folder with the records of runs in which one condition was changed."""

FACTOR = 2.0
"""A slope, or a distance from 1, agrees with the paper if it differs at most by this factor."""

MARGIN = 0.1
"""Latencies that differ by less than this share count as equally good. Batch times are a fit with
errors of up to 12 %, and the differences that the paper states are larger."""

SERVING = ("lengths", "batch-time", "memory")
"""Names of the conditions of a run that can be changed."""


@dataclass(frozen=True)
class Setting:
    """Size and conditions of a measurement.

    Attributes
    ----------
    quick : bool
        Whether to use fewer seeds, requests or points, so that the measurement takes seconds. Its
        record then has the size ``"quick"``.
    jobs : int
        Number of processes.
    given : Given
        Conditions that replace those of the paper (`lengths.Given`).
    results : Path or None
        Store of trials with their optima, so that a killed run continues.
    progress : Callable[[int, int], None] or None
        Called with the numbers of finished and of all tasks.
    """

    quick: bool = False
    jobs: int = 1
    given: Given = field(default_factory=dict)
    results: Path | None = None
    progress: Callable[[int, int], None] | None = None

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> list[Result]:
        """Return the result of ``function`` for each task, in order. ``jobs`` processes compute."""
        waiting, found = list(tasks), list[Result]()
        jobs = min(self.jobs, max(1, len(waiting)))
        for one in map(function, waiting) if jobs == 1 else in_order(function, waiting, jobs):
            found.append(one)
            if self.progress is not None:
                self.progress(len(found), len(waiting))
        return found


@dataclass(frozen=True)
class Statement:
    """A part of a paper's claim, and whether the measured numbers agree with it.

    Attributes
    ----------
    text : str
        The statement in a few words, and the number that was measured.
    holds : bool
        Whether the numbers agree.
    by_construction : bool
        Whether the statement could hardly fail, because the paper's number is part of the input.
    """

    text: str
    holds: bool
    by_construction: bool = False

    @property
    def counts(self) -> bool:
        """Whether `verdict_of` scores the statement: not if it holds by construction."""
        return not (self.holds and self.by_construction)


def tally(statements: Sequence[Statement]) -> tuple[int, int]:
    """Return how many scored statements hold, and how many are scored.

    Statements are scored, except those that hold by construction (`Statement.counts`).
    """
    counted = [one.holds for one in statements if one.counts]
    return sum(counted), len(counted)


def verdict_of(statements: Sequence[Statement]) -> Verdict:
    """Return "reproduced" if all statements hold, "in part" if at least half of them hold.

    Statements that hold by construction are not counted. If there are no others, the verdict is
    that the claim holds by construction.
    """
    held, counted = tally(statements)
    if not counted:
        return "by construction"
    if held == counted:
        return "reproduced"
    return "in part" if 2 * held >= counted else "not reproduced"


def agrees(found: float, published: float, factor: float = FACTOR) -> bool:
    """Return whether the quotient of two positive numbers is in [1 / factor, factor]."""
    return found > 0 and published / factor <= found <= published * factor


@dataclass(frozen=True)
class Outcome:
    """Result of a measurement: the table written as CSV, its picture, and the statements.

    Attributes
    ----------
    columns, rows : Sequence[str], Sequence[Sequence[Any]]
        The table; None is an empty cell.
    picture : Any
        A matplotlib figure or axes.
    statements : Sequence[Statement]
        The statements into which the claim of the paper is divided.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    picture: Any
    statements: Sequence[Statement]


@dataclass(frozen=True)
class Figure:
    """A table or figure of a paper that is measured again.

    Attributes
    ----------
    name : str
        Name of the files: paper, kind and number, then the panel.
    claim : str
        The claim of the paper with its numbers.
    measure : Callable[[Setting], Outcome]
        Measures it.
    lengths : Mapping[str, int]
        Data sets whose lengths the measurement uses, and how many requests its full size needs.
    varies : tuple[str, ...]
        Conditions that can be changed.
    """

    name: str
    claim: str
    measure: Callable[[Setting], Outcome]
    lengths: Mapping[str, int]
    varies: tuple[str, ...]


_FIGURES: dict[str, Figure] = {}


def figure(
    name: str,
    claim: str,
    measure: Callable[[Setting], Outcome],
    lengths: Mapping[str, int] | None = None,
    varies: tuple[str, ...] = (),
) -> None:
    """Declare a table or figure, with the attributes of `Figure`."""
    if name in _FIGURES:
        raise InvalidValueError(None, "name", name, "is declared already")
    _FIGURES[name] = Figure(name, claim, measure, lengths or {}, varies)


def figures() -> dict[str, Figure]:
    """Return all figures by name, paper by paper."""
    for room in ROOMS:
        import_module(f"studies.reproduction.{room}")
    return dict(sorted(_FIGURES.items(), key=lambda pair: ROOMS.index(pair[0].partition("-")[0])))


def find(name: str) -> Figure:
    """Return the figure of that name.

    Raises
    ------
    UnknownNameError
        The name is unknown.
    """
    known = figures()
    if name not in known:
        raise UnknownNameError("reproduction", name, list(known))
    return known[name]


@dataclass(frozen=True)
class Record:
    """Stored result of a measured figure, without its table and picture.

    Attributes
    ----------
    name, claim : str
        Those of the `Figure` when it was measured.
    size : str
        ``"full"`` or ``"quick"``.
    statements : tuple[Statement, ...]
        The statements into which the claim of the paper is divided.
    lengths : Mapping[str, str]
        For each data set, ``"synthetic"`` or a description of a user's file (`described`).
    varied : str
        The changed condition, e.g. ``"memory=65968"``, or empty.
    cpu_seconds : float or None
        Processor time of all processes.
    """

    name: str
    claim: str
    size: str
    statements: tuple[Statement, ...]
    lengths: Mapping[str, str]
    varied: str = ""
    cpu_seconds: float | None = None

    @property
    def paper(self) -> str:
        """Label of the paper."""
        return self.name.partition("-")[0].upper()

    @property
    def item(self) -> str:
        """Label of the table or figure in the paper."""
        kind, number = self.name.split("-")[1:3]
        return f"{kind.capitalize()} {number.upper().replace('EC', 'EC.')}"

    @property
    def verdict(self) -> Verdict:
        """Verdict on the claim, by `verdict_of`."""
        return verdict_of(self.statements)

    @property
    def share(self) -> str:
        """Text with the number of statements that hold, such as ``"2 of 3 statements"``."""
        held, counted = tally(self.statements)
        rest = len(self.statements) - counted
        return f"{held} of {counted} statements" + (f", {rest} by construction" if rest else "")

    @property
    def findings(self) -> str:
        """Text with the statements that hold, that fail, and that hold by construction."""
        groups = {
            "Holds": [one.text for one in self.statements if one.holds and one.counts],
            "Fails": [one.text for one in self.statements if not one.holds],
            "By construction": [one.text for one in self.statements if not one.counts],
        }
        return " ".join(f"{name}: {'; '.join(texts)}." for name, texts in groups.items() if texts)

    @property
    def line(self) -> str:
        """Claim, verdict and statements in one line of text."""
        title = f"[{self.paper}] {self.item}; the paper: {self.claim.rstrip('.')}"
        files = [text for text in self.lengths.values() if text != "synthetic"]
        used = f" Lengths: {'; '.join(files)}." if files else ""
        return f"{title}; {self.verdict} ({self.share}, {self.size} size). {self.findings}{used}"


def record(
    one: Figure,
    outcome: Outcome,
    setting: Setting,
    folder: str | os.PathLike[str],
    cpu_seconds: float | None = None,
) -> Record:
    """Write NAME.csv, NAME.png and, last, NAME.json into ``folder``.

    If a condition was changed, write only variations/NAME--WHAT-VALUE.json, where WHAT is the name
    of the condition.
    """
    base = Path(folder)
    changed = {name: value for name, value in setting.given.items() if name in SERVING}
    varied = " ".join(f"{name}={value}" for name, value in changed.items())
    found = Record(
        one.name,
        one.claim,
        "quick" if setting.quick else "full",
        tuple(outcome.statements),
        {name: described(setting.given.get(name)) for name in one.lengths},
        varied,
        None if cpu_seconds is None else round(cpu_seconds, 1),
    )
    text = json.dumps(asdict(found), indent=1, ensure_ascii=False) + "\n"
    if varied:
        stem = "".join(sign if sign.isalnum() or sign in "-." else "-" for sign in varied)
        (base / VARIATIONS).mkdir(exist_ok=True)
        write_atomically(base / VARIATIONS / f"{one.name}--{stem}.json", text)
        return found
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(outcome.columns)
    writer.writerows([_cell(value) for value in row] for row in outcome.rows)
    write_atomically(base / f"{one.name}.csv", stream.getvalue())
    save(outcome.picture, base / f"{one.name}.png")
    write_atomically(base / f"{one.name}.json", text)
    return found


def _cell(value: Any) -> Any:
    """Return a float with ten significant digits. Further digits differ between processors."""
    value = value.item() if hasattr(value, "item") else value
    return f"{value:.10g}" if isinstance(value, float) else value


def read_records(folder: Path) -> list[Record]:
    """Read the records of a folder by name, or an empty list.

    Raises
    ------
    OSError, FileFormatError
        A record cannot be read.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            stored = parse_json(read_bytes(path), path)
            statements = tuple(Statement(**one) for one in stored.pop("statements"))
            found.append(Record(statements=statements, **stored))
        except (AttributeError, KeyError, TypeError):
            raise FileFormatError(path, "is not a record of a reproduction") from None
    return found

"""Tables of docs/papers.md: a row for every statement that the package cites."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from online.runtime.table import Table
from studies.reproduction.paper_items import PAPERS

from .citations import KINDS, Place, Statement, citations
from .statements import RESULTS, SUBJECTS, Result

SOURCES = ("instances", "hindsight", "online", "scripts/studies")


@dataclass
class Places:
    """Places that cite a statement.

    Attributes
    ----------
    code : set[Place]
        In the packages.
    tests : set[Place]
        Below ``tests``.
    """

    code: set[Place] = field(default_factory=set)
    tests: set[Place] = field(default_factory=set)


def places(root: Path) -> dict[Statement, Places]:
    """Every statement that the sources of the project at ``root`` cite, and where."""
    found: dict[Statement, Places] = {}
    for folder in SOURCES:
        for statement, place in citations(root, folder):
            found.setdefault(statement, Places()).code.add(place)
    for statement, place in citations(root, "tests"):
        found.setdefault(statement, Places()).tests.add(place)
    return found


def papers_tables(root: Path, up: str) -> str:
    """Statements of each paper, the code that cites them and their tests, as Markdown.

    Parameters
    ----------
    root : Path
        The project.
    up : str
        Begin of every link: the way from the page to ``root``.
    """
    found = places(root)
    results = {result.statement: result for result in RESULTS}
    parts: list[str] = []
    for paper in PAPERS:
        cited = sorted((one for one in found if one.paper == paper), key=in_order)
        rows = [_row(one, found[one], results, up) for one in cited]
        parts.append(f"## [{paper}]\n")
        columns = ("statement", "about", "code", "tests")
        parts.append(Table("", columns, tuple(rows), frozenset(columns)).to_markdown())
        parts.extend(_remainder(paper, found, results))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def in_order(statement: Statement) -> tuple[int, list[tuple[bool, str, int]]]:
    """The place of a statement among others of its paper: by kind, then by number."""
    parts = re.findall(r"[A-Z]+|\d+", statement.number)
    numbers = [
        (not part.isdigit(), part if part.isalpha() else "", _number(part)) for part in parts
    ]
    return KINDS.index(statement.kind), numbers


def _number(part: str) -> int:
    return int(part) if part.isdigit() else 0


def _row(
    statement: Statement, found: Places, results: Mapping[Statement, Result], up: str
) -> tuple[str, ...]:
    result = results.get(statement)
    tests = _links(_most_telling(found.tests), up)
    if not tests:
        tests = f"not checked: {result.untested}" if result and result.untested else "none"
    return (
        statement.label,
        result.says if result else SUBJECTS.get(statement, ""),
        _links(_most_telling(found.code), up) or "in a test",
        tests,
    )


def _most_telling(cited: Iterable[Place]) -> list[Place]:
    """Without a file as a whole where something in it is named."""
    cited = sorted(cited)
    named = {place.path for place in cited if place.name}
    return [place for place in cited if place.name or place.path not in named]


def _links(cited: Iterable[Place], up: str) -> str:
    return ", ".join(f"[{_shown(place)}]({up}{place.path})" for place in cited)


def _shown(place: Place) -> str:
    if place.registered:
        return f"`{place.registered}`"
    return f"`{place.name or PurePosixPath(place.path).name}`"


def _remainder(
    paper: str, found: Mapping[Statement, Places], results: Mapping[Statement, Result]
) -> list[str]:
    """The statements that the package does not have, and those that it has without a test."""
    parts = []
    absent = [one for one in results.values() if one.statement.paper == paper and one.absent]
    rows = [(one.statement.label, one.says, one.absent) for one in absent]
    columns = ("not in the package", "about", "why")
    parts.append(Table("", columns, tuple(rows), frozenset(columns)).to_markdown())
    untested = [one.label for one in found if one.paper == paper and not found[one].tests]
    if untested:
        parts.append(f"Not checked by a test: {', '.join(sorted(untested))}.\n")
    return parts

"""Tables that pages of docs/ have on the site only: made from records and archives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from online.worst_cases.archive import case_table, check_case, load
from studies.library.page import measured_library_tables
from studies.reproduction import recorded_in, reproduction_tables

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TABLES_HERE = "<!-- made when the site is built -->"
"""Stands in a page where its tables follow on the site."""


def _worst_cases() -> str:
    """The worst case of each search, run again, with its optimum's proof checked."""
    archives = sorted((DOCS / "worst_cases").glob("*.json"))
    searches = [search for path in archives for search in load(path)]
    rows = [(one, one.cases[0], check_case(one.target, one.cases[0])) for one in searches]
    return case_table(rows).to_markdown()


def _reproductions() -> str:
    recorded, experiments = recorded_in(DOCS / "reproduction")
    return reproduction_tables(recorded, experiments=experiments)


TABLES: Mapping[str, Callable[[], str]] = {
    "library.md": lambda: measured_library_tables(DOCS / "library"),
    "reproduction.md": _reproductions,
    "worst-case.md": _worst_cases,
}
"""What makes the tables of a page, by its name below docs/."""

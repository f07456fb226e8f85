"""Tables that are made from records when the site is built, for pages of docs/."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from studies.library.page import measured_library_tables
from studies.reproduction import VARIATIONS, read_records, reproduction_tables

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TABLES_HERE = "<!-- made when the site is built -->"
"""Mark in a page of docs/ at the place where the site has the tables."""


def _reproductions() -> str:
    folder = DOCS / "reproduction"
    return reproduction_tables(read_records(folder), varied=read_records(folder / VARIATIONS))


TABLES: Mapping[str, Callable[[], str]] = {
    "library.md": lambda: measured_library_tables(DOCS / "library"),
    "reproduction.md": _reproductions,
}
"""Functions that make the tables of a page, by path of the page in docs/."""

"""Tables that pages of docs/ have on the site only: made from records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from studies.library.page import measured_library_tables
from studies.reproduction import VARIATIONS, read_records, reproduction_tables

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TABLES_HERE = "<!-- made when the site is built -->"
"""Stands in a page where its tables follow on the site."""


def _reproductions() -> str:
    folder = DOCS / "reproduction"
    return reproduction_tables(read_records(folder), varied=read_records(folder / VARIATIONS))


TABLES: Mapping[str, Callable[[], str]] = {
    "library.md": lambda: measured_library_tables(DOCS / "library"),
    "reproduction.md": _reproductions,
}
"""What makes the tables of a page, by its name below docs/."""

"""Reproductions: measurements that repeat the tables and figures of the papers.

`scripts/reproduce.py` runs them. docs/reproduction.md shows the results.
"""

from __future__ import annotations

from .figure import (
    VARIATIONS,
    Figure,
    Outcome,
    Setting,
    Statement,
    figures,
    find,
    read_records,
    record,
)
from .lengths import override
from .page import reproduction_tables

__all__ = [
    "VARIATIONS",
    "Figure",
    "Outcome",
    "Setting",
    "Statement",
    "figures",
    "find",
    "override",
    "read_records",
    "record",
    "reproduction_tables",
]

"""Reproductions: every table and figure of the papers, each measured again by one command.

`scripts/reproduce.py` runs them; docs/reproduction.md shows their records.
"""

from __future__ import annotations

from .conditions import OWN, Conditions
from .declaration import (
    Cause,
    Outcome,
    Reproduction,
    Setting,
    register_reproduction,
    reproduction,
    reproduction_names,
)
from .page import reproduction_tables
from .paper_items import ITEMS, Item
from .record import Recorded, read_recorded, record, recorded_in
from .verdicts import Statement

__all__ = [
    "ITEMS",
    "OWN",
    "Cause",
    "Conditions",
    "Item",
    "Outcome",
    "Recorded",
    "Reproduction",
    "Setting",
    "Statement",
    "read_recorded",
    "record",
    "recorded_in",
    "register_reproduction",
    "reproduction",
    "reproduction_names",
    "reproduction_tables",
]

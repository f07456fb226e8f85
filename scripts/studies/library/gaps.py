"""Gaps of the library's records that are still open."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hindsight.outcomes.result import percent
from instances import Record


def open_gaps(records: Sequence[Record]) -> list[float]:
    """Return the gaps of the records that are not closed."""
    return [record.gap for record in records if record.status == "open"]


def median_gap(records: Sequence[Record], none: str = "-") -> str:
    """Return the median gap of the open records in per cent, or ``none``."""
    gaps = open_gaps(records)
    return percent(statistics.median(gaps), ".2f") if gaps else none

"""Gaps of the library's open records, whose bounds do not meet."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hindsight.outcomes.result import percent
from instances import Record


def open_gaps(records: Sequence[Record]) -> list[float]:
    """Return the gaps of the open records. In a closed record both bounds are equal."""
    return [record.gap for record in records if record.status == "open"]


def median_gap(records: Sequence[Record], none: str = "-") -> str:
    """Return the median gap of the open records in per cent, or ``none`` if there are none."""
    gaps = open_gaps(records)
    return percent(statistics.median(gaps), ".2f") if gaps else none

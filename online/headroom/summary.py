"""Several answers beside each other, from the files that hold them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from instances import FileFormatError
from instances.files import parse_json
from online.comparison.ratios import Interval
from online.runtime.table import Table

from .tables import NOTHING, per_cent, seconds


def summary_table(paths: Sequence[str | os.PathLike[str]]) -> Table:
    """What `headroom_record` wrote of several logs, a row each.

    Raises
    ------
    OSError
        A file cannot be read.
    FileFormatError
        It holds no such record.
    """
    rows, proposed = [], ""
    for path in paths:
        record = parse_json(Path(path).read_bytes(), path)
        try:
            row, proposed = _row(record)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise FileFormatError(path, f"is no record of a headroom: {error!r}") from None
        rows.append((Path(path).stem, *row))
    columns = (
        *("log", "requests", "load", "today, s", "best possible, s", "could be saved, %"),
        *(f"{proposed}: headroom, %", "with predicted lengths, %"),
    )
    return Table("", columns, tuple(rows), frozenset({"log"}))


def _row(record: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    # The simulated baseline comes last: it compares like with like.
    saving = record["savings"][-1]
    baseline, challenger = record["baseline"], record["challenger"]
    if saving["today"] != baseline:
        raise ValueError("the baseline did not end")
    gets = [
        one["headroom_share"].get(baseline)
        for error in (0.0, record["error"])
        for one in record["policies"]
        if (one["policy"], one["error"]) == (challenger, error)
    ]
    shares = [NOTHING if one is None else per_cent(_interval(one)) for one in gets[:2]]
    load = record["load"]
    return (
        str(record["requests"]),
        NOTHING if load is None else f"{load:.2f}",
        seconds(Fraction(saving["mean_latency"])),
        seconds(_interval(record["best_possible"]["mean_latency"])),
        per_cent(_interval(saving["could_be_saved_share"])),
        *[*shares, NOTHING, NOTHING][:2],
    ), challenger


def _interval(ends: Sequence[float | None]) -> Interval:
    low, high = ends
    return Interval(*(None if one is None else Fraction(one) for one in (low, high)))

"""Cells of the requests of a log, column by column, as arrays in seconds and tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, compress
from typing import Any

import numpy as np

from instances.arrays import FloatArray, IntArray

from . import cells
from .cells import BadRow, bad_cell, is_blank
from .formats import DURATIONS, STAMPS, Format
from .paths import column, named_unit
from .prefixes import as_blocks
from .records import NO_OBJECT, Rows
from .tools import FAILED, WARM_UP, Row, innermost, warm_ups

WITHOUT_OUTPUT = "without output length"
GAPS = "inter_token_times"


class TakenRows:
    """Cells of the requests of a file, role by role, and what became of its other rows.

    Parameters
    ----------
    kind : Format
        Where the file has what.
    records : Rows
        Its records.
    block_hashes : bool
        Whether to hold the hashes of prompts.

    Attributes
    ----------
    count : int
        Requests in the file.
    left_out : Counter[str]
        Requests that are left out, by reason.
    numbers : list[int]
        Rows of the other requests.
    bad : dict[int, BadRow]
        Rows that cannot be read; `read` adds to it.
    time_unit : str or None
        Unit of the arrivals, known after `read`.
    """

    def __init__(self, kind: Format, records: Rows, block_hashes: bool) -> None:
        self.kind = kind
        self.count = 0
        self.left_out: Counter[str] = Counter({FAILED: 0})
        self.numbers: list[int] = []
        self.bad: dict[int, BadRow] = {}
        self.time_unit: str | None = None
        roles = {*kind.columns} - {"error", *(() if block_hashes else ("hashes",))}
        self._cells: dict[str, list[Any]] = {one: [] for one in roles}
        rows = records if kind.rows is None else _requests(records, kind.rows, kind.document)
        for chunk in innermost(rows, kind.columns) if kind.name == "otlp" else rows:
            self._take(*chunk)

    def _take(self, numbers: Sequence[int], rows: list[Any]) -> None:
        """Take the cells of some requests, but of those that failed or only warmed up."""
        kind = self.kind
        self.count += len(rows)
        for number, row in zip(numbers, rows, strict=True) if {*map(type, rows)} != {dict} else ():
            if isinstance(row, str):
                self.left_out[row] += 1
            elif not isinstance(row, dict):
                self.bad[number] = row if isinstance(row, BadRow) else NO_OBJECT
        is_kept = [type(row) is dict for row in rows]
        reasons = {WARM_UP: warm_ups, FAILED: kind.failed, WITHOUT_OUTPUT: kind.without_output}
        for reason, find in reasons.items():
            numbers, rows = [*compress(numbers, is_kept)], [*compress(rows, is_kept)]
            is_kept = [not one for one in find(rows)]
            self.left_out[reason] += is_kept.count(False)
        rows = [*compress(rows, is_kept)]
        self.numbers += compress(numbers, is_kept)
        for role, taken in self._cells.items():
            found = column(rows, *kind.columns[role])
            if role == GAPS:
                found = [cells.as_list(one, kind.seconds[role]) or one for one in found]
            elif role == "hashes":
                size: Any = kind.block_size
                sizes = column(rows, size) if isinstance(size, str) else [size] * len(rows)
                found = [*map(as_blocks, sizes, found)]
            taken += found

    def read(self) -> tuple[IntArray, dict[str, Any]]:
        """Read the cells: times in nanoseconds, and arrays; say of rows why they cannot be read."""
        measured = {role: self._numbers(role) for role in DURATIONS}
        for role in [one for one in self._cells if one.endswith("_unit")]:
            self._refuse(
                [role], [one not in (None, "ms") for one in self._cells[role]], "is not ms"
            )
        ticks = self._ticks(measured)
        prompts, outputs = (self._numbers(role).astype(np.int64) for role in ("prompt", "output"))
        gaps = self._cells.get(GAPS, [])
        self._refuse([GAPS], [type(one) is not tuple for one in gaps], cells.NO_LIST)
        gaps = [one if type(one) is tuple else (None, np.nan) for one in gaps]
        _put_together(measured, outputs, np.array([total for _, total in gaps]))
        labels = [
            str(one).strip() if type(one) in (str, int, float) else ""
            for one in self._cells.get("worker", ())
        ]
        lists = {
            "workers": [one or None for one in labels] if any(labels) else (),
            "prompt_blocks": self._cells.get("hashes", ()),
            "between": [times for times, _ in gaps],
        }
        return ticks, {
            "row_numbers": np.array(self.numbers, np.int64),
            "prompt_lengths": prompts,
            "output_lengths": outputs,
            **{DURATIONS[role]: seconds for role, seconds in measured.items()},
            **{name: np.fromiter(one, object) for name, one in lists.items() if one},
        }

    def _numbers(self, role: str) -> FloatArray:
        """Read durations in seconds, or whole numbers of tokens."""
        if role not in self._cells:
            return np.full(len(self.numbers), np.nan)
        is_count = role not in DURATIONS
        found, is_bad, reason = cells.in_range(self._cells[role], is_count)
        self._refuse([role], is_bad, reason)
        return found if is_count else found * self.kind.seconds[role]

    def _ticks(self, measured: dict[str, FloatArray]) -> IntArray:
        """Read the arrivals, and durations that only the times of their ends give."""
        kind, count = self.kind, len(self.numbers)
        roles = [role for role in ("arrival", *STAMPS) if role in self._cells]
        if not roles or (
            kind.optional_arrival and all(one is None for one in self._cells["arrival"])
        ):
            return np.zeros(count, np.int64)
        for role in roles[1:]:
            pairs = zip(self._cells[role], np.isnan(measured[STAMPS[role]]), strict=True)
            self._cells[role] = [one if is_unknown else None for one, is_unknown in pairs]
        coarsest = named_unit(kind.name_of("arrival")) or cells.SECONDS
        together = [*chain.from_iterable(self._cells[role] for role in roles)]
        refuse = partial(self._refuse, roles)
        found, self.time_unit = cells.as_times(together, kind.unit, coarsest, refuse)
        ticks, *ends = found.reshape(len(roles), count)
        for role, end in zip(roles[1:], ends, strict=True):
            is_given = np.array([not is_blank(one) for one in self._cells[role]], bool)
            self._refuse([role], is_given & (end < ticks), "is before the arrival")
            known = measured[STAMPS[role]]
            measured[STAMPS[role]] = np.where(is_given, (end - ticks) / cells.PER_SECOND, known)
        return ticks

    def _refuse(self, roles: Sequence[str], is_bad: Any, reason: str) -> None:
        """Say why cells of these columns, one column after the other, cannot be read."""
        for place in np.flatnonzero(is_bad).tolist():
            which, row = divmod(place, len(self.numbers))
            cell = self._cells[roles[which]][row]
            if not (is_blank(cell) and roles[which] in {*DURATIONS, *STAMPS}):
                bad = bad_cell(self.kind.name_of(roles[which]), cell, reason)
                self.bad.setdefault(self.numbers[row], bad)


def _requests(records: Rows, rows_of: Callable[[Any], Iterable[Row]], is_document: bool) -> Rows:
    """Requests of each record; those of documents are numbered, others have its number."""
    count = 0
    for numbers, values in records:
        found = [[*rows_of(one)] if isinstance(one, dict) else [one] for one in values]
        rows = [*chain.from_iterable(found)]
        repeated = np.repeat(np.array(numbers, np.int64), [*map(len, found)]).tolist()
        yield range(count + 1, count + 1 + len(rows)) if is_document else repeated, rows
        count += len(rows)


def _put_together(measured: dict[str, FloatArray], outputs: IntArray, gap_sums: FloatArray) -> None:
    """Latencies and means of which a log has the times between tokens, or both ends."""
    first, latency = measured["time_to_first_token"], measured["latency"]
    mean, gaps = measured["inter_token_time"], np.maximum(1, outputs - 1)
    if len(gap_sums):
        is_derived = np.isnan(latency) & ((outputs == 1) | np.isfinite(gap_sums))
        latency = np.where(is_derived, first + np.nan_to_num(gap_sums), latency)
        # Between chunks of several tokens there are fewer times than tokens.
        mean = np.where(np.isfinite(gap_sums), gap_sums / gaps, mean)
    # The tokens after the first come between it and the end.
    is_apart = np.isnan(mean) & (outputs > 1) & (latency >= first)
    measured["inter_token_time"] = mean = np.where(is_apart, (latency - first) / gaps, mean)
    # A latency is measured as such, or put together of its parts.
    later = np.where(outputs > 1, mean * (outputs - 1), 0.0)
    measured["latency"] = np.where(np.isnan(latency), first + later, latency)

"""Cells of the requests of a log, column by column, as arrays in seconds and tokens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, compress
from typing import Any

import numpy as np

from instances.arrays import FloatArray, IntArray
from instances.errors import InvalidValueError

from .cells import (
    NO_LIST,
    PER_SECOND,
    SECONDS,
    BadRow,
    Refuse,
    as_counts,
    as_durations,
    as_list,
    as_times,
    bad_cell,
    is_blank,
)
from .formats import DURATIONS, STAMPS, Format
from .paths import cells, named_unit
from .prefixes import as_blocks
from .records import NO_OBJECT, Rows
from .tools import FAILED, WARM_UP, innermost, warm_ups

WITHOUT_OUTPUT = "without output length"
GAPS = "inter_token_times"
BLANK = (*DURATIONS, *STAMPS)
"""Roles of cells that may be blank."""


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
        for numbers, rows in records if kind.rows is None else _requests(records, kind):
            self.count += len(rows)
            if {*map(type, rows)} != {dict}:
                numbers, rows = self._objects(numbers, rows)
            self._take(numbers, rows)

    def _objects(self, numbers: Sequence[int], rows: list[Any]) -> tuple[list[int], list[Any]]:
        """Leave out rows that are not an object."""
        kept = []
        for number, row in zip(numbers, rows, strict=True):
            if isinstance(row, str):
                self.left_out[row] += 1
            elif isinstance(row, dict):
                kept.append((number, row))
            else:
                self.bad[number] = row if isinstance(row, BadRow) else NO_OBJECT
        return [number for number, _ in kept], [row for _, row in kept]

    def _take(self, numbers: Sequence[int], rows: list[dict[str, Any]]) -> None:
        """Take the cells of requests, but of those that failed or only warmed up."""
        kind = self.kind
        reasons = {WARM_UP: warm_ups, FAILED: kind.failed, WITHOUT_OUTPUT: kind.without_output}
        for reason, find in reasons.items():
            is_left = find(rows)
            if any(is_left):
                self.left_out[reason] += sum(is_left)
                is_kept = [not one for one in is_left]
                numbers, rows = [*compress(numbers, is_kept)], [*compress(rows, is_kept)]
        self.numbers += numbers
        for role, taken in self._cells.items():
            found = cells(rows, *kind.columns[role])
            if role == GAPS:
                found = [_gaps(one, kind.seconds[GAPS]) for one in found]
            elif role == "hashes":
                size: Any = kind.block_size
                sizes = cells(rows, size) if isinstance(size, str) else [size] * len(rows)
                found = [*map(as_blocks, sizes, found)]
            taken += found

    def read(self) -> tuple[IntArray, dict[str, Any]]:
        """Read the cells: times in nanoseconds, and arrays; say of rows why they cannot be read."""
        measured = self._measured()
        ticks = self._ticks(measured)
        prompts, outputs = (
            as_counts(self._cells[role], self._refusing(role)) for role in ("prompt", "output")
        )
        gaps = self._cells.get(GAPS, ())
        totals = np.array([one[1] if type(one) is tuple else np.nan for one in gaps])
        _put_together(measured, outputs, totals)
        arrays = {
            "row_numbers": np.array(self.numbers, np.int64),
            "prompt_lengths": prompts,
            "output_lengths": outputs,
            "latencies": measured["latency"],
            "times_to_first_token": measured["time_to_first_token"],
            "mean_inter_token_times": measured["inter_token_time"],
        }
        lists = {
            "workers": [_label(one) for one in self._cells.get("worker", ())],
            "prompt_blocks": self._cells.get("hashes", ()),
            "between": [one[0] if type(one) is tuple else None for one in gaps],
        }
        return ticks, arrays | {k: np.fromiter(one, object) for k, one in lists.items() if one}

    def _measured(self) -> dict[str, FloatArray]:
        """Read the durations in seconds."""
        found = {}
        for role in DURATIONS:
            found[role] = np.full(len(self.numbers), np.nan)
            if role in self._cells:
                read = as_durations(self._cells[role], self._refusing(role))
                found[role] = read * self.kind.seconds[role]
        for role, taken in self._cells.items():
            if role.endswith("_unit"):
                is_other = np.array([one not in (None, "ms") for one in taken])
                self._refusing(role)(is_other, "is not ms")
            elif role == GAPS:
                self._refusing(role)(np.array([type(one) is not tuple for one in taken]), NO_LIST)
        return found

    def _ticks(self, measured: dict[str, FloatArray]) -> IntArray:
        """Read the arrivals, and durations that only the times of their ends give."""
        kind, count = self.kind, len(self.numbers)
        roles = [role for role in ("arrival", *STAMPS) if role in self._cells]
        if not roles or (
            kind.optional_arrival and {*map(type, self._cells["arrival"])} == {type(None)}
        ):
            return np.zeros(count, np.int64)
        for role in roles[1:]:
            pairs = zip(self._cells[role], np.isnan(measured[STAMPS[role]]), strict=True)
            self._cells[role] = [one if is_unknown else None for one, is_unknown in pairs]
        coarsest = named_unit(kind.name_of("arrival")) or SECONDS
        together = [*chain.from_iterable(self._cells[role] for role in roles)]
        found, self.time_unit = as_times(together, kind.unit, coarsest, self._refusing(*roles))
        ticks, *ends = found.reshape(len(roles), count)
        for role, end in zip(roles[1:], ends, strict=True):
            is_given = np.array([not is_blank(one) for one in self._cells[role]], bool)
            self._refusing(role)(is_given & (end < ticks), "is before the arrival")
            known = measured[STAMPS[role]]
            measured[STAMPS[role]] = np.where(is_given, (end - ticks) / PER_SECOND, known)
        return ticks

    def _refusing(self, *roles: str) -> Refuse:
        """Return a function that says why cells of these columns, in turn, cannot be read."""

        def refuse(is_bad: Any, reason: str) -> None:
            for place in np.flatnonzero(is_bad).tolist():
                column, row = divmod(place, len(self.numbers))
                cell = self._cells[roles[column]][row]
                if roles[column] not in BLANK or not is_blank(cell):
                    name = self.kind.name_of(roles[column])
                    self.bad.setdefault(self.numbers[row], bad_cell(name, cell, reason))

        return refuse


def _requests(records: Rows, kind: Format) -> Rows:
    """Requests of each record; those of documents are numbered, others have its number."""
    chunks = _of_records(records, kind)
    if kind.name == "otlp":
        chunks = innermost(
            [*chain.from_iterable(zip(*one, strict=True) for one in chunks)], kind.columns
        )
    return chunks


def _of_records(records: Rows, kind: Format) -> Rows:
    count = 0
    for numbers, values in records:
        places: list[int] = []
        rows: list[Any] = []
        for number, value in zip(numbers, values, strict=True):
            found: list[Any] = [value]
            try:
                if kind.rows is not None and isinstance(value, dict):
                    found = [*kind.rows(value)]
            except InvalidValueError as error:
                found = [bad_cell(error.field, error.value, error.reason)]
            except ValueError as error:
                found = [BadRow(str(error), str(error))]
            rows += found
            start = count + len(places) + 1
            places += range(start, start + len(found)) if kind.document else [number] * len(found)
        count += len(rows)
        yield places, rows


def _gaps(cell: Any, unit: float) -> Any:
    """Return times between tokens and their sum; the cell itself where it cannot be read."""
    times = as_list(cell)
    if times is None:
        return cell
    return (times * unit).astype(np.float32), (times * unit).sum() if len(times) else math.nan


def _label(cell: Any) -> str | None:
    return str(cell).strip() or None if type(cell) in (str, int, float) else None


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

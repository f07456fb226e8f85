"""Read the rows of a log, whatever wrote it: cells of its columns in the units that it has them."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from instances.arrays import FloatArray, IntArray
from instances.errors import FileFormatError, InvalidValueError, printable
from instances.settings import parse_value

from . import cells
from .advice import detect_format, unknown
from .cells import BadRow, SkippedRows
from .formats import DURATIONS, ENGINE_SETTINGS, STAMPS, Format, OnBadRows, wanted_format
from .paths import lookup
from .prefixes import as_blocks
from .records import Records, Rows, opened, records_of
from .request_log import RequestLog
from .tools import FAILED, PHASES, WARM_UP, innermost, is_warm_up, rate_of

MOST_TRIED = 100
"""Records that are looked at to detect the format: the first requests may have failed."""

WITHOUT_OUTPUT = "without output length"
GAPS = "inter_token_times"
NO_OBJECT = BadRow("the row is not a JSON object", "is not a JSON object")

WAY_OUT = "bad_rows='skip' leaves such rows out (in a command FILE(bad_rows=skip))"


def read_rows(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    columns: Mapping[str, Any] | None = None,
    *,
    bad_rows: OnBadRows = "refuse",
    block_hashes: bool = False,
) -> RequestLog:
    """Read the rows of a log, including those that have no tokens.

    Parameters and errors are those of `read_log` and `read_trace`.
    """
    wanted = wanted_format(format, columns, bad_rows)
    with opened(path) as stream:
        records = records_of(stream, path, wanted)
        tried = [*islice(records.rows, MOST_TRIED)]
        kind = _format_of(path, wanted, records.header, tried, (columns or {}).get("worker"))
        facts: dict[str, Any] = {"note": kind.note}
        if kind.settings:
            tried += records.rows
            facts = _run_facts(path, kind, tried)
        rows = _Rows(kind, block_hashes)
        rows.take(records._replace(rows=chain(tried, records.rows)))
    ticks, arrays = rows.read()
    bad, skipped = rows.bad, SkippedRows.of(rows.count, rows.bad)
    if bad and bad_rows == "refuse":
        first, rest = min(bad), f"{len(bad):,} of {rows.count:,} rows cannot be read; {WAY_OUT}"
        raise FileFormatError(path, f"{bad[first].message}; {rest}", row=first)
    kept = np.flatnonzero(~np.isin(rows.numbers, [*bad]))
    begin = min((ticks[k] for k in kept), default=0)
    times = np.array([(ticks[k] - begin) / cells.TICKS_PER_SECOND for k in kept])
    order = np.argsort(times, kind="stable")
    arrays = {name: column[kept[order]] for name, column in arrays.items()}
    between = arrays.pop("between", np.zeros(0, object)).tolist()
    return RequestLog(
        source=printable(os.path.basename(os.fsdecode(path))),
        format=kind.name,
        arrival_times=times[order],
        **arrays,
        inter_token_times=np.concatenate([np.zeros(0, np.float32), *between]),
        inter_token_offsets=np.cumsum([0, *([*map(len, between)] or [0] * len(kept))]),
        rows=rows.count,
        left_out=dict(+rows.left_out),
        out_of_order=int((times < np.maximum.accumulate(times)).sum()),
        time_unit=rows.time_unit,
        has_arrival_times=rows.time_unit is not None,
        skipped=skipped,
        **facts,
    )


def read_log(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    columns: Mapping[str, Any] | None = None,
    bad_rows: OnBadRows = "refuse",
    block_hashes: bool = False,
) -> RequestLog:
    """Read a log or a trace as a whole, in order of arrival, with what it measured.

    Parameters
    ----------
    path : str or os.PathLike
        A table (CSV), JSON lines, JSON or Parquet, plain or compressed with gzip; a pipe too.
    format : str or None, default None
        The name of a format; None tells it from the content.
    columns : Mapping[str, str] or None, default None
        Instead of a format, which column holds what: ``{"arrival": ..., "prompt": ..., "output":
        ...}``. In JSON a name may be a path, as in ``"usage.prompt_tokens"``; a dot in a key has a
        backslash before it. Arrivals are seconds or dates, as the first is and the name of their
        column says; ``"arrival_ms"``, ``"arrival_us"`` and ``"arrival_ns"`` count parts of a
        second; without any all arrive at once. Measurements are ``"latency"``,
        ``"time_to_first_token"``, ``"inter_token_time"`` (the mean), each with ``_ms`` or in the
        unit that ends its name, else in seconds; ``"end"`` and ``"first_token"`` are times on the
        clock of arrivals. ``"error"`` is empty, 0, false, a success or a status below 400 where a
        request succeeded, ``"worker"`` the replica that served it, ``"requests"`` the list of
        requests in a larger object. ``{"worker": "pod"}`` alone says which column names the
        replica in a file of any format.
    bad_rows : {"refuse", "skip"}, default "refuse"
        What becomes of a row that cannot be read, such as one with an empty or negative cell: an
        error, or the row is skipped and counted.
    block_hashes : bool, default False
        Whether to hold the hashes of prompts, 8 bytes a block and some 150 a request.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        No format fits, a column is missing, a row cannot be read, no request is left, or none has
        the worker that ``columns`` name.
    UnknownNameError, InvalidTypeError, InvalidValueError
        No format of the name given, or columns that do not say what is read.
    """
    log = read_rows(path, format, columns, bad_rows=bad_rows, block_hashes=block_hashes)
    kept = (log.prompt_lengths > 0) & (log.output_lengths > 0)
    log = replace(log, dropped_empty=len(log) - int(kept.sum()))
    if not kept.any():
        skipped = f"; {log.skipped}" if log.skipped else ""
        reason = f"no request is left of {log.rows} ({log.dropped or 'none is there'}){skipped}"
        raise FileFormatError(path, reason)
    log = log.select(kept)
    if log.workers is not None and not any(log.workers):
        if columns and "worker" in columns:
            reason = f"no request says which worker served it: {columns['worker']!r} is missing"
            raise FileFormatError(path, reason)
        log = replace(log, workers=None)
    if log.arrival_times[0] > 0:
        since = cells.seconds_since(log.arrival_times, log.arrival_times[0])
        log = replace(log, arrival_times=since)
    return log


# --- what a file is -----------------------------------------------------------------------------


def _format_of(
    path: object,
    wanted: Format | None,
    header: Sequence[str],
    tried: Sequence[tuple[int, Any]],
    worker: str | None,
) -> Format:
    """Detect the format by the first records, or refuse those that lack a column of it."""
    records = [one for _, one in tried if isinstance(one, dict)]
    if header:
        records.insert(0, dict.fromkeys(header))
    elif tried and not records:
        number, first = tried[0]
        reason = first.message if isinstance(first, BadRow) else NO_OBJECT.message
        raise FileFormatError(path, reason, row=number)
    kind = detect_format(path, records) if wanted is None else wanted
    if worker is not None:
        kind = kind._replace(columns={**kind.columns, "worker": (worker,)})
    rows = records
    if kind.rows is not None and not kind.marks:
        rows = [one for record in records for one in kind.rows(record) if isinstance(one, dict)]
    for mark in kind.missing(rows):
        raise unknown(path, records, f"column {mark!r} is missing")
    read = {name for names in kind.columns.values() for name in names}
    for name, count in Counter(header).items():
        if name in read and count > 1:
            raise FileFormatError(path, f"column {name!r} is there twice")
    return kind


def _run_facts(path: object, kind: Format, runs: Sequence[tuple[int, Any]]) -> dict[str, Any]:
    """Return the settings of the engine in a run of a benchmark, and a note on its arrivals.

    SGLang's run has the server's answer in ``server_info``, vLLM's what was said with ``--metadata
    max_num_seqs=64 ...``. Text is not kept: every setting is a number or a truth value.
    """
    if len(runs) > 1:
        reason = f"holds {len(runs)} runs, each with a clock of its own: give a file with one run"
        raise FileFormatError(path, reason)
    settings, note = {}, kind.note
    for _, run in runs:
        for where in (run, lookup(run, "server_info")):
            for name, value in where.items() if isinstance(where, dict) else ():
                number = parse_value(value) if isinstance(value, str) else value
                if name in ENGINE_SETTINGS and type(number) in (bool, int, float):
                    settings[name] = number
        if (rate := rate_of(run)) and kind.optional_arrival:
            note = f"no start times: arrivals even at the run's {rate:g} requests a second"
    return {"note": note, "settings": settings}


# --- rows ---------------------------------------------------------------------------------------


def _requests(records: Rows, kind: Format) -> Iterator[tuple[int, Any]]:
    """Requests of each record; those of documents are numbered, others have its number."""
    count = 0
    for number, record in records:
        found: list[Any] = [record]
        try:
            if kind.rows is not None and isinstance(record, dict):
                found = [*kind.rows(record)]
        except InvalidValueError as error:
            found = [cells.bad_cell(error.field, error.value, error.reason)]
        except ValueError as error:
            found = [BadRow(str(error), str(error))]
        for row in found:
            count += 1
            yield (count if kind.document else number), row


class _Rows:
    """Cells of the requests of a file, role by role, and what became of its other rows."""

    def __init__(self, kind: Format, block_hashes: bool) -> None:
        self.kind = kind
        self.count = 0
        self.left_out: Counter[str] = Counter({FAILED: 0})
        self.numbers: list[int] = []
        self.bad: dict[int, BadRow] = {}
        self._bad_cells: dict[int, BadRow] = {}
        self.time_unit: str | None = None
        roles = {*kind.columns} - {"error", *(() if block_hashes else ("hashes",))}
        self._cells: dict[str, Any] = {one: [] for one in roles}

    def take(self, records: Records) -> None:
        """Take the cells of all requests; of a plain table whole columns."""
        kind = self.kind
        is_plain = kind.rows is None and not {"error", *PHASES} & {*records.header, *kind.columns}
        if records.frame is not None and is_plain:
            self.numbers = records.frame.index.tolist()
            self.count = len(self.numbers)
            for role in self._cells:
                column = records.frame.get(kind.name_of(role))
                self._cells[role] = [None] * self.count if column is None else column.tolist()
            return
        rows = _requests(records.rows, kind)
        for number, row in innermost([*rows], kind.columns) if kind.name == "otlp" else rows:
            self.count += 1
            taken = self._taken(row) if isinstance(row, dict) else row
            if isinstance(taken, str):
                self.left_out[taken] += 1
            elif isinstance(taken, dict):
                self.numbers.append(number)
                for role, cell in taken.items():
                    self._cells[role].append(cell)
            else:
                self.bad[number] = taken if isinstance(taken, BadRow) else NO_OBJECT

    def _taken(self, row: dict[str, Any]) -> dict[str, Any] | BadRow | str:
        """Take the cells of a request, lists as arrays; or why it is left out."""
        kind = self.kind
        if is_warm_up(row):
            return WARM_UP
        if kind.has_failed(row):
            return FAILED
        taken = {role: lookup(row, *kind.columns[role]) for role in self._cells}
        if kind.marks and taken["output"] is None:
            return WITHOUT_OUTPUT
        if "hashes" in taken:
            size: Any = kind.block_size
            size = lookup(row, size) if isinstance(size, str) else size
            taken["hashes"] = as_blocks(size, taken["hashes"])
        if GAPS in taken:
            try:
                times = cells.as_durations(taken[GAPS]) * kind.seconds.get(GAPS, 1.0)
            except ValueError as error:
                return cells.bad_cell(kind.name_of(GAPS), taken[GAPS], str(error))
            taken[GAPS] = times.astype(np.float32), times.sum() if len(times) else math.nan
        return taken

    def read(self) -> tuple[list[int], dict[str, Any]]:
        """Read the cells: times in ticks, and arrays; say of rows why they cannot be read."""
        kind, bad = self.kind, self._bad_cells
        measured = {
            one: self._column(one, cells.as_duration, math.nan) * kind.seconds.get(one, 1.0)
            for one in DURATIONS
        }
        times, clock = self._cells.get("arrival", ()), kind.clock()
        if kind.optional_arrival and all(one is None for one in times):
            times = ()
        ticks = clock.column(times, kind.name_of("arrival"), bad) or [0] * len(self.numbers)
        self.time_unit = clock.unit if times else None
        prompts, outputs = (self._column(one, cells.as_count, 0) for one in ("prompt", "output"))
        for role, duration in STAMPS.items():
            for place, cell in enumerate(self._cells.get(role, ())):
                is_known = not math.isnan(measured[duration][place])
                if is_known or place in bad or cells.is_blank(cell):
                    continue
                try:
                    since = clock(cell) - ticks[place]
                    if since < 0:
                        raise ValueError("is before the arrival")
                    measured[duration][place] = since / cells.TICKS_PER_SECOND
                except ValueError as error:
                    bad[place] = cells.bad_cell(kind.name_of(role), cell, str(error))
        gaps = self._cells.get(GAPS, ())
        _put_together(measured, outputs, np.array([total for _, total in gaps]))
        self.bad |= {self.numbers[place]: row for place, row in bad.items()}
        arrays = {
            "row_numbers": np.array(self.numbers, np.int64),
            "prompt_lengths": prompts,
            "output_lengths": outputs,
            "latencies": measured["latency"],
            "times_to_first_token": measured["time_to_first_token"],
            "mean_inter_token_times": measured["inter_token_time"],
        }
        lists = {
            "workers": [cells.text_of(one) or None for one in self._cells.get("worker", ())],
            "prompt_blocks": self._cells.get("hashes", ()),
            "between": [one for one, _ in gaps],
        }
        return ticks, arrays | {k: np.fromiter(one, object) for k, one in lists.items() if one}

    def _column(self, role: str, read: Callable[[Any], Any], instead: Any) -> Any:
        """Read the cells of a role as an array, filled where the file has no column of it."""
        if role not in self._cells:
            return np.full(len(self.numbers), instead)
        name = self.kind.name_of(role)
        found = cells.column_of(self._cells[role], read, name, self._bad_cells, instead)
        return np.array(found, type(instead))


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

"""Read the rows of a log, whatever wrote it: cells of its columns in the units that it has them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from instances.errors import FileFormatError, printable
from instances.settings import parse_value

from .advice import detect_format, unknown
from .cells import PER_SECOND, SkippedRows, seconds_since
from .formats import ENGINE_SETTINGS, Format, OnBadRows, wanted_format
from .paths import lookup
from .records import NO_OBJECT, opened, records_of
from .request_log import RequestLog
from .rows import TakenRows
from .tools import rate_of

MOST_TRIED = 100
"""Records that are looked at to detect the format: the first requests may have failed."""

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
        header, records = records_of(stream, path, wanted)
        first = next(records, ((), []))
        kind = _format_of(path, wanted, header, *first, columns or {})
        facts = _run_facts(path, kind, first[1]) if kind.settings else {"note": kind.note}
        rows = TakenRows(kind, chain([first], records), block_hashes)
    ticks, arrays = rows.read()
    bad, skipped = rows.bad, SkippedRows.of(rows.count, rows.bad)
    if bad and bad_rows == "refuse":
        worst, rest = min(bad), f"{len(bad):,} of {rows.count:,} rows cannot be read; {WAY_OUT}"
        raise FileFormatError(path, f"{bad[worst].message}; {rest}", row=worst)
    kept = np.flatnonzero([one not in bad for one in rows.numbers])
    ticks = ticks[kept] - min(ticks[kept], default=0)
    order = kept[np.argsort(ticks, kind="stable")]
    arrays = {name: column[order] for name, column in arrays.items()}
    between = arrays.pop("between", np.zeros(0, object)).tolist()
    return RequestLog(
        source=printable(os.path.basename(os.fsdecode(path))),
        format=kind.name,
        arrival_times=np.sort(ticks) / PER_SECOND,
        **arrays,
        inter_token_times=np.concatenate([np.zeros(0, np.float32), *between]),
        inter_token_offsets=np.cumsum([0, *([*map(len, between)] or [0] * len(kept))]),
        rows=rows.count,
        left_out=dict(+rows.left_out),
        out_of_order=int((ticks < np.maximum.accumulate(ticks)).sum()),
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
    if log.workers is None and columns and "worker" in columns:
        reason = f"no request says which worker served it: {columns['worker']!r} is missing"
        raise FileFormatError(path, reason)
    return replace(log, arrival_times=seconds_since(log.arrival_times, log.arrival_times[0]))


def _format_of(
    path: object,
    wanted: Format | None,
    header: Sequence[str],
    numbers: Sequence[int],
    tried: Sequence[Any],
    columns: Mapping[str, Any],
) -> Format:
    """Detect the format by the first records, or refuse those that lack a column of it."""
    records = [one for one in tried[:MOST_TRIED] if isinstance(one, dict)]
    if header:
        records.insert(0, dict.fromkeys(header, ""))
    elif tried and not records:
        reason = getattr(tried[0], "message", NO_OBJECT.message)
        raise FileFormatError(path, reason, row=numbers[0])
    kind = detect_format(path, records) if wanted is None else wanted
    if "worker" in columns:
        kind = kind._replace(columns={**kind.columns, "worker": (columns["worker"],)})
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


def _run_facts(path: object, kind: Format, runs: Sequence[Any]) -> dict[str, Any]:
    """Return the settings of the engine in a run of a benchmark, and a note on its arrivals.

    SGLang's run has the server's answer in ``server_info``, vLLM's what was said with ``--metadata
    max_num_seqs=64 ...``. Text is not kept: every setting is a number or a truth value.
    """
    if len(runs) > 1:
        reason = f"holds {len(runs)} runs, each with a clock of its own: give a file with one run"
        raise FileFormatError(path, reason)
    settings, note = {}, kind.note
    for where in [place for run in runs for place in (run, lookup(run, "server_info"))]:
        for name in ENGINE_SETTINGS & where.keys() if isinstance(where, dict) else ():
            number = parse_value(where[name]) if isinstance(where[name], str) else where[name]
            if type(number) in (bool, int, float):
                settings[name] = number
    if kind.optional_arrival and (rate := rate_of(runs[0])):
        note = f"no start times: arrivals even at the run's {rate:g} requests a second"
    return {"note": note, "settings": settings}

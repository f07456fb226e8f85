"""Read logs of all known formats: find the columns, and convert their cells to arrays."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress
from typing import Any

import numpy as np

from instances.arrays import FloatArray, IntArray
from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError, printable
from instances.settings import parse_value

from . import cells, prefixes
from .cells import BadRow, bad_cell, column, is_blank, lookup
from .formats import DURATIONS, ENGINE_SETTINGS, STAMPS, Format, format_of, wanted_format
from .records import Rows, opened, records_of
from .request_log import RequestLog
from .tools import FAILED, ROWS, Row, innermost, rate_of

WAY_OUT = "bad_rows='skip' leaves such rows out (in a command FILE(bad_rows=skip))"
GAPS = "inter_token_times"
NO_GAPS = cells.as_list(None)


def read_rows(
    path: str | os.PathLike[str], name: Any, columns: Any, bad_rows: Any, hashes: bool = False
) -> RequestLog:
    """Read all rows of a log, including requests with no prompt token or no output token.

    Parameters and errors are those of `read_log`, except that the result may have no requests.
    ``name`` is the format. ``hashes`` is the argument ``shared_prefixes`` of `read_log`.
    """
    wanted = wanted_format(name, columns, bad_rows)
    with opened(path) as stream:
        header, records = records_of(stream, path)
        first = next(records, ((), []))
        kind = format_of(path, wanted, header, first, (columns or {}).get("worker"))
        facts = _run_facts(path, kind, first[1])
        rows = _Rows(kind, chain([first], records), hashes)
    (ticks, arrays), bad = rows.read(), rows.bad
    if bad and bad_rows == "refuse":
        worst, rest = min(bad), f"{len(bad):,} of {rows.count:,} rows cannot be read; {WAY_OUT}"
        raise FileFormatError(path, f"{bad[worst].message}; {rest}", row=worst)
    kept = np.flatnonzero([one not in bad for one in rows.numbers])
    ticks = ticks[kept] - min(ticks[kept], default=0)
    order = kept[np.argsort(ticks, kind="stable")]
    arrays = {name: one[order] for name, one in arrays.items()}
    if "hashes" in arrays:
        facts |= _shared_tokens(arrays, kind.block_size)
    return RequestLog(
        source=printable(os.path.basename(os.fsdecode(path))),
        format=kind.name,
        arrival_times=np.sort(ticks) / cells.PER_SECOND,
        **arrays,
        rows=rows.count,
        left_out=dict(rows.left_out + Counter({"skipped": len(bad)})),
        out_of_order=int((ticks < np.maximum.accumulate(ticks)).sum()),
        time_unit=rows.time_unit,
        has_arrival_times=rows.time_unit is not None,
        **facts,
    )


def read_log(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    columns: Mapping[str, Any] | None = None,
    bad_rows: str = "refuse",
    shared_prefixes: bool = False,
) -> RequestLog:
    """Read a whole log or trace: its requests in order of arrival, with the measured latencies.

    Parameters
    ----------
    path : str or os.PathLike
        A table (CSV), JSON lines, JSON or Parquet, plain or compressed with gzip. It may be a pipe.
    format : str or None, default None
        Name of a format, a key of `FORMATS`. None detects the format from the content.
    columns : Mapping[str, str] or None, default None
        Instead of a format, the name of the column for each role: ``{"arrival": ..., "prompt":
        ..., "output": ...}``. In JSON a name may be a path, as in ``"usage.prompt_tokens"``, and a
        dot in a key has a backslash before it.

        - ``"arrival"``: a date or a number. Its unit is that in the column's name, else it is
          detected from the first row. ``"arrival_ms"``, ``"arrival_us"`` and ``"arrival_ns"`` fix
          the unit. Without any of these roles all requests arrive at once.
        - ``"prompt"``, ``"output"``: numbers of tokens.
        - ``"latency"``, ``"time_to_first_token"``, ``"inter_token_time"`` (the mean): durations in
          the unit that ends the column's name, else in seconds; with ``_ms`` after the role in
          milliseconds.
        - ``"end"``, ``"first_token"``: times of these events, in the unit of the arrivals.
        - ``"error"``: a request succeeded if this is empty, 0, false, a success or an HTTP status
          below 400. Other requests failed and are left out.
        - ``"phase"``: a request whose phase begins with "warm" or "cool" is left out.
        - ``"worker"``: label of the replica that served the request. This role may also be the only
          one. It is then added to the format of the file.
    bad_rows : {"refuse", "skip"}, default "refuse"
        Whether a row that cannot be read, such as one with an empty or negative cell, is an error,
        or is skipped and counted.
    shared_prefixes : bool, default False
        Whether to compute ``shared_tokens`` of the `RequestLog`, from hashes of prompts. Formats
        with such hashes are mooncake, qwen-bailian and dynamo.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        No format fits, a column is missing, a row cannot be read, no request is left, or no request
        has a label in the worker's column.
    UnknownNameError, InvalidTypeError, InvalidValueError
        The format's name is unknown, or ``columns`` lacks a role or has an unknown one.
    """
    log = read_rows(path, format, columns, bad_rows, shared_prefixes)
    kept = (log.prompt_lengths > 0) & (log.output_lengths > 0)
    left_out = +Counter({**log.left_out, "empty": len(log) - int(kept.sum())})
    log = replace(log.select(kept), left_out=dict(left_out))
    if not kept.any():
        reason = f"no request is left of {log.rows} ({log.dropped or 'none is there'})"
        raise FileFormatError(path, reason)
    if log.workers is None and columns and "worker" in columns:
        reason = f"no request says which worker served it: {columns['worker']!r} is missing"
        raise FileFormatError(path, reason)
    return replace(log, arrival_times=cells.seconds_since(log.arrival_times, log.arrival_times[0]))


def _run_facts(path: object, kind: Format, runs: Sequence[Any]) -> dict[str, Any]:
    """Return ``note`` and ``settings`` of the log of a benchmark run, for `RequestLog`.

    The note says which unit or arrival times are assumed. The settings are those of the engine in
    the run. SGLang's file has the server's settings in ``server_info``. vLLM's file has the
    settings that the user passed to the benchmark with ``--metadata max_num_seqs=64 ...``. Only
    settings that are numbers or booleans are returned. Files of other formats have no settings.
    """
    if not kind.settings:
        return {"note": kind.note}
    if len(runs) > 1:
        reason = f"holds {len(runs)} runs, each with a clock of its own: give a file with one run"
        raise FileFormatError(path, reason)
    settings, note, rate = dict[str, Any](), kind.note, rate_of(runs[0])
    for place in (runs[0], lookup(runs[0], "server_info")):
        for name in ENGINE_SETTINGS & place.keys() if isinstance(place, dict) else ():
            value = parse_value(str(place[name]))
            settings |= {} if isinstance(value, str) else {name: value}
    if rate and kind.optional_arrival:
        note = f"no start times: arrivals even at the run's {rate:g} requests a second"
    return {"note": note, "settings": settings}


def _shared_tokens(arrays: dict[str, Any], block_size: int) -> dict[str, Any]:
    """Remove the hashes from ``arrays``, and compute the shared tokens of each request from them.

    Return these, or a note with the reason why they are not known. Requests without prompt or
    output supply no tokens.
    """
    sizes = {one if type(one) is int else 0 for one in arrays.pop("block_size", [block_size])}
    size: Any = sizes.pop() if len(sizes) == 1 else sorted(sizes)
    hashes = arrays.pop("hashes")
    lengths = np.array([arrays["prompt_lengths"], arrays["output_lengths"]])
    kept, shared = (lengths > 0).all(axis=0), np.zeros(len(hashes), np.int64)
    try:
        shared[kept] = prefixes.shared_prefixes(hashes[kept], size, *lengths[:, kept])
    except (InvalidTypeError, InvalidValueError) as error:
        return {"note": f"shared prefixes are not known: {error}"}
    return {"shared_tokens": shared}


# --- rows ---------------------------------------------------------------------------------------


class _Rows:
    """Cells of a log's requests by role (such as "prompt"), and counts of the rows left out.

    Parameters
    ----------
    kind : Format
        Format of the file: the name of the column for each role.
    records : Rows
        Records of the file, in chunks.
    shared_prefixes : bool
        Whether to keep the hashes of prompt blocks.

    Attributes
    ----------
    count : int
        Number of all requests in the file.
    left_out : Counter[str]
        Number of requests left out for each reason, such as failed requests.
    numbers : list[int]
        Row numbers of the requests that are not left out.
    bad : dict[int, BadRow]
        Reasons of the rows that cannot be read, by row number; `read` adds more.
    time_unit : str or None
        Unit of the arrivals, set by `read`.
    """

    def __init__(self, kind: Format, records: Rows, shared_prefixes: bool) -> None:
        self.kind = kind
        self.count = 0
        self.left_out: Counter[str] = Counter({FAILED: 0})
        self.numbers: list[int] = []
        self.bad: dict[int, BadRow] = {}
        self.time_unit: str | None = None
        unused = {"error", "phase", *(() if shared_prefixes else ("hashes", "block_size"))}
        self._cells: dict[str, list[Any]] = {one: [] for one in kind.columns.keys() - unused}
        rows = _requests(records, ROWS[kind.name], kind.document) if kind.name in ROWS else records
        for chunk in innermost(rows, kind.columns) if kind.name == "otlp" else rows:
            self._take(*chunk)

    def _take(self, numbers: Sequence[int], rows: list[Any]) -> None:
        """Append the cells of a chunk of requests, given their row numbers and their rows.

        Requests that failed, lack an output length, or were sent to warm the server up are counted
        in ``left_out`` instead.
        """
        kind = self.kind
        self.count += len(numbers)
        for reason, is_left in kind.reasons(rows):
            if any(is_left):
                pairs = zip(rows, is_left, strict=True)
                rows = [reason if left and isinstance(row, dict) else row for row, left in pairs]
        if {*map(type, rows)} != {dict}:
            is_kept = [isinstance(row, dict) for row in rows]
            for number, row in zip(numbers, rows, strict=True):
                if isinstance(row, str):
                    self.left_out[row] += 1
                elif isinstance(row, BadRow):
                    self.bad[number] = row
            numbers, rows = [*compress(numbers, is_kept)], [*compress(rows, is_kept)]
        self.numbers += numbers
        for role, taken in self._cells.items():
            found = column(rows, *kind.columns[role])
            if role == GAPS:
                found = [cells.as_list(one, kind.seconds(role)) or one for one in found]
            elif role == "hashes":
                found = [*map(prefixes.as_hashes, found)]
            taken += found

    def read(self) -> tuple[IntArray, dict[str, Any]]:
        """Convert the cells: return arrivals in nanoseconds, and the arrays of a `RequestLog`.

        Rows with a cell that cannot be converted are added to ``bad`` with the reason.
        """
        measured = {role: self._numbers(role) for role in DURATIONS}
        ticks = self._ticks(measured)
        prompts, outputs = (self._numbers(role).astype(np.int64) for role in ("prompt", "output"))
        gaps = self._cells.get(GAPS, [NO_GAPS] * len(self.numbers))
        self._refuse([GAPS], [type(one) is not tuple for one in gaps], cells.NO_LIST)
        gaps = [one if type(one) is tuple else NO_GAPS for one in gaps]
        _put_together(measured, outputs, np.array([total for _, total in gaps]))
        lists = {role: self._cells.get(role, ()) for role in ("hashes", "block_size")}
        labels = [_label(one) for one in self._cells.get("worker", ())]
        lists["workers"] = labels if any(labels) else ()
        return ticks, {
            "row_numbers": np.array(self.numbers, np.int64),
            "prompt_lengths": prompts,
            "output_lengths": outputs,
            **{DURATIONS[role]: seconds for role, seconds in measured.items()},
            GAPS: np.fromiter([times for times, _ in gaps], object),
            **{name: np.fromiter(one, object) for name, one in lists.items() if one},
        }

    def _numbers(self, role: str) -> FloatArray:
        """Convert the cells of a role to durations in seconds, or to whole numbers of tokens.

        Without such a column all are NaN. Rows with an invalid cell are added to ``bad``.
        """
        if role not in self._cells:
            return np.full(len(self.numbers), np.nan)
        is_count = role not in DURATIONS
        found, is_bad, reason = cells.in_range(self._cells[role], is_count)
        self._refuse([role], is_bad, reason)
        return found if is_count else found * self.kind.seconds(role)

    def _ticks(self, measured: dict[str, FloatArray]) -> IntArray:
        """Return the arrivals in nanoseconds, all 0 if the file has none.

        Where ``measured`` (durations in seconds by role) lacks a duration but the file has the time
        at which it ended, set it to that time minus the arrival.
        """
        kind, count = self.kind, len(self.numbers)
        roles = [role for role in ("arrival", *STAMPS) if role in self._cells]
        if all(one is None for one in self._cells.get("arrival", ())):
            return np.zeros(count, np.int64)
        for role in roles[1:]:
            pairs = zip(self._cells[role], np.isnan(measured[STAMPS[role]]), strict=True)
            self._cells[role] = [one if is_unknown else None for one, is_unknown in pairs]
        together = [*chain.from_iterable(self._cells[role] for role in roles)]
        unit = kind.units.get("arrival")
        found, self.time_unit = cells.as_times(
            together, unit, lambda *bad: self._refuse(roles, *bad)
        )
        ticks, *ends = found.reshape(len(roles), count)
        for role, end in zip(roles[1:], ends, strict=True):
            is_given = np.array([not is_blank(one) for one in self._cells[role]], bool)
            self._refuse([role], is_given & (end < ticks), "is before the arrival")
            known = measured[STAMPS[role]]
            measured[STAMPS[role]] = np.where(is_given, (end - ticks) / cells.PER_SECOND, known)
        return ticks

    def _refuse(self, roles: Sequence[str], is_bad: Any, reason: str) -> None:
        """Add rows with unreadable cells to ``bad`` with the reason.

        ``is_bad`` is a mask of the cells of the roles' columns, one column after the other. Empty
        cells of durations and of times other than arrivals are allowed.
        """
        for place in np.flatnonzero(is_bad).tolist():
            which, row = divmod(place, len(self.numbers))
            cell = self._cells[roles[which]][row]
            if not (is_blank(cell) and roles[which] in {*DURATIONS, *STAMPS}):
                bad = bad_cell(self.kind.columns[roles[which]][0], cell, reason)
                self.bad.setdefault(self.numbers[row], bad)


def _label(cell: Any) -> str | None:
    return (str(cell).strip() or None) if type(cell) in (str, int, float) else None


def _requests(records: Rows, requests: Callable[[Any], Iterable[Row]], is_document: bool) -> Rows:
    """Yield the requests of each chunk of records. A record may have several requests.

    ``requests`` is a function from a record to its requests. In documents (one JSON value with all
    requests) requests are numbered from 1. Otherwise a request has its record's line number.
    """
    count = 0
    for numbers, values in records:
        found = [[*requests(one)] if isinstance(one, dict) else [one] for one in values]
        rows = [*chain.from_iterable(found)]
        repeated = np.repeat(np.array(numbers, np.int64), [*map(len, found)]).tolist()
        yield range(count + 1, count + 1 + len(rows)) if is_document else repeated, rows
        count += len(rows)


def _put_together(measured: dict[str, FloatArray], outputs: IntArray, gap_sums: FloatArray) -> None:
    """Fill in latencies and mean inter-token times (seconds) that follow from other measurements.

    ``measured`` holds durations by role and is changed. ``gap_sums`` are sums of the times between
    the tokens of each request, NaN where the log has none.
    """
    first, latency = measured["time_to_first_token"], measured["latency"]
    mean, gaps = measured["inter_token_time"], np.maximum(1, outputs - 1)
    is_derived = np.isnan(latency) & ((outputs == 1) | np.isfinite(gap_sums))
    latency = np.where(is_derived, first + np.nan_to_num(gap_sums), latency)
    # Divide by (output tokens - 1) and not by the number of recorded times. If the server sends
    # chunks of several tokens, there are fewer times than tokens.
    mean = np.where(np.isfinite(gap_sums), gap_sums / gaps, mean)
    # If the log has no mean, compute it from the other times: the output tokens after the first
    # take latency - time to first token.
    is_apart = np.isnan(mean) & (outputs > 1) & (latency >= first)
    measured["inter_token_time"] = mean = np.where(is_apart, (latency - first) / gaps, mean)
    # If the log has no latency, it is time to first token + mean * (output tokens - 1).
    later = np.where(outputs > 1, mean * (outputs - 1), 0.0)
    measured["latency"] = np.where(np.isnan(latency), first + later, latency)

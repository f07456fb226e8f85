"""Read the rows of a log, whatever wrote it: cells of its columns in the units that it has them."""

from __future__ import annotations

import math
import operator
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray
from instances.errors import FileFormatError, InvalidValueError
from instances.settings import parse_value

from .advice import MAP_COLUMNS, detect_format, unknown
from .cells import (
    DIGITS_OF,
    TICKS_PER_SECOND,
    BadRow,
    SkippedRows,
    as_blocks,
    as_count,
    as_duration,
    as_durations,
    as_label,
    bad_cell,
    column_of,
    is_blank,
)
from .formats import (
    DURATIONS,
    ENGINE_SETTINGS,
    STAMPS,
    Format,
    innermost,
    rate_of,
    run_of,
    wanted_format,
)
from .paths import UNIT_OF_WORD, lookup
from .records import Records, opened, records_of

MOST_TRIED = 100
"""Records that are looked at to tell the format: the first requests may have failed."""

WARM_UP = "warm-up"
PHASES = ("phase", "benchmark_phase", "credit_phase", "is_warmup", "warmup", "is_warm_up")
"""Keys, at the top of a record or in its metadata, that say whether it is of a warm-up."""

OnBadRows = Literal["refuse", "skip"]
WAY_OUT = "bad_rows='skip' leaves such rows out (in a command FILE(bad_rows=skip))"


class Rows(NamedTuple):
    """Rows of a log that can be read, in order of time, with those that have no tokens.

    Attributes
    ----------
    arrival : str
        The column of their times.
    ticks : list[int]
        Time of each on the clock of the file; 0 where it has none.
    arrays : dict[str, Any]
        Columns of `RequestLog` that have an entry a row.
    between : list[float32 array]
        Seconds from token to token of each row; empty where there are none.
    facts : dict[str, Any]
        Other fields of `RequestLog`.
    """

    arrival: str
    ticks: list[int]
    arrays: dict[str, Any]
    between: list[npt.NDArray[np.float32]]
    facts: dict[str, Any]


def read_rows(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    columns: Mapping[str, Any] | None = None,
    *,
    bad_rows: OnBadRows = "refuse",
    block_hashes: bool = False,
) -> Rows:
    """Read the rows of a log; parameters and errors are those of `read_log` and `read_trace`."""
    wanted = wanted_format(format, columns)
    check_bad_rows(bad_rows)
    with opened(path) as stream:
        records = records_of(stream, path, wanted)
        kind, records, facts = _told(records, path, wanted, columns)
        cells = _Cells(kind, block_hashes)
        cells.take(records)
    ticks, arrays = cells.read()
    skipped, bad = SkippedRows(cells.rows), cells.bad
    for number in sorted(bad):
        skipped.add(number, bad[number].reason)
    if bad and bad_rows == "refuse":
        first, rest = min(bad), "no row before it or after it can be read"
        if len(bad) < cells.rows:
            rest = f"{len(bad):,} of {cells.rows:,} rows cannot be read; {WAY_OUT}"
        raise FileFormatError(path, f"{bad[first].message}; {rest}", row=first)
    kept = [k for k, number in enumerate(cells.numbers) if number not in bad]
    if bad and not kept and not cells.failed:
        raise FileFormatError(path, f"none of its rows can be read: {skipped.reasons()}")
    times = [ticks[k] for k in kept]
    late = sum(map(operator.lt, times, accumulate(times, max)))
    kept.sort(key=ticks.__getitem__)
    facts |= {
        "has_arrival_times": cells.time_unit is not None,
        "rows": cells.rows,
        "failed": cells.failed,
        "left_out": dict(+cells.left_out),
        "without_output": int(cells.is_unknown[kept].sum()),
        "out_of_order": late,
        "time_unit": cells.time_unit,
        "skipped": skipped,
    }
    arrays = {name: column[kept] for name, column in arrays.items()}
    between = [cells.between[k] for k in kept] if any(map(len, cells.between)) else []
    times = [ticks[k] for k in kept]
    return Rows(kind.name_of("arrival"), times, arrays, between, facts)


def check_bad_rows(bad_rows: Any) -> None:
    """Refuse what is not one of `OnBadRows`.

    Raises
    ------
    InvalidValueError
        It is something else.
    """
    if bad_rows not in get_args(OnBadRows):
        raise InvalidValueError(None, "bad_rows", bad_rows, "is neither 'refuse' nor 'skip'")


# --- what a file is -----------------------------------------------------------------------------


def _told(
    records: Records, path: object, wanted: Format | None, columns: Mapping[str, Any] | None
) -> tuple[Format, Records, dict[str, Any]]:
    """Tell the format; of several runs of a benchmark take the one that is asked for."""
    tried: list[tuple[Sequence[int], list[Any]]] = []
    while sum(len(one) for _, one in tried) < MOST_TRIED and (more := next(records.blocks, None)):
        tried.append(more)
    header, blocks = records.header, chain(tried, records.blocks)
    examples = _examples(Records(iter(tried), header), path)
    kind = detect_format(path, examples) if wanted is None else wanted
    if columns and "worker" in columns:
        kind = kind._replace(columns={**kind.columns, "worker": (columns["worker"],)})
    rows = examples
    if kind.rows is not None and not kind.marks:
        rows = [one for record in examples for one in kind.rows(record) if isinstance(one, dict)]
    for mark in kind.required:
        if kind.lacks(mark, rows):
            why = f"column {mark!r} is missing"
            raise unknown(path, examples, why if mark[0] != "-" else f"has {mark[1:]!r}")
    read = {name for names in kind.columns.values() for name in names}
    for name, count in Counter(header).items():
        if name in read and count > 1:
            raise FileFormatError(path, f"column {name!r} is there twice")
    facts: dict[str, Any] = {"format": kind.name, "note": kind.note}
    run = run_of(columns)
    if kind.settings:
        number, chosen = _run_among(path, [*Records(blocks).numbered()], run)
        facts["settings"] = dict(_settings(chosen))
        if (rate := rate_of(chosen)) and kind.optional_arrival:
            facts["note"] = f"no start times: arrivals even at the run's {rate:g} requests a second"
        blocks = chain([([number], [chosen])])
    elif run is not None:
        reason = "holds no runs of vLLM's or SGLang's benchmark: leave out run"
        raise FileFormatError(path, reason)
    return kind, Records(blocks, header), facts


def _examples(records: Records, path: object) -> list[dict[str, Any]]:
    """Records that tell what a file is; of a table its columns come first."""
    tried, header = [*islice(records.numbered(), MOST_TRIED)], records.header
    if header is not None:
        rows = [one for _, one in tried if isinstance(one, list)]
        return [dict.fromkeys(header), *[dict(zip(header, one, strict=True)) for one in rows]]
    found = [one for _, one in tried if isinstance(one, dict)]
    if tried and not found:
        number, first = tried[0]
        reason = first.message if isinstance(first, BadRow) else "is not a JSON object"
        raise FileFormatError(path, reason, row=number)
    return found


def _run_among(path: object, runs: list[tuple[int, Any]], run: int | None) -> tuple[int, Any]:
    """Return the run that is read; refuse several without one that is chosen."""
    count = len(runs)
    if run is None and count > 1:
        reason = f"holds {count} runs, each with a clock of its own: say which with run=1"
        reason += f" to run={count} (in a command FILE(run=1), in Python columns={{'run': 1}})"
        raise FileFormatError(path, reason)
    if run is not None and run > count:
        raise FileFormatError(path, f"run={run} is not in the file, which holds {count} runs")
    return runs[(run or 1) - 1]


def _settings(run: Any) -> Iterator[tuple[str, Any]]:
    """Settings of the engine in a run of a benchmark.

    SGLang's has the server's answer in ``server_info``, vLLM's what was said with ``--metadata
    max_num_seqs=64 ...``. Text is not kept: every setting is a number or a truth value.
    """
    for where in (run, lookup(run, "server_info")):
        for name, value in where.items() if isinstance(where, dict) else ():
            number = parse_value(value) if isinstance(value, str) else value
            if name in ENGINE_SETTINGS and type(number) in (bool, int, float):
                yield name, number


# --- rows ---------------------------------------------------------------------------------------


def _rows(records: Records, kind: Format) -> Iterator[tuple[int, Any]]:
    """Numbered rows: cells by name, a `BadRow`, why it is left out, or None where it failed."""
    numbered: Iterable[tuple[int, Any]] = _expanded(records, kind)
    for number, row in innermost([*numbered]) if kind.name == "otlp" else numbered:
        if row is None or isinstance(row, str | BadRow):
            yield number, row
        elif not isinstance(row, dict):
            yield number, BadRow("the row is not a JSON object", "is not a JSON object")
        else:
            yield number, WARM_UP if is_warm_up(row) else None if kind.has_failed(row) else row


def _expanded(records: Records, kind: Format) -> Iterator[tuple[int, Any]]:
    """Rows of each record; those of documents are numbered, others have the record's number."""
    count, header = 0, records.header
    for number, record in records.numbered():
        if header is not None and isinstance(record, list):
            record = dict(zip(header, record, strict=True))
        found: Iterable[Any] = [record]
        try:
            if kind.rows is not None and isinstance(record, dict):
                found = [*kind.rows(record)]
        except InvalidValueError as error:
            found = [bad_cell(error.field, error.value, error.reason)]
        except ValueError as error:
            found = [BadRow(str(error), str(error))]
        for row in found:
            count += 1
            yield (count if kind.document else number), row


def is_warm_up(record: Mapping[str, Any]) -> bool:
    """Return True if a record says that its request was sent to warm the server up, or to cool it.

    Benchmarks measure none of these, and their requests were not sent at the benchmark's times.
    """
    metadata = record.get("metadata")
    for one in (record, metadata if isinstance(metadata, dict) else {}):
        for key in PHASES:
            if key in one:
                value = "".join(filter(str.isalnum, str(one[key]).lower()))
                is_told = "warm" in key and value in ("true", "1", "yes")
                if is_told or value.startswith(("warm", "cooldown")):
                    return True
    return False


class _Cells:
    """Cells of the rows of a file, role by role, and what became of the other rows."""

    def __init__(self, kind: Format, block_hashes: bool) -> None:
        self.kind = kind
        self.rows = self.failed = 0
        self.left_out: Counter[str] = Counter()
        self.numbers: list[int] = []
        self.bad: dict[int, BadRow] = {}
        self.between: list[npt.NDArray[np.float32]] = []
        self.sums: list[float] = []
        self.blocks: list[Any] = []
        self.is_unknown = np.zeros(0, np.bool_)
        self.time_unit: str | None = None
        self._has_hashes = block_hashes and "hashes" in kind.columns
        apart = ("error", "hashes", "inter_token_times", "inter_token_times_unit")
        self._cells: dict[str, list[Any]] = {one: [] for one in kind.columns if one not in apart}

    def take(self, records: Records) -> None:
        """Take the cells of all rows; of a plain table whole columns."""
        kind, header = self.kind, records.header
        roles = [(cells, kind.columns[role]) for role, cells in self._cells.items()]
        is_plain = kind.rows is None and "error" not in kind.columns
        if header is not None and is_plain and not {*PHASES} & {*header}:
            self._take_table(records, header)
            return
        for number, row in _rows(records, kind):
            self.rows += 1
            if isinstance(row, BadRow):
                self.bad[number] = row
            elif isinstance(row, dict):
                if self._take_list(number, row):
                    self.numbers.append(number)
                    for cells, names in roles:
                        cells.append(lookup(row, *names))
            else:
                self.failed += row is None
                self.left_out[row or ""] += row is not None

    def _take_table(self, records: Records, header: list[str]) -> None:
        for numbers, rows in records.blocks:
            self.rows += len(rows)
            if isinstance(rows[0], BadRow):
                self.bad[numbers[0]] = rows[0]
                continue
            self.numbers += numbers
            columns = dict(zip(header, zip(*rows, strict=True), strict=True))
            for role, cells in self._cells.items():
                cells += columns.get(self.kind.name_of(role), [None] * len(rows))

    def _take_list(self, number: int, row: dict[str, Any]) -> bool:
        """Hold what is a list: times between tokens, all or none; False where they are none."""
        columns, size = self.kind.columns, self.kind.block_size
        if self._has_hashes:
            known: Any = lookup(row, size) if isinstance(size, str) else size
            self.blocks.append(as_blocks(known, lookup(row, *columns["hashes"])))
        if "inter_token_times" not in columns:
            return True
        name = self.kind.name_of("inter_token_times")
        cell = lookup(row, name)
        try:
            times = as_durations(cell)
            if "inter_token_times_unit" in columns:
                name = self.kind.name_of("inter_token_times_unit")
                cell = lookup(row, name)
                times = times * _unit_seconds(cell)
        except ValueError as error:
            self.bad[number] = bad_cell(name, cell, str(error))
            return False
        self.between.append(np.array(times, np.float32))
        self.sums.append(float(times.sum()) if len(times) else math.nan)
        return True

    def read(self) -> tuple[list[int], dict[str, Any]]:
        """Read the cells: times in ticks, and arrays; say of rows why they cannot be read."""
        kind, cells, bad = self.kind, self._cells, dict[int, BadRow]()
        measured = {one: self._durations(one, bad) for one in DURATIONS}
        times, clock = cells.get("arrival", []), kind.clock()
        if kind.optional_arrival and all(one is None for one in times):
            times = []
        ticks = clock.column(times, kind.name_of("arrival"), bad) or [0] * len(self.numbers)
        self.time_unit = clock.unit if times else None
        known = cells["output"]
        self.is_unknown = np.array([one is None for one in known], np.bool_) & bool(kind.marks)
        if self.is_unknown.any():
            known = [0 if one is None else one for one in known]
        prompts, outputs = (
            np.array(column_of(column, as_count, kind.name_of(role), bad, 0), np.int64)
            for role, column in (("prompt", cells["prompt"]), ("output", known))
        )
        for role, duration in STAMPS.items():
            for place, cell in enumerate(cells.get(role, ())):
                if (
                    not is_blank(cell)
                    and place not in bad
                    and math.isnan(measured[duration][place])
                ):
                    try:
                        since = clock(cell) - ticks[place]
                        if since < 0:
                            raise ValueError("is before the arrival")
                        measured[duration][place] = since / TICKS_PER_SECOND
                    except ValueError as error:
                        bad[place] = bad_cell(kind.name_of(role), cell, str(error))
        self._put_together(measured, outputs)
        arrays: dict[str, Any] = {
            "row_numbers": np.array(self.numbers, np.int64),
            "prompt_lengths": prompts,
            "output_lengths": outputs,
            "latencies": measured["latency"],
            "times_to_first_token": measured["time_to_first_token"],
            "mean_inter_token_times": measured["inter_token_time"],
        }
        if "worker" in cells:
            arrays["workers"] = np.array([as_label(one) for one in cells["worker"]], object)
        if self.blocks:
            arrays["prompt_blocks"] = np.fromiter(self.blocks, object)
        for place, row in bad.items():
            if kind.marks and row.reason.endswith(" is missing"):
                row = row._replace(message=f"{row.message}; {MAP_COLUMNS}")
            self.bad[self.numbers[place]] = row
        return ticks, arrays

    def _put_together(self, measured: dict[str, FloatArray], outputs: Any) -> None:
        """Latencies and means of which a log has the times between tokens, or both ends."""
        first, latency = measured["time_to_first_token"], measured["latency"]
        if self.sums:
            sums = np.array(self.sums)
            is_derived = np.isnan(latency) & ((outputs == 1) | np.isfinite(sums))
            latency = np.where(is_derived, first + np.nan_to_num(sums), latency)
            # Between chunks of several tokens there are fewer times than tokens.
            means = sums / np.maximum(1, outputs - 1)
            is_known = np.isfinite(means)
            measured["inter_token_time"] = np.where(is_known, means, measured["inter_token_time"])
        # The tokens after the first come between it and the end.
        is_apart = np.isnan(measured["inter_token_time"]) & (outputs > 1) & (latency >= first)
        means = (latency - first) / np.maximum(1, outputs - 1)
        measured["inter_token_time"] = np.where(is_apart, means, measured["inter_token_time"])
        # A latency is measured as such, or put together of its parts.
        later = np.where(outputs > 1, measured["inter_token_time"] * (outputs - 1), 0.0)
        measured["latency"] = np.where(np.isnan(latency), first + later, latency)

    def _durations(self, role: str, bad: dict[int, BadRow]) -> FloatArray:
        """Read durations in seconds, NaN where there are none."""
        given = self._cells.get(role)
        if given is None:
            return np.full(len(self.numbers), math.nan)
        found = np.array(column_of(given, as_duration, self.kind.name_of(role), bad, math.nan))
        units = self._cells.get(f"{role}_unit")
        if units is not None:
            found *= column_of(units, _unit_seconds, self.kind.name_of(f"{role}_unit"), bad, 1.0)
        found *= self.kind.seconds.get(role, 1.0)
        return found


def _unit_seconds(value: Any) -> float:
    """Seconds in a unit that a record names; milliseconds where it does not."""
    unit = UNIT_OF_WORD.get("ms" if value is None else str(value))
    if unit is None:
        raise ValueError("is no unit (known: ns, us, ms, s)")
    return float(10 ** -DIGITS_OF[unit])

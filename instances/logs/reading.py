"""Read the rows of a log, whatever wrote it: cells of its columns in the units that it has them."""

from __future__ import annotations

import math
import operator
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from instances.arrays import FloatArray
from instances.errors import FileFormatError, InvalidValueError
from instances.settings import parse_value
from instances.validation import as_flag

from .advice import MAP_COLUMNS, detect_format, refuse_unknown
from .cells import (
    DIGITS_OF,
    TICKS_PER_SECOND,
    BadRow,
    Clock,
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
from .columns import DURATIONS, STAMPS, run_of, wanted_format
from .formats import RUN_LISTS, Format, rate_of
from .paths import UNIT_OF_WORD, lookup
from .records import Records, opened, records_of

MOST_TRIED = 100
"""Records that are looked at to tell the format: the first requests may have failed."""

MOST_INTER_TOKEN_TIMES = 2**24
"""Times between tokens that are held: 64 MiB; of later rows only their mean is."""

WARM_UP = "warm-up"
PHASES = ("phase", "benchmark_phase", "credit_phase", "is_warmup", "warmup", "is_warm_up")
"""Keys, at the top of a record or in its metadata, that say whether it is of a warm-up."""

OnBadRows = Literal["refuse", "skip"]
WAY_OUT = "bad_rows='skip' leaves such rows out (in a command FILE(bad_rows=skip))"

OF_VLLM = (
    "async_scheduling block_size enable_chunked_prefill enable_prefix_caching "
    "long_prefill_token_threshold long_prefill_token_threshold_adaptive max_num_batched_tokens "
    "max_num_seqs num_gpu_blocks prefill_schedule_interval scheduler_reserve_full_isl watermark"
)
OF_SGLANG = (
    "chunked_prefill_size max_concurrency max_prefill_tokens max_running_requests "
    "max_total_num_tokens schedule_conservativeness"
)
ENGINE_SETTINGS = frozenset(f"{OF_VLLM} {OF_SGLANG}".split())
"""Settings of vLLM and SGLang, as the engines call them, that decide what is scheduled."""


class Rows(NamedTuple):
    """Rows of a log that can be read, in order of time, with those that have no tokens.

    Attributes
    ----------
    format : Format
        What the file was read as.
    ticks : list[int]
        Time of each on the clock of the file; 0 where it has none.
    arrays : dict[str, Any]
        Columns of `RequestLog` that have an entry a row.
    between : list[float32 array]
        Seconds from token to token of each row.
    facts : dict[str, Any]
        Other fields of `RequestLog`.
    """

    format: Format
    ticks: list[int]
    arrays: dict[str, Any]
    between: list[npt.NDArray[np.float32]]
    facts: dict[str, Any]


def read_rows(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    columns: Mapping[str, Any] | None = None,
    *,
    sort: bool | None = None,
    bad_rows: OnBadRows = "refuse",
    block_hashes: bool = False,
) -> Rows:
    """Read the rows of a log; parameters and errors are those of `read_log` and `read_trace`."""
    wanted = wanted_format(format, columns)
    check_options(sort, bad_rows)
    with opened(path) as stream:
        records = records_of(stream, path, wanted)
        kind, records, facts = _told(records, path, wanted, columns)
        cells = _Cells(kind)
        cells.take(records, block_hashes)
    found, bad = cells.read()
    skipped = SkippedRows(cells.rows)
    for number in sorted(bad):
        skipped.add(number, bad[number].reason)
    if bad and bad_rows == "refuse":
        first = min(bad)
        reason = f"{bad[first].message}; {_among(skipped)}"
        raise FileFormatError(path, reason, row=first)
    kept = [k for k, number in enumerate(cells.numbers) if number not in bad]
    if bad and not kept and not cells.failed:
        raise FileFormatError(path, f"none of its rows can be read: {skipped.reasons()}")
    times = [found.ticks[k] for k in kept]
    late = [*map(operator.lt, times, accumulate(times, max))]
    sorts = not kind.is_in_order if sort is None else sort
    if any(late) and not sorts:
        reason = f"{kind.name_of('arrival')} goes back in time; sort=True puts rows in order"
        raise FileFormatError(path, reason, row=cells.numbers[kept[late.index(True)]])
    kept.sort(key=found.ticks.__getitem__)
    facts |= {
        "has_arrival_times": found.time_unit is not None,
        "rows": cells.rows,
        "failed": cells.failed,
        "left_out": +cells.left_out,
        "without_output": sum(found.is_unknown[k] for k in kept),
        "out_of_order": sum(late),
        "time_unit": found.time_unit,
        "inter_token_times_are_cut": cells.is_cut,
        "skipped": skipped,
    }
    arrays = {name: column[kept] for name, column in found.arrays.items()}
    between = [cells.between[k] for k in kept] if any(map(len, cells.between)) else []
    return Rows(kind, [found.ticks[k] for k in kept], arrays, between, facts)


def check_options(sort: Any, bad_rows: Any) -> None:
    """Refuse options of `read_rows`.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        ``sort`` is neither None nor a truth value, or ``bad_rows`` not one of `OnBadRows`.
    """
    if sort is not None:
        as_flag(sort, None, "sort")
    if bad_rows not in get_args(OnBadRows):
        raise InvalidValueError(None, "bad_rows", bad_rows, "is neither 'refuse' nor 'skip'")


def _among(skipped: SkippedRows) -> str:
    """Say how many rows cannot be read, and what can be done."""
    if len(skipped) == skipped.rows:
        return "no row before it or after it can be read"
    return f"{len(skipped):,} of {skipped.rows:,} rows cannot be read; {WAY_OUT}"


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
        kind = kind._replace(columns={**kind.columns, "worker": columns["worker"]})
    rows = examples
    if kind.rows is not None and not kind.marks:
        rows = [one for record in examples for one in kind.rows(record) if isinstance(one, dict)]
    for mark in kind.required:
        if kind.lacks(mark, rows):
            why = f"column {mark!r} is missing"
            refuse_unknown(path, examples, why if mark[0] != "-" else f"has {mark[1:]!r}")
    for name in header or ():
        is_read = any(name in kind.names(role) for role in kind.columns)
        if is_read and header is not None and header.count(name) > 1:
            raise FileFormatError(path, f"column {name!r} is there twice")
    facts: dict[str, Any] = {"format": kind.name, "note": kind.note}
    run = run_of(columns)
    if RUN_LISTS[0] == kind.name_of("prompt"):
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
    numbered: Iterable[tuple[int, Any]] = records.numbered()
    if records.header is not None:
        header = records.header
        numbered = (
            (number, dict(zip(header, row, strict=True)) if isinstance(row, list) else row)
            for number, row in numbered
        )
    if kind.rows is not None:
        numbered = _expanded(numbered, kind)
    if kind.among is not None:
        numbered = kind.among([*numbered])
    for number, row in numbered:
        if row is None or isinstance(row, str | BadRow):
            yield number, row
        elif not isinstance(row, dict):
            yield number, BadRow("the row is not a JSON object", "is not a JSON object")
        elif is_warm_up(row):
            yield number, WARM_UP
        else:
            yield number, None if kind.failed is not None and kind.failed(row) else row


def _expanded(records: Iterable[tuple[int, Any]], kind: Format) -> Iterator[tuple[int, Any]]:
    """Rows of each record; those of documents are numbered, others have the record's number."""
    assert kind.rows is not None
    count = 0
    for number, record in records:
        found: Iterable[Any] = [record]
        try:
            found = [*kind.rows(record)] if isinstance(record, dict) else found
        except InvalidValueError as error:
            found = [bad_cell(error.field, error.value, error.reason)]
        except ValueError as error:
            found = [BadRow(str(error), str(error))]
        for row in found:
            count += 1
            yield (count if kind.is_document else number), row


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


@dataclass
class _Read:
    """Columns of rows: arrays by name, times, and whether the output of each is unknown."""

    arrays: dict[str, Any]
    ticks: list[int]
    time_unit: str | None
    is_unknown: list[bool]


class _Cells:
    """Cells of the rows of a file, role by role, and what became of the other rows."""

    def __init__(self, kind: Format) -> None:
        self.kind = kind
        plain = [one for one in kind.columns if one not in ("error", "hashes")]
        roles = [one for one in plain if not one.startswith("inter_token_times")]
        self.cells: dict[str, list[Any]] = {role: [] for role in roles}
        self.rows = self.failed = 0
        self.left_out: Counter[str] = Counter()
        self.numbers: list[int] = []
        self.bad: dict[int, BadRow] = {}
        self.between: list[npt.NDArray[np.float32]] = []
        self.sums: list[float] = []
        self.blocks: list[Any] = []
        self.is_cut = False
        self._held = 0

    def take(self, records: Records, block_hashes: bool) -> None:
        """Take the cells of all rows."""
        kind, header = self.kind, records.header
        is_plain = kind.rows is None and kind.failed is None
        if header is not None and is_plain and not {*PHASES} & {*header}:
            self._take_table(records, header)
            return
        names = [(cells, kind.names(role)) for role, cells in self.cells.items()]
        has_lists = "inter_token_times" in kind.columns
        for number, row in _rows(records, kind):
            self.rows += 1
            if isinstance(row, dict):
                if has_lists and not self._take_list(number, row):
                    continue
                self.numbers.append(number)
                for cells, one in names:
                    cells.append(lookup(row, *one))
                if block_hashes and "hashes" in kind.columns:
                    size: Any = kind.block_size
                    size = lookup(row, size) if isinstance(size, str) else size
                    self.blocks.append(as_blocks(size, lookup(row, *kind.names("hashes"))))
            elif isinstance(row, BadRow):
                self.bad[number] = row
            else:
                self.failed += row is None
                self.left_out[row or ""] += row is not None

    def _take_table(self, records: Records, header: list[str]) -> None:
        """Take whole columns of a table."""
        places = {role: _place(header, self.kind.names(role)) for role in self.cells}
        for numbers, rows in records.blocks:
            self.rows += len(rows)
            if isinstance(rows[0], BadRow):
                self.bad[numbers[0]] = rows[0]
                continue
            self.numbers += numbers
            columns = [*zip(*rows, strict=True)]
            for role, place in places.items():
                self.cells[role] += [None] * len(rows) if place is None else columns[place]

    def _take_list(self, number: int, row: dict[str, Any]) -> bool:
        """Hold the times between a request's tokens, all or none; False where they are none."""
        name, cell = self.kind.name_of("inter_token_times"), None
        try:
            cell = lookup(row, *self.kind.names("inter_token_times"))
            times = as_durations(cell)
            if "inter_token_times_unit" in self.kind.columns:
                name = self.kind.name_of("inter_token_times_unit")
                cell = lookup(row, name)
                times = times * _unit_seconds(cell)
        except ValueError as error:
            self.bad[number] = bad_cell(name, cell, str(error))
            return False
        self._held += len(times)
        self.is_cut = self.is_cut or self._held > MOST_INTER_TOKEN_TIMES
        self.between.append(np.array([] if self.is_cut else times, np.float32))
        self.sums.append(float(times.sum()) if len(times) else math.nan)
        return True

    def read(self) -> tuple[_Read, dict[int, BadRow]]:
        """Read the cells; also return why rows cannot be read, by their numbers."""
        kind, count = self.kind, len(self.numbers)
        cells, self.cells = self.cells, {}
        bad: dict[int, BadRow] = {}
        measured = {one: self._durations(cells, one, bad) for one in DURATIONS}
        times, clock = cells.get("arrival", []), kind.clock()
        if kind.optional_arrival and all(one is None for one in times):
            times = []
        ticks = clock.column(times, kind.name_of("arrival"), bad) if times else [0] * count
        prompts = column_of(cells["prompt"], as_count, kind.name_of("prompt"), bad, 0)
        known = cells["output"]
        is_unknown = [kind.is_log and one is None for one in known]
        if any(is_unknown):
            known = [0 if one is None else one for one in known]
        outputs = np.array(column_of(known, as_count, kind.name_of("output"), bad, 0), np.int64)
        for role, duration in STAMPS.items():
            self._since(cells.get(role, ()), role, ticks, clock, measured[duration], bad)
        if self.sums:
            sums = np.array(self.sums)
            together = measured["time_to_first_token"] + np.nan_to_num(sums)
            is_derived = np.isnan(measured["latency"]) & ((outputs == 1) | np.isfinite(sums))
            measured["latency"] = np.where(is_derived, together, measured["latency"])
            # Between chunks of several tokens there are fewer times than tokens.
            means = sums / np.maximum(1, outputs - 1)
            measured["inter_token_time"] = np.where(
                np.isfinite(means), means, measured["inter_token_time"]
            )
        arrays: dict[str, Any] = {
            "row_numbers": np.array(self.numbers, np.int64),
            "prompt_lengths": np.array(prompts, np.int64),
            "output_lengths": outputs,
            "latencies": measured["latency"],
            "times_to_first_token": measured["time_to_first_token"],
            "mean_inter_token_times": measured["inter_token_time"],
        }
        if "worker" in cells:
            arrays["workers"] = np.array([as_label(one) for one in cells["worker"]], object)
        if self.blocks:
            arrays["prompt_blocks"] = np.fromiter(self.blocks, object)
        reasons = dict(self.bad)
        for place, row in bad.items():
            if kind.is_log and row.reason.endswith(" is missing"):
                row = row._replace(message=f"{row.message}; {MAP_COLUMNS}")
            reasons[self.numbers[place]] = row
        return _Read(arrays, ticks, clock.unit if times else None, is_unknown), reasons

    def _durations(self, cells: dict[str, Any], role: str, bad: dict[int, BadRow]) -> FloatArray:
        """Read durations in seconds, NaN where there are none."""
        given = cells.get(role)
        if given is None:
            return np.full(len(self.numbers), math.nan)
        found = np.array(column_of(given, as_duration, self.kind.name_of(role), bad, math.nan))
        units = cells.get(f"{role}_unit")
        if units is not None:
            name = self.kind.name_of(f"{role}_unit")
            found *= column_of(units, _unit_seconds, name, bad, 1.0)
        found *= self.kind.seconds.get(role, 1.0)
        return found

    def _since(
        self,
        cells: Iterable[Any],
        role: str,
        ticks: list[int],
        clock: Clock,
        measured: FloatArray,
        bad: dict[int, BadRow],
    ) -> None:
        """Fill in seconds from the arrival to a stamp where they were not measured."""
        for place, cell in enumerate(cells):
            if is_blank(cell) or place in bad or not math.isnan(measured[place]):
                continue
            try:
                ended = clock(cell)
                if ended < ticks[place]:
                    raise ValueError("is before the arrival")
                measured[place] = (ended - ticks[place]) / TICKS_PER_SECOND
            except ValueError as error:
                bad[place] = bad_cell(self.kind.name_of(role), cell, str(error))


def _place(header: list[str], names: tuple[str, ...]) -> int | None:
    return next((header.index(one) for one in names if one in header), None)


def _unit_seconds(value: Any) -> float:
    """Seconds in a unit that a record names; milliseconds where it does not."""
    unit = UNIT_OF_WORD.get("ms" if value is None else str(value))
    if unit is None:
        raise ValueError("is no unit (known: ns, us, ms, s)")
    return float(10 ** -DIGITS_OF[unit])

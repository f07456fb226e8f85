"""Reading the rows of a trace one at a time, in memory that does not grow with the file."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import IO, Any, Self

import numpy as np

from instances.errors import FileFormatError
from instances.validation import as_flag

from .advice import MAP_COLUMNS
from .containers import open_rows
from .detection import run_of, wanted_format
from .held_rows import HeldRows
from .row import (
    FAILED_REQUEST,
    WAY_OUT,
    BadRow,
    OnBadRows,
    SkippedRows,
    TraceRow,
    as_count,
    as_label,
    bad_cell,
    check_bad_rows,
)

MOST_COUNTED = 100_000
"""Rows after the first bad one that are read to count the bad ones among them."""

_GZIP_MAGIC = b"\x1f\x8b"
PARQUET = b"PAR1"
LONGEST_MAGIC = 6


class TraceReader:
    """The rows of an open trace, in order of time; a context manager.

    Iterating holds one row at a time, or where rows are sorted all of them. The file is opened
    once: it may be a pipe. Blank lines are passed over and counted as lines.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    format, columns, sort : str or None, Mapping[str, str] or None, bool or None
        As in `open_trace`.
    bad_rows : {"refuse", "skip"}, default "refuse"
        As in `open_trace`.

    Attributes
    ----------
    path : str or os.PathLike
        The file.
    format : TraceFormat
        What the file is read as.
    has_arrival_times : bool
        Whether it has any; without, all its rows are at time 0.
    note : str or None
        What had to be assumed in reading it.
    inter_token_times_are_cut : bool
        Whether some times between tokens were too many to be held.
    settings : Mapping[str, Any]
        Settings of the engine that the file states, by the engine's names.
    failed, without_output : int
        Rows so far that are passed over because they failed or were broken off, and rows of a log
        that say nothing of their output, which counts as 0.
    left_out : Counter[str]
        Rows so far that are not requests to be served for another reason, by reason.
    time_unit : str or None
        Unit of arrivals, or ``"dates"``; None before the first row, and without arrivals.
    out_of_order : int
        Rows so far that came after a later one.
    skipped : SkippedRows
        Rows so far that could not be read, with ``bad_rows="skip"``.

    Raises
    ------
    OSError
        The file cannot be read.
    UnknownNameError, InvalidTypeError, InvalidValueError
        No format of the name given, columns that do not say what is read, or ``bad_rows`` is
        something else.
    FileFormatError
        No format fits, a column is missing, or, while iterating, a row that cannot be read (or no
        row that can) or, where rows are not sorted, one that goes back in time, with its line.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        columns: Mapping[str, str] | None = None,
        sort: bool | None = None,
        bad_rows: OnBadRows = "refuse",
    ) -> None:
        wanted = wanted_format(format, columns)
        self._bad_rows = check_bad_rows(bad_rows)
        self.path = path
        self.skipped = SkippedRows()
        self.left_out: Counter[str] = Counter()
        self.failed = self.without_output = self.out_of_order = 0
        self.time_unit: str | None = None
        self._sort = None if sort is None else as_flag(sort, None, "sort")
        self._file = io.FileIO(path)
        try:
            with self._complaints():
                worker = None if columns is None else columns.get("worker")
                run = run_of(columns)
                opened = open_rows(_text(self._file, path), path, wanted, worker, run)
            (
                self.format,
                self._cells,
                self.has_arrival_times,
                self.note,
                self.inter_token_times_are_cut,
                self.settings,
            ) = opened
            if run is not None and "output_lens" not in self.format.marks:
                reason = "holds no runs of vLLM's or SGLang's benchmark: leave out run"
                raise FileFormatError(path, reason)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def sorts(self) -> bool:
        """True if iterating puts the rows in order of time first."""
        return not self.format.is_in_order if self._sort is None else self._sort

    def __iter__(self) -> Iterator[TraceRow]:
        if self.sorts:
            held = HeldRows(0)
            for row in self.rows():
                held.append(row._replace(measured=None, blocks=None))
            yield from held.in_order()
            return
        for row in self.rows():
            if self.out_of_order:
                reason = f"{self.format.time} goes back in time; sort=True puts rows in order"
                raise FileFormatError(self.path, reason, row=row.number)
            yield row

    def rows(self) -> Iterator[TraceRow]:
        """The rows in the order of the file, with what was measured of each."""
        latest: int | None = None
        with self._complaints():
            judged = self._judged()
            for number, row in judged:
                if isinstance(row, TraceRow):
                    is_late = latest is not None and row.ticks < latest
                    self.out_of_order += is_late
                    latest = latest if is_late else row.ticks
                    yield row
                    continue
                self.skipped.add(number, row.reason)
                if self._bad_rows == "refuse":
                    reason = f"{row.message}; {self._count_bad_rows(judged)}"
                    raise FileFormatError(self.path, reason, row=number)
        if self.skipped.counts and latest is None and not self.failed:
            raise FileFormatError(
                self.path, f"none of its rows can be read: {self.skipped.reasons()}"
            )

    def _judged(self) -> Iterator[tuple[int, TraceRow | BadRow]]:
        """The rows that did not fail, each with its number, or why it cannot be read."""
        kind, has_times, clock = self.format, self.has_arrival_times, self.format.new_clock()
        for number, cells in self._cells:
            self.skipped.rows += 1
            if isinstance(cells, BadRow):
                yield number, cells
                continue
            time, prompt, output = cells[:3]
            if cells.left_out is not None:
                is_failed = cells.left_out == FAILED_REQUEST
                self.failed += is_failed
                self.left_out[cells.left_out] += not is_failed
                continue
            column, value, ticks = kind.time or "", time, 0
            try:
                if has_times:
                    ticks = clock(time)
                    self.time_unit = clock.unit
                column, value = kind.prompt, prompt
                prompt_tokens = as_count(prompt)
                column, value = kind.output, output
                is_known = output is not None or not kind.is_log
                output_tokens = as_count(output) if is_known else 0
            except ValueError as error:
                bad = bad_cell(column, value, str(error))
                if value is None and kind.container == "json" and kind.is_log:
                    bad = bad._replace(message=f"{bad.message}; {MAP_COLUMNS}")
                yield number, bad
                continue
            self.without_output += not is_known
            rest = cells.measured, as_label(cells.worker), cells.blocks
            yield number, TraceRow(number, ticks, prompt_tokens, output_tokens, *rest)

    def _count_bad_rows(self, judged: Iterator[tuple[int, TraceRow | BadRow]]) -> str:
        """Say how many rows are bad after the first bad one, and what can be done.

        A pipe is not read on: whoever writes to it may take hours.
        """
        if not self._file.seekable():
            return WAY_OUT
        is_whole = False
        with suppress(FileFormatError, csv.Error, UnicodeDecodeError, zlib.error, EOFError):
            end = object()
            for number, row in islice(judged, MOST_COUNTED):
                if isinstance(row, BadRow):
                    self.skipped.add(number, row.reason)
            is_whole = next(judged, end) is end
        bad, rows = len(self.skipped), self.skipped.rows
        if bad == rows:
            return "no row before it or after it can be read"
        of = f"{rows:,} rows" if is_whole else f"the first {rows:,} rows"
        return f"{bad:,} of {of} cannot be read; {WAY_OUT}"

    @contextmanager
    def _complaints(self) -> Iterator[None]:
        try:
            yield
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(self.path, f"not a text file of rows: {error}") from error
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FileFormatError(self.path, f"not a whole gzip file: {error}") from error


def open_trace(
    path: str | os.PathLike[str],
    format: str | None = None,  # noqa: A002
    *,
    columns: Mapping[str, str] | None = None,
    sort: bool | None = None,
    bad_rows: OnBadRows = "refuse",
) -> TraceReader:
    """Open a trace for reading it row by row; see `TraceReader`.

    Parameters
    ----------
    path : str or os.PathLike
        CSV or JSON lines, as text or compressed with gzip, whatever its name; a pipe too.
    format : str or None, default None
        A name in `FORMATS`; None tells it from the columns.
    columns : Mapping[str, str] or None, default None
        Instead of a format, which column holds what: ``{"arrival": "created_at", "prompt":
        "usage.prompt_tokens", "output": ...}``. Arrivals are seconds or dates, as the first is and
        the name of their column says; ``"arrival_ms"``, ``"arrival_us"`` and ``"arrival_ns"`` count
        parts of a second; without any all arrive at once. Keys inside JSON objects are joined by
        dots. `read_log` reads further roles, such as ``"latency_ms"`` and ``"end"``. ``{"worker":
        "pod"}`` alone says which column names the replica that served a request, in a file of any
        format, and ``{"run": 2}`` which of a benchmark's runs is read.
    sort : bool or None, default None
        Put the rows in order of arrival first, which holds all of them in memory, or take a row
        that goes back in time for an error. None sorts what does not promise an order: logs, and
        files whose columns are named by the user.
    bad_rows : {"refuse", "skip"}, default "refuse"
        What becomes of a row that cannot be read, such as one with an empty or negative cell: an
        error, or the row is skipped and counted.
    """
    return TraceReader(path, format, columns=columns, sort=sort, bad_rows=bad_rows)


class _Rejoined(io.RawIOBase):
    """A stream whose first bytes have been read, with these before it again."""

    def __init__(self, head: bytes, rest: io.RawIOBase) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if not self._head:
            return self._rest.readinto(buffer)
        size = min(len(buffer), len(self._head))
        buffer[:size] = self._head[:size]
        self._head = self._head[size:]
        return size


OTHER_FILES = {
    b"PK\x03\x04": "a ZIP archive, as Excel's .xlsx files are",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"SQLite": "a SQLite database",
    b"ARROW1": "an Arrow (Feather) file",
    b"ORC": "an ORC file",
}
"""Names of files that are not read, by their first bytes."""


def _text(file: io.RawIOBase, path: object) -> IO[str]:
    """The text of a file, unpacked if it is compressed; a pipe cannot be opened or read twice."""
    head = b""
    while len(head) < LONGEST_MAGIC and (more := file.read(LONGEST_MAGIC - len(head))):
        head += more
    stream: Any = io.BufferedReader(_Rejoined(head, file), 2**16)
    if head.startswith(PARQUET):
        return _rows_of_parquet(stream.read(), path)
    for magic, name in OTHER_FILES.items():
        if head.startswith(magic):
            reason = f"is {name}: give it as CSV or JSON lines, plain or compressed with gzip"
            raise FileFormatError(path, reason)
    if head.startswith(_GZIP_MAGIC):
        stream = gzip.GzipFile(fileobj=stream, mode="rb")
    return io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def _rows_of_parquet(content: bytes, path: object) -> IO[str]:
    """Give the rows of a Parquet file as a table, or as JSON lines where cells are nested."""
    try:
        import pandas

        frame = pandas.read_parquet(io.BytesIO(content))
    except ImportError:
        reason = "is a Parquet file: install what reads it (pip install pandas pyarrow)"
        raise FileFormatError(path, reason) from None
    except Exception as error:  # noqa: BLE001 (each engine has errors of its own)
        raise FileFormatError(path, f"is not a whole Parquet file: {error}") from None
    cells = [one for row in frame.head(1).to_dict("records") for one in row.values()]
    if any(isinstance(one, dict | list | np.ndarray) for one in cells):
        return io.StringIO(
            frame.to_json(orient="records", lines=True, date_format="iso", date_unit="us")
        )
    return io.StringIO(frame.to_csv(index=False))

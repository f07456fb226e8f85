"""Reading the rows of a trace one at a time, in memory that does not grow with the file."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from itertools import chain
from types import TracebackType
from typing import IO, Any, Literal, NoReturn, Self

from instances.errors import FileFormatError
from instances.files import DuplicateKeyError, bounded_lines, unique_keys
from instances.validation import as_flag

from .formats import MAP_COLUMNS, detect_format, listed, wanted_format
from .held_rows import HeldRows
from .row import TraceFormat, TraceRow, as_count

LONGEST_SHOWN = 80
"""Characters of a refused cell that its error repeats."""

DELIMITERS = (",", ";", "\t", "|")
"""Tried in turn, until the columns named by the user are all there."""

_GZIP_MAGIC = b"\x1f\x8b"
_ABSENT = object()


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

    Attributes
    ----------
    path : str or os.PathLike
        The file.
    format : TraceFormat
        What it is read as.
    has_arrival_times : bool
        False for a file of lengths only; all its rows are at time 0.
    failed, without_output : int
        Rows so far that are passed over because they failed or were broken off, and rows of a log
        that say nothing of their output, which counts as 0.
    out_of_order : int
        Rows so far that came after a later one.
    notes : tuple[str, ...]
        What had to be assumed in reading it.

    Raises
    ------
    OSError
        The file cannot be read.
    UnknownNameError, InvalidTypeError, InvalidValueError
        No format of the name given, or columns that do not say what is read.
    FileFormatError
        No format fits, a column is missing, or, while iterating, a malformed row or, where
        rows are not sorted, one that goes back in time, with its line.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,  # noqa: A002
        *,
        columns: Mapping[str, str] | None = None,
        sort: bool | None = None,
    ) -> None:
        wanted = wanted_format(format, columns)
        self.path = path
        self.failed = self.without_output = self.out_of_order = 0
        self.notes: tuple[str, ...] = ()
        self._sort = None if sort is None else as_flag(sort, None, "sort")
        self._file = _open(path)
        try:
            self._stream = _text(self._file)
            with self._complaints():
                self._open_rows(wanted)
        except BaseException:
            self.close()
            raise

    format: TraceFormat
    has_arrival_times: bool

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def sorts(self) -> bool:
        """Whether iterating puts the rows in order of time first."""
        return not self.format.is_in_order if self._sort is None else self._sort

    def __iter__(self) -> Iterator[TraceRow]:
        if self.sorts:
            held = HeldRows(0)
            for row in self.rows():
                held.append(row._replace(measured=None))
            yield from held.in_order()
            return
        for row in self.rows():
            if self.out_of_order:
                reason = (
                    f"{self.format.time} goes back in time; sort=True (--sort) puts rows in order"
                )
                raise FileFormatError(self.path, reason, row=row.number)
            yield row

    def rows(self) -> Iterator[TraceRow]:
        """The rows in the order of the file, with what was measured of each."""
        latest: int | None = None
        for row in self._rows():
            if latest is not None and row.ticks < latest:
                self.out_of_order += 1
            else:
                latest = row.ticks
            yield row

    def _rows(self) -> Iterator[TraceRow]:
        time_column, prompt_column, output_column = (
            self.format.time or "",
            self.format.prompt,
            self.format.output,
        )
        clock, has_times = self.format.new_clock(), self.has_arrival_times
        ticks = 0
        with self._complaints():
            for number, time, prompt, output in self._cells:
                if has_times:
                    try:
                        ticks = clock(time)
                    except ValueError as error:
                        self._refuse(time_column, time, error, number)
                try:
                    prompt_tokens = as_count(prompt)
                except ValueError as error:
                    self._refuse(prompt_column, prompt, error, number)
                try:
                    output_tokens = as_count(output)
                except ValueError as error:
                    self._refuse(output_column, output, error, number)
                yield TraceRow(number, ticks, prompt_tokens, output_tokens)

    def _open_rows(self, wanted: TraceFormat | None) -> None:
        lines = bounded_lines(self._stream, self.path)
        skipped, first = 0, ""
        for line in lines:
            if line.strip():
                first = line
                break
            skipped += 1
        told: Literal["csv", "jsonl"] = "jsonl" if first.lstrip()[:1] == "{" else "csv"
        container = (wanted and wanted.container) or told
        row: dict[str, Any] = {}
        if container == "csv":
            reader = csv.reader(
                chain([first], lines) if first else iter(()),
                strict=True,
                delimiter=_delimiter(first, wanted),
            )
            columns = next(reader, [])
        else:
            row = self._parse(first, skipped + 1) if first else {}
            columns = list(row)
        self.format = wanted or detect_format(self.path, container, columns)
        there = {
            column
            for column in self.format.read
            if column in columns or _value(row, column, _ABSENT) is not _ABSENT
        }
        for column in self.format.required:
            if column not in there:
                way_out = "" if self.format.container is None else f"; {MAP_COLUMNS}"
                raise FileFormatError(
                    self.path,
                    f"column {column!r} is missing (found: {listed(columns)}){way_out}",
                )
        self.has_arrival_times = self.format.time in there
        if container == "csv":
            self._cells = self._csv_cells(reader, columns, skipped)
        else:
            self._cells = self._json_cells(chain([first], lines), skipped)

    def _csv_cells(
        self, reader: Any, columns: list[str], skipped: int
    ) -> Iterator[tuple[int, str | None, str | None, str | None]]:
        names = (self.format.time or "", self.format.prompt, self.format.output)
        for name in self.format.read:
            if columns.count(name) > 1:
                raise FileFormatError(self.path, f"column {name!r} is there twice")
        time, prompt, output = (columns.index(name) if name in columns else 0 for name in names)
        width = len(columns)
        last = reader.line_num
        for cells in reader:
            last += 1
            if reader.line_num != last:
                # A stray quote would swallow rows up to the next one: no format has such cells.
                raise FileFormatError(
                    self.path, "has a quoted cell that goes on over lines", row=skipped + last
                )
            if len(cells) != width:
                if not cells:
                    continue
                number = skipped + reader.line_num
                if len(cells) > width:
                    raise FileFormatError(self.path, "has more cells than the header", row=number)
                cells = [*cells, *[None] * (width - len(cells))]
            yield skipped + reader.line_num, cells[time], cells[prompt], cells[output]

    def _json_cells(
        self, lines: Iterator[str], skipped: int
    ) -> Iterator[tuple[int, Any, Any, Any]]:
        time, prompt, output = (self.format.time or "", self.format.prompt, self.format.output)
        for number, line in enumerate(lines, skipped + 1):
            if line.strip():
                row = self._parse(line, number)
                yield number, _value(row, time), _value(row, prompt), _value(row, output)

    def _parse(self, line: str, number: int) -> dict[str, Any]:
        try:
            row = json.loads(
                line,
                parse_float=Decimal,
                parse_constant=_refuse_constant,
                object_pairs_hook=unique_keys,
            )
        except DuplicateKeyError as error:
            raise FileFormatError(self.path, str(error), row=number) from None
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise FileFormatError(self.path, f"is not JSON: {error}", row=number) from None
        if not isinstance(row, dict):
            raise FileFormatError(self.path, "is not a JSON object", row=number)
        return row

    def _refuse(self, column: str, value: Any, error: ValueError, number: int) -> NoReturn:
        if value is None:
            raise FileFormatError(self.path, f"{column} is missing", row=number) from None
        text = str(value).strip()
        is_plain = isinstance(value, Decimal) or text.removeprefix("-").isdigit()
        shown = text if is_plain else repr(value)
        if len(shown) > LONGEST_SHOWN:
            shown = f"{shown[:LONGEST_SHOWN]}..."
        raise FileFormatError(self.path, f"{column} {shown} {error}", row=number) from None

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
        "usage.prompt_tokens", "output": ...}``. Arrivals are seconds or dates, as the first is;
        ``"arrival_ms"``, ``"arrival_us"`` and ``"arrival_ns"`` count parts of a second; without any
        all arrive at once. Keys inside JSON objects are joined by dots.
    sort : bool or None, default None
        Put the rows in order of arrival first, which holds all of them in memory, or take a row
        that goes back in time for an error. None sorts what does not promise an order: logs, and
        files whose columns are named by the user.
    """
    return TraceReader(path, format, columns=columns, sort=sort)


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


def _open(path: str | os.PathLike[str]) -> io.FileIO:
    return open(path, "rb", buffering=0)


def _text(file: io.RawIOBase) -> IO[str]:
    """The text of a file, unpacked if it is compressed; a pipe cannot be opened or read twice."""
    head = b""
    while len(head) < len(_GZIP_MAGIC) and (more := file.read(len(_GZIP_MAGIC) - len(head))):
        head += more
    stream: Any = io.BufferedReader(_Rejoined(head, file), 2**16)
    if head == _GZIP_MAGIC:
        stream = gzip.GzipFile(fileobj=stream, mode="rb")
    return io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")


def _delimiter(header: str, wanted: TraceFormat | None) -> str:
    """A comma, unless only another one gives the columns the user has named."""
    if wanted is not None and wanted.container is None:
        for delimiter in DELIMITERS:
            if set(wanted.required) <= set(next(csv.reader([header], delimiter=delimiter), [])):
                return delimiter
    return DELIMITERS[0]


def _value(row: dict[str, Any], name: str, missing: Any = None) -> Any:
    """What a JSON object has under a key, or under keys inside one another, joined by dots."""
    if name in row or "." not in name:
        return row.get(name, missing)
    found: Any = row
    for key in name.split("."):
        if not isinstance(found, dict) or key not in found:
            return missing
        found = found[key]
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")

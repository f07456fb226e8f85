"""Reading the rows of a trace one at a time, in memory that does not grow with the file."""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import chain
from types import TracebackType
from typing import IO, Any, NoReturn, Self

from instances.errors import FileFormatError

from .formats import detect_format, format_named
from .row import TraceFormat, TraceRow, as_count

LONGEST_LINE = 2**20
"""Characters a line may have: what is longer is no trace, and would have to be held at once."""

LONGEST_SHOWN = 80
"""Characters of a refused cell that its error repeats."""

_GZIP_MAGIC = b"\x1f\x8b"


class TraceReader:
    """The rows of an open trace, in the order of the file; a context manager.

    Iterating holds one row at a time. Blank lines are passed over and counted as lines.

    Attributes
    ----------
    path : the file.
    format : what it is read as.
    has_arrival_times : False for a file of lengths only; all its rows are at time 0.

    Raises
    ------
    OSError: the file cannot be read.
    UnknownNameError, InvalidTypeError: no format of the name given.
    FileFormatError: no format fits, a column is missing, or, while iterating, a malformed row or
        one that goes back in time, with its line.
    """

    def __init__(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002
        wanted = None if format is None else format_named(format)
        self.path = path
        self._stream = _open(path)
        try:
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
        self._stream.close()

    def __iter__(self) -> Iterator[TraceRow]:
        time_column, prompt_column, output_column = (
            self.format.time,
            self.format.prompt,
            self.format.output,
        )
        clock, has_times = self.format.new_clock(), self.has_arrival_times
        ticks = previous = 0
        started = False
        with self._complaints():
            for number, time, prompt, output in self._cells:
                if has_times:
                    try:
                        ticks = clock(time)
                    except ValueError as error:
                        self._refuse(time_column, time, error, number)
                    if started and ticks < previous:
                        raise FileFormatError(
                            self.path, f"{time_column} goes back in time", row=number
                        )
                    previous, started = ticks, True
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
        lines = self._lines()
        skipped, first = 0, ""
        for line in lines:
            if line.strip():
                first = line
                break
            skipped += 1
        container = wanted.container if wanted else "jsonl" if first.lstrip()[:1] == "{" else "csv"
        if container == "csv":
            reader = csv.reader(chain([first], lines) if first else iter(()), strict=True)
            columns = next(reader, [])
        else:
            columns = list(self._parse(first, skipped + 1)) if first else []
        self.format = wanted or detect_format(self.path, container, columns)
        for column in self.format.required:
            if column not in columns:
                raise FileFormatError(
                    self.path,
                    f"column {column!r} is missing (found: {', '.join(columns) or 'none'})",
                )
        self.has_arrival_times = self.format.time in columns
        if container == "csv":
            self._cells = self._csv_cells(reader, columns, skipped)
        else:
            self._cells = self._json_cells(chain([first], lines), skipped)

    def _csv_cells(
        self, reader: Any, columns: list[str], skipped: int
    ) -> Iterator[tuple[int, str | None, str | None, str | None]]:
        names = (self.format.time, self.format.prompt, self.format.output)
        for name in names:
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
        names = (self.format.time, self.format.prompt, self.format.output)
        for number, line in enumerate(lines, skipped + 1):
            if line.strip():
                row = self._parse(line, number)
                yield number, *(row.get(name) for name in names)  # type: ignore[misc]

    def _parse(self, line: str, number: int) -> dict[str, Any]:
        try:
            row = json.loads(line, parse_float=Decimal, parse_constant=_refuse_constant)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise FileFormatError(self.path, f"is not JSON: {error}", row=number) from None
        if not isinstance(row, dict):
            raise FileFormatError(self.path, "is not a JSON object", row=number)
        return row

    def _lines(self) -> Iterator[str]:
        number = 0
        while line := self._stream.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE and line[-1] not in "\r\n":
                reason = f"is longer than {LONGEST_LINE} characters"
                raise FileFormatError(self.path, reason, row=number)
            yield line

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


def open_trace(path: str | os.PathLike[str], format: str | None = None) -> TraceReader:  # noqa: A002
    """Open a trace for reading it row by row; see `TraceReader`.

    Parameters
    ----------
    path : CSV or JSON lines, as text or compressed with gzip, whatever its name.
    format : a name in `FORMATS`; None tells it from the columns.
    """
    return TraceReader(path, format)


def _open(path: str | os.PathLike[str]) -> IO[str]:
    with open(path, "rb") as start:
        packed = start.read(2) == _GZIP_MAGIC
    if packed:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return open(path, encoding="utf-8-sig", newline="")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")

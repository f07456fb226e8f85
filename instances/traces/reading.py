"""Reading the rows of a trace one at a time, in memory that does not grow with the file."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from types import TracebackType
from typing import IO, Any, NoReturn, Self

from instances.errors import FileFormatError
from instances.validation import as_flag

from .containers import open_rows
from .formats import MAP_COLUMNS, wanted_format
from .held_rows import HeldRows
from .row import TraceRow, as_count
from .trace_format import TraceFormat

LONGEST_SHOWN = 80
"""Characters of a refused cell that its error repeats."""

_GZIP_MAGIC = b"\x1f\x8b"


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
    failed, without_output : int
        Rows so far that are passed over because they failed or were broken off, and rows of a log
        that say nothing of their output, which counts as 0.
    out_of_order : int
        Rows so far that came after a later one.

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
        self._sort = None if sort is None else as_flag(sort, None, "sort")
        self._file = _open(path)
        try:
            with self._complaints():
                self._opened = open_rows(_text(self._file), path, wanted)
        except BaseException:
            self.close()
            raise

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
        may_lack_output = self.format.cells is not None
        ticks = 0
        with self._complaints():
            for number, (time, prompt, output, measured, has_failed) in self._opened.cells:
                if has_failed:
                    self.failed += 1
                    continue
                if has_times:
                    try:
                        ticks = clock(time)
                    except ValueError as error:
                        self._refuse(time_column, time, error, number)
                try:
                    prompt_tokens = as_count(prompt)
                except ValueError as error:
                    self._refuse(prompt_column, prompt, error, number)
                if output is None and may_lack_output:
                    self.without_output += 1
                    output = 0
                try:
                    output_tokens = as_count(output)
                except ValueError as error:
                    self._refuse(output_column, output, error, number)
                yield TraceRow(number, ticks, prompt_tokens, output_tokens, measured)

    @property
    def format(self) -> TraceFormat:
        """What the file is read as."""
        return self._opened.format

    @property
    def has_arrival_times(self) -> bool:
        """Whether it has any; without, all its rows are at time 0."""
        return self._opened.has_arrival_times

    @property
    def note(self) -> str | None:
        """What had to be assumed in reading it."""
        return self._opened.note

    @property
    def inter_token_times_are_cut(self) -> bool:
        """Whether some times between tokens were too many to be held."""
        return self._opened.is_cut

    def _refuse(self, column: str, value: Any, error: ValueError, number: int) -> NoReturn:
        if value is None:
            is_guess = self.format.container == "json" and self.format.cells is not None
            way_out = f"; {MAP_COLUMNS}" if is_guess else ""
            raise FileFormatError(self.path, f"{column} is missing{way_out}", row=number) from None
        text = str(value).strip()
        is_plain = isinstance(value, (float, Decimal)) or text.removeprefix("-").isdigit()
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

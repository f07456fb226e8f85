"""Take the records out of a file: rows of a table, or objects of JSON."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import IO, Any

from instances.errors import FileFormatError
from instances.files import LARGEST_TEXT, bounded_lines, unique_keys

from .advice import refuse_text_without_requests
from .cells import NO_OBJECT, BadRow
from .formats import Format

LONGEST_RECORD = 2**24
"""Characters of a line of JSON: it may hold a long prompt."""

DELIMITERS = (",", ";", "\t", "|")
"""Separators of cells; a table has the one that its first line has most often."""

ROWS_AT_ONCE = 500
"""Lines of JSON that are parsed as one list, which takes half the time, or rows of a table."""

NO_TEXT = "is not a text file: give it as CSV or JSON lines, plain or compressed with gzip"

_TOO_LONG = BadRow("the row has more cells than the header", "has more cells than the header")
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)

Rows = Iterator[tuple[Sequence[int], Any]]
"""Some hundred records at once, after their lines or places, a `BadRow` for a broken one; or cells
of a table, in lists by the names of their columns."""


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """Open a file as text, unpacked if it is compressed; a pipe is read once.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        It is not a text file, or, while it is read, damaged.
    """
    with open(path, "rb") as file:
        head = file.read(4)
        stream: Any = file if file.seekable() else io.BytesIO(head + file.read(LARGEST_TEXT))
        stream.seek(0)
        try:
            if head == b"PAR1":
                yield _lines_of_parquet(stream, path)
                return
            packed = gzip.GzipFile(fileobj=stream) if head.startswith(b"\x1f\x8b") else stream
            yield io.TextIOWrapper(packed, encoding="utf-8-sig")
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(path, f"{NO_TEXT} ({error})") from error
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FileFormatError(path, f"not a whole gzip file: {error}") from error


def _lines_of_parquet(stream: IO[bytes], path: object) -> IO[str]:
    """Give the rows of a Parquet file as JSON lines."""
    import pandas

    try:
        frame = pandas.read_parquet(stream)
    except ImportError:
        reason = "is a Parquet file: install what reads it (pip install pyarrow)"
        raise FileFormatError(path, reason) from None
    except Exception as error:  # noqa: BLE001 (each engine has errors of its own)
        raise FileFormatError(path, f"is not a whole Parquet file: {error}") from None
    options: Any = {"orient": "records", "lines": True, "date_format": "iso", "date_unit": "us"}
    return io.StringIO(frame.to_json(**options))


def records_of(stream: IO[str], path: object, wanted: Format | None) -> tuple[list[str], Rows]:
    """Find out by its first line what a text is, and take its records out of it.

    Parameters
    ----------
    stream : IO[str]
        The text, from its beginning.
    path : object
        Name of the file in errors.
    wanted : Format or None
        The format that the user says.

    Returns
    -------
    list[str], Rows
        The columns of a table, and the records: rows by the names of their columns, or values of
        JSON.

    Raises
    ------
    FileFormatError
        The text is empty or too long, or, also while records are taken, neither JSON nor a table.
    """
    before = 0
    while (head := stream.readline(LONGEST_RECORD)) and not head.strip():
        before += 1
    if not head:
        raise FileFormatError(path, "is empty")
    if "\0" in head:
        raise FileFormatError(path, NO_TEXT)
    start, end = head.lstrip()[0], head.rstrip()[-1]
    if wanted is None and start != "{":
        refuse_text_without_requests(path, head)
    if start == "{" and end not in "{[,:" and len(head) < LONGEST_RECORD:
        lines = chain([head], bounded_lines(stream, path, before + 1, LONGEST_RECORD))
        return [], _json_lines((k, one) for k, one in enumerate(lines, before + 1) if one.strip())
    text = head + stream.read(LARGEST_TEXT)
    if len(text) > LARGEST_TEXT:
        raise FileFormatError(path, f"is larger than {LARGEST_TEXT} characters")
    if start in "[{":
        values = _values(text, path)
        return [], iter([(range(1, len(values) + 1), values)])
    delimiter = max(DELIMITERS, key=head.count)
    rows = _cells(text, delimiter, before)
    number, header = next(rows)
    if isinstance(header, BadRow):
        raise FileFormatError(path, header.message, row=number)
    header = [one.strip() for one in header]
    if '"' in text:
        return header, _by_name(rows, header)
    return header, _columns(text.rstrip("\n").split("\n")[1:], delimiter, before + 2, header)


def _json_lines(lines: Iterator[tuple[int, str]]) -> Rows:
    while some := [*islice(lines, ROWS_AT_ONCE)]:
        numbers, texts = zip(*some, strict=True)
        values: list[Any] = []
        with suppress(ValueError, RecursionError):
            values = _DECODER.decode(f"[{','.join(texts)}]")
        yield numbers, values if len(values) == len(texts) else [*map(_value, texts)]


def _value(line: str) -> Any:
    try:
        return _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        return BadRow(NO_OBJECT.reason, f"is not JSON: {error}")


def _values(text: str, path: object) -> list[Any]:
    """A document, or the items of a list."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f"is cut off, or not JSON: {error}") from None
    return value if isinstance(value, list) else [value]


def _cells(text: str, delimiter: str, before: int) -> Iterator[tuple[int, list[str] | BadRow]]:
    """Split lines into cells; a quoted cell may go on in the lines after it.

    A quote that is wrong, or that nothing closes, is wrong in its own line only.
    """
    lines, start = [*io.StringIO(text)], 0
    while start < len(lines):
        reader = csv.reader(islice(lines, start, None), strict=True, delimiter=delimiter)
        line = start
        try:
            for row in reader:
                if row:
                    yield before + line + 1, row
                line = start + reader.line_num
            return
        except csv.Error as error:
            reason = f"cannot be split into cells: {error}"
            yield before + line + 1, BadRow("the row cannot be split into cells", reason)
            start = line + 1


def _by_name(rows: Iterator[tuple[int, list[str] | BadRow]], header: Sequence[str]) -> Rows:
    """Give cells their names, short rows fewer of them, and refuse long rows."""
    while some := [*islice(rows, ROWS_AT_ONCE)]:
        numbers, lists = zip(*some, strict=True)
        records: list[Any] = [dict(zip(header, one, strict=False)) for one in lists]
        for k, one in enumerate(lists):
            if type(one) is BadRow or len(one) > len(header):
                records[k] = one if type(one) is BadRow else _TOO_LONG
        yield numbers, records


def _columns(lines: list[str], delimiter: str, number: int, header: Sequence[str]) -> Rows:
    """Split lines without quotes into cells; columns where all lines have a cell of each."""
    width = len(header)
    for start in range(0, len(lines), ROWS_AT_ONCE):
        some, first = lines[start : start + ROWS_AT_ONCE], number + start
        if {one.count(delimiter) for one in some} == {width - 1} and width > 1:
            cells = delimiter.join(some).split(delimiter)
            columns = {name: cells[k::width] for k, name in enumerate(header)}
            yield range(first, first + len(some)), columns
        else:
            rows = ((k, one.split(delimiter)) for k, one in enumerate(some, first) if one)
            yield from _by_name(rows, header)


def rows_of(records: list[Any] | dict[str, list[str]]) -> list[Any]:
    """Return records one by one, also those that `Rows` has as columns of a table."""
    if isinstance(records, list):
        return records
    return [dict(zip(records, row, strict=True)) for row in zip(*records.values(), strict=True)]

"""Read the records of a log file: rows of a table (CSV, Parquet), or JSON objects."""

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
"""Largest length of a JSON line, in characters; large, as a line may hold a long prompt."""

DELIMITERS = (",", ";", "\t", "|")
"""Possible separators of cells in a table; the most frequent one in the first line is used."""

ROWS_AT_ONCE = 500
"""Records read at a time: JSON lines parsed in one call (twice as fast), or rows of a table."""

NO_TEXT = "is not a text file: give it as CSV or JSON lines, plain or compressed with gzip"

_TOO_LONG = BadRow("the row has more cells than the header", "has more cells than the header")
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)

Rows = Iterator[tuple[Sequence[int], Any]]
"""Chunks of records: each is a pair of line numbers (or positions in a JSON list) and a list of
records, with a `BadRow` for each unreadable one, or a dict from column names to lists of cells."""


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """Open a log file as text; gzip is decompressed, and Parquet is converted to JSON lines.

    The file may be a pipe, as its bytes are read only once.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        The file is not text, or turns out to be damaged while it is read.
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
    """Convert a Parquet file to text in which every line is a row as a JSON object."""
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
    """Detect from its first line whether a text is JSON or a table, and read its records.

    Parameters
    ----------
    stream : IO[str]
        The text, from its beginning.
    path : object
        Name of the file in error messages.
    wanted : Format or None
        The format that the user asks for; None if the user leaves it to detection.

    Returns
    -------
    list[str], Rows
        Names of the columns of a table, empty for JSON; and the records in chunks.

    Raises
    ------
    FileFormatError
        The text is empty, too long, or neither JSON nor a table. The last error may also be raised
        later, while the caller iterates over the records.
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
    """Parse a whole text as JSON: return the items of a list, or any other value as one item."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f"is cut off, or not JSON: {error}") from None
    return value if isinstance(value, list) else [value]


def _cells(text: str, delimiter: str, before: int) -> Iterator[tuple[int, list[str] | BadRow]]:
    """Yield each row of a table with quoted cells: its line number, and its list of cells.

    A quoted cell may contain line ends. A row with a misplaced or unclosed quote becomes a
    `BadRow`, and reading goes on at the next line. ``before`` is the number of skipped lines.
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
    """Turn rows of cells into dicts by the names in the header.

    A row with fewer cells than the header lacks the last keys. One with more becomes a `BadRow`.
    """
    while some := [*islice(rows, ROWS_AT_ONCE)]:
        numbers, lists = zip(*some, strict=True)
        records: list[Any] = [dict(zip(header, one, strict=False)) for one in lists]
        for k, one in enumerate(lists):
            if type(one) is BadRow or len(one) > len(header):
                records[k] = one if type(one) is BadRow else _TOO_LONG
        yield numbers, records


def _columns(lines: list[str], delimiter: str, number: int, header: Sequence[str]) -> Rows:
    """Split the lines of a table without quotes into cells, chunk by chunk.

    A chunk whose lines all have as many cells as the header is a dict from column names to lists
    of cells. Any other chunk is a list of one dict for each row. ``number`` is the first line's.
    """
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
    """Return a chunk of `Rows` as a list of records; a dict of columns becomes one dict a row."""
    if isinstance(records, list):
        return records
    return [dict(zip(records, row, strict=True)) for row in zip(*records.values(), strict=True)]

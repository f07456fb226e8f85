"""Read the records of a log file: rows of a table (CSV, Parquet), or JSON objects."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import IO, Any

from instances.errors import FileFormatError
from instances.files import LARGEST_TEXT, bounded_lines, unique_keys

from .cells import NO_OBJECT, BadRow

LONGEST_RECORD = 2**24
"""Largest length of a JSON line in characters. It is large, since a line may have a long prompt."""

DELIMITERS = (",", ";", "\t", "|")
"""Possible separators of cells in a table; the most frequent one in the first line is used."""

ROWS_AT_ONCE = 500
"""Records read at a time: JSON lines parsed in one call (twice as fast), or rows of a table."""

NO_TEXT = "is not a text file: give it as CSV or JSON lines, plain or compressed with gzip"

_TOO_LONG = BadRow("has more cells than the header")
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)

Rows = Iterator[tuple[Sequence[int], list[Any]]]
"""Chunks of records: each is a pair of line numbers (or positions in a JSON list) and a list of
records, with a `BadRow` for each unreadable one."""


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
        except UnicodeDecodeError as error:
            raise FileFormatError(path, f"{NO_TEXT} ({error})") from error
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FileFormatError(path, f"not a whole gzip file: {error}") from error


def _lines_of_parquet(stream: IO[bytes], path: object) -> IO[str]:
    """Convert a Parquet file to text in which every line is a row as a JSON object."""
    import pandas

    try:
        frame = pandas.read_parquet(stream)
    except Exception as error:  # noqa: BLE001 (each engine has other errors)
        reason = f"is a Parquet file, and cannot be read (pip install pyarrow): {error}"
        raise FileFormatError(path, reason) from None
    options: Any = {"orient": "records", "lines": True, "date_format": "iso", "date_unit": "us"}
    return io.StringIO(frame.to_json(**options))


def records_of(stream: IO[str], path: object) -> tuple[list[str], Rows]:
    """Detect from its first line whether a text is JSON or a table, and read its records.

    Parameters
    ----------
    stream : IO[str]
        The text, from its beginning.
    path : object
        Name of the file in error messages.

    Returns
    -------
    list[str], Rows
        Names of the columns of a table (empty for JSON), and an iterator over chunks of records.

    Raises
    ------
    FileFormatError
        The text is empty, has a line that is too long, or is neither JSON nor a table. The error
        may also be raised later, while the caller iterates over the records.
    """
    blank = []
    while (head := stream.readline(LONGEST_RECORD)) and not head.strip():
        blank.append(head)
    if not head:
        raise FileFormatError(path, "is empty")
    start, end = head.lstrip()[0], head.rstrip()[-1]
    if start in "[{" and (start == "[" or end in "{[,:" or len(head) == LONGEST_RECORD):
        value = _decoded(head + stream.read(LARGEST_TEXT))
        if isinstance(value, BadRow):
            raise FileFormatError(path, value.message)
        values = _objects(value if isinstance(value, list) else [value])
        return [], iter([(range(1, len(values) + 1), values)])
    lines = chain(blank, [head], bounded_lines(stream, path, len(blank) + 1, LONGEST_RECORD))
    if start == "{":
        return [], _json_lines((k, one) for k, one in enumerate(lines, 1) if one.strip())
    rows = _cells(lines, max(DELIMITERS, key=head.count), path)
    header = [one.strip() for one in next(rows)[1]]
    return header, _records(rows, header)


def _json_lines(lines: Iterator[tuple[int, str]]) -> Rows:
    while some := [*islice(lines, ROWS_AT_ONCE)]:
        numbers, texts = zip(*some, strict=True)
        values: list[Any] = []
        with suppress(ValueError, RecursionError):
            values = _DECODER.decode(f"[{','.join(texts)}]")
        yield numbers, _objects(values if len(values) == len(texts) else map(_decoded, texts))


def _objects(values: Iterable[Any]) -> list[Any]:
    return [one if isinstance(one, (dict, BadRow)) else NO_OBJECT for one in values]


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        return BadRow(f"is cut off, or not JSON: {error}")


def _cells(lines: Iterator[str], delimiter: str, path: object) -> Iterator[tuple[int, list[str]]]:
    """Yield each row of a table: its line number, and its list of cells.

    A quoted cell may contain line ends.
    """
    # Raise the limit on a cell, 131,072 characters by default, since a cell may have a long prompt.
    csv.field_size_limit(LONGEST_RECORD)
    reader, line = csv.reader(lines, strict=True, delimiter=delimiter), 0
    try:
        for row in reader:
            if row:
                yield line + 1, row
            line = reader.line_num
    except csv.Error as error:
        raise FileFormatError(path, f"cannot be split into cells: {error}", row=line + 1) from None


def _records(rows: Iterator[tuple[int, list[str]]], header: Sequence[str]) -> Rows:
    """Turn rows of cells into dicts by the names in the header.

    A row with fewer cells than the header lacks the last keys. A row with more cells becomes a
    `BadRow`.
    """
    while some := [*islice(rows, ROWS_AT_ONCE)]:
        numbers, lists = zip(*some, strict=True)
        pairs = ((one, dict(zip(header, one, strict=False))) for one in lists)
        yield numbers, [_TOO_LONG if len(one) > len(header) else record for one, record in pairs]

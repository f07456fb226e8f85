"""Take the records out of a file: rows of a table, or objects of JSON."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, zip_longest
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from instances.errors import FileFormatError
from instances.files import LARGEST_TEXT, bounded_lines, unique_keys

from .advice import refuse_text_without_requests
from .cells import BadRow
from .formats import Format

if TYPE_CHECKING:
    import pandas

LONGEST_RECORD = 2**24
"""Characters of a line of JSON: it may hold a long prompt."""

DELIMITERS = (",", ";", "\t", "|")
"""Separators of cells; a table has the one that its first line has most often."""

LARGE_TABLE = 2**21
"""Characters from which on pandas, which takes time to import, splits a table."""

NO_TEXT = "is not a text file: give it as CSV or JSON lines, plain or compressed with gzip"

_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
_FILLED = re.compile(r"\S")
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n")

Rows = Iterator[tuple[int, Any]]
"""Values with their lines or places; a `BadRow` where one cannot be taken apart."""


class Records(NamedTuple):
    """The records of a file.

    Attributes
    ----------
    rows : Rows
        Rows of a table by the names of their columns, or values of JSON.
    header : list[str]
        Columns of a table.
    frame : DataFrame or None
        A large table without quotes as a whole, by its lines.
    """

    rows: Rows
    header: Sequence[str] = ()
    frame: pandas.DataFrame | None = None


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
                yield _rows_of_parquet(stream, path)
                return
            packed = gzip.GzipFile(fileobj=stream) if head.startswith(b"\x1f\x8b") else stream
            yield io.TextIOWrapper(packed, encoding="utf-8-sig", newline="")
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(path, f"{NO_TEXT} ({error})") from error
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FileFormatError(path, f"not a whole gzip file: {error}") from error


def _rows_of_parquet(stream: IO[bytes], path: object) -> IO[str]:
    """Give the rows of a Parquet file as a table, or as JSON lines where cells are nested."""
    import pandas

    try:
        frame = pandas.read_parquet(stream)
    except ImportError:
        reason = "is a Parquet file: install what reads it (pip install pyarrow)"
        raise FileFormatError(path, reason) from None
    except Exception as error:  # noqa: BLE001 (each engine has errors of its own)
        raise FileFormatError(path, f"is not a whole Parquet file: {error}") from None
    cells = [one for row in frame.head(1).to_dict("records") for one in row.values()]
    if any(isinstance(one, dict | list | np.ndarray) for one in cells):
        lines = frame.to_json(orient="records", lines=True, date_format="iso", date_unit="us")
        return io.StringIO(lines)
    return io.StringIO(frame.to_csv(index=False))


def records_of(stream: IO[str], path: object, wanted: Format | None) -> Records:
    """Find out by its first line what a text is, and take its records out of it.

    Parameters
    ----------
    stream : IO[str]
        The text, from its beginning.
    path : object
        Name of the file in errors.
    wanted : Format or None
        The format that the user says.

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
        return Records((k, _value(one)) for k, one in enumerate(lines, before + 1) if one.strip())
    text = head + stream.read(LARGEST_TEXT)
    if len(text) > LARGEST_TEXT:
        raise FileFormatError(path, f"is larger than {LARGEST_TEXT} characters")
    if start in "[{":
        return Records(enumerate(_values(text, path), 1))
    return _table(text, path, before, max(DELIMITERS, key=head.count))


# --- JSON ---------------------------------------------------------------------------------------


def _value(line: str) -> Any:
    try:
        return _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        return BadRow("the row is not a JSON object", f"is not JSON: {error}")


def _values(text: str, path: object) -> list[Any]:
    """Objects one after the other, or the items of one list."""
    values, at = [], 0
    try:
        while (start := _FILLED.search(text, at)) is not None:
            value, at = _DECODER.raw_decode(text, start.start())
            values.append(value)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(path, f"is cut off, or not JSON: {error}") from None
    if not isinstance(values[0], list):
        return values
    if len(values) > 1:
        raise FileFormatError(path, "goes on after its list")
    return values[0]


# --- tables -------------------------------------------------------------------------------------


def _table(text: str, path: object, before: int, delimiter: str) -> Records:
    lines = [*io.StringIO(text, newline="")]
    rows = _split(lines, delimiter, before)
    number, header = next(rows)
    if isinstance(header, BadRow):
        raise FileFormatError(path, header.message, row=number)
    header = [one.strip() for one in header]
    records = Records(_by_name(rows, header), header)
    if len(text) < LARGE_TABLE or '"' in text or _BLANK_LINE.search(text):
        return records
    import pandas

    options: dict[str, Any] = {"header": None, "dtype": object, "keep_default_na": False}
    with suppress(pandas.errors.ParserError):
        # Rows that are too long leave the table to be split line by line.
        frame = pandas.read_csv(io.StringIO(text, newline=""), sep=delimiter, **options)
        frame.index += before + 1
        return records._replace(frame=frame.iloc[1:].set_axis(header, axis=1))
    return records


def _split(lines: Sequence[str], delimiter: str, before: int) -> Rows:
    """Split lines into cells; a quoted cell may go on in the lines after it.

    A quote that is wrong, or that nothing closes, is wrong in its own line only.
    """
    start = 0
    while start < len(lines):
        rest = map(lines.__getitem__, range(start, len(lines)))
        reader = csv.reader(rest, strict=True, delimiter=delimiter)
        line = start
        try:
            for row in reader:
                yield before + line + 1, row
                line = start + reader.line_num
            return
        except csv.Error as error:
            reason = f"cannot be split into cells: {error}"
            yield before + line + 1, BadRow("the row cannot be split into cells", reason)
            start = line + 1


def _by_name(rows: Rows, header: list[str]) -> Rows:
    """Give cells their names; fill short rows up, pass over blank ones, and refuse long ones."""
    for number, cells in rows:
        if isinstance(cells, BadRow):
            yield number, cells
        elif len(cells) > len(header):
            reason = "has more cells than the header"
            yield number, BadRow(f"the row {reason}", reason)
        elif cells:
            yield number, dict(zip_longest(header, cells))

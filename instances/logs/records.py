"""Take the records out of a file: rows of a table, or objects of JSON and YAML."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import IO, Any, NamedTuple

import numpy as np

from instances.errors import FileFormatError
from instances.files import (
    LARGEST_TEXT,
    LONGEST_LINE,
    DuplicateKeyError,
    bounded_lines,
    unique_keys,
)

from .advice import refuse_text_without_requests
from .cells import BadRow
from .formats import Format

LONGEST_RECORD = 2**24
"""Characters of a line of JSON: it may hold a long prompt."""

BLOCK = 2**20
"""Characters of a table that are read at once."""

LONGEST_ROW = 2**20
"""Characters of a row of a table whose cells have line breaks."""

DELIMITERS = (",", ";", "\t", "|")
"""Tried in turn, until the columns named by the user are all there."""

FIRST_YAML_LINE = re.compile(r"\ufeff?(---|%YAML|[A-Za-z_][\w-]*:)(\s|$)")
"""The beginning of a YAML document, which no table and no JSON has."""

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

_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
_FILLED = re.compile(r"\S")


class Records(NamedTuple):
    """The records of a file.

    Attributes
    ----------
    blocks : Iterator[tuple[Sequence[int], list[Any]]]
        Some of them with their numbers: of a table lists of cells and their lines, else objects
        with their lines or places; a `BadRow` where a row cannot be taken apart.
    header : list[str] or None
        Columns of a table.
    """

    blocks: Iterator[tuple[Sequence[int], list[Any]]]
    header: list[str] | None = None

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """One record after the other."""
        return chain.from_iterable(zip(*block, strict=True) for block in self.blocks)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """Open a file as text, unpacked if it is compressed; a pipe is read once.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        It is of another kind, or, while it is read, damaged.
    """
    with open(path, "rb") as file:
        head = file.read(6)
        stream: Any = file
        if file.seekable():
            file.seek(0)
        else:
            stream = io.BytesIO(head + file.read(LARGEST_TEXT))
        for magic, name in OTHER_FILES.items():
            if head.startswith(magic):
                reason = f"is {name}: give it as CSV or JSON lines, plain or compressed with gzip"
                raise FileFormatError(path, reason)
        try:
            if head.startswith(b"PAR1"):
                yield _rows_of_parquet(stream.read(), path)
            else:
                packed = gzip.GzipFile(fileobj=stream) if head.startswith(b"\x1f\x8b") else stream
                yield io.TextIOWrapper(packed, encoding="utf-8-sig", newline="")
        except (csv.Error, UnicodeDecodeError) as error:
            raise FileFormatError(path, f"not a text file of rows: {error}") from error
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise FileFormatError(path, f"not a whole gzip file: {error}") from error


def _rows_of_parquet(content: bytes, path: object) -> IO[str]:
    """Give the rows of a Parquet file as a table, or as JSON lines where cells are nested."""
    try:
        import pandas

        frame = pandas.read_parquet(io.BytesIO(content))
    except ImportError:
        reason = "is a Parquet file: install what reads it (pip install pyarrow)"
        raise FileFormatError(path, reason) from None
    except Exception as error:  # noqa: BLE001 (each engine has errors of its own)
        raise FileFormatError(path, f"is not a whole Parquet file: {error}") from None
    cells = [one for row in frame.head(1).to_dict("records") for one in row.values()]
    if any(isinstance(one, dict | list | np.ndarray) for one in cells):
        return io.StringIO(
            frame.to_json(orient="records", lines=True, date_format="iso", date_unit="us")
        )
    return io.StringIO(frame.to_csv(index=False))


def records_of(stream: IO[str], path: object, wanted: Format | None) -> Records:
    """Tell by its first line what a text is, and take its records out of it.

    Parameters
    ----------
    stream : IO[str]
        The text, from its beginning.
    path : object
        What errors call the file.
    wanted : Format or None
        What the user says that it is.

    Raises
    ------
    FileFormatError
        The text is empty, or, also while records are taken, no JSON, YAML or table.
    """
    before = 0
    while (head := stream.readline(LONGEST_RECORD)) and not head.strip():
        before += 1
    if not head:
        raise FileFormatError(path, "is empty")
    start = head.lstrip()[0]
    if wanted is None and start != "{":
        refuse_text_without_requests(path, head)
    is_yaml = FIRST_YAML_LINE.match(head) is not None and "," not in head
    if is_yaml or start == "[" or (start == "{" and not _is_record(head)):
        text = head + stream.read(LARGEST_TEXT)
        if len(text) > LARGEST_TEXT:
            raise FileFormatError(path, f"is one document of more than {LARGEST_TEXT} characters")
        values = _yaml(text, path) if is_yaml else _json(text, path)
        return Records(iter([(range(1, len(values) + 1), values)]))
    longest = LONGEST_RECORD if start == "{" else LONGEST_LINE
    if len(head) >= longest and not head.endswith("\n"):
        raise FileFormatError(path, f"is longer than {longest} characters", row=before + 1)
    if start != "{":
        return _table(stream, head, before, path, wanted)
    lines = chain([head], bounded_lines(stream, path, before + 1, longest))
    numbered = enumerate(lines, before + 1)
    return Records(([number], [_parsed(line)]) for number, line in numbered if line.strip())


# --- objects ------------------------------------------------------------------------------------


def _is_record(line: str) -> bool:
    """Tell whether a line is a whole object, or one that is broken; else it begins a document."""
    if len(line) >= LONGEST_RECORD:
        return False
    with suppress(ValueError, RecursionError):
        _DECODER.decode(line)
        return True
    return line.rstrip()[-1] not in "{[,:"


def _parsed(line: str) -> Any:
    try:
        return _DECODER.decode(line)
    except DuplicateKeyError as error:
        return BadRow("the row is not a JSON object", str(error))
    except (ValueError, RecursionError) as error:
        return BadRow("the row is not a JSON object", f"is not JSON: {error}")


def _json(text: str, path: object) -> list[Any]:
    """Objects one after the other, or the items of one list."""
    values, at, reason = [], 0, ""
    try:
        while (start := _FILLED.search(text, at)) is not None:
            value, at = _DECODER.raw_decode(text, start.start())
            values.append(value)
    except json.JSONDecodeError as error:
        reason = f"is cut off, or not JSON: {error.msg} (at character {error.pos})"
    except RecursionError:
        reason = "is nested too deeply"
    except ValueError as error:
        reason = str(error)
    if not reason and isinstance(values[0], list) and len(values) > 1:
        reason = "goes on after its list"
    if reason:
        raise FileFormatError(path, reason)
    return values[0] if isinstance(values[0], list) else values


def _yaml(text: str, path: object) -> list[Any]:
    try:
        import yaml

        return [*yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))]
    except ImportError:
        reason = "is YAML: install PyYAML (pip install 'llm-hindsight[yaml]')"
    except yaml.YAMLError as error:
        reason = f"is cut off, or not YAML: {' '.join(str(error).split())[:200]}"
    except RecursionError:
        reason = "is nested too deeply"
    raise FileFormatError(path, reason)


# --- tables -------------------------------------------------------------------------------------


def _table(stream: IO[str], head: str, before: int, path: object, wanted: Format | None) -> Records:
    delimiter, count = _delimiter(head, wanted), before + 1
    while (
        head.count('"') % 2 and len(head) < LONGEST_ROW and (more := stream.readline(LONGEST_LINE))
    ):
        head, count = head + more, count + 1
    header = _split(head, delimiter)
    if isinstance(header, BadRow):
        raise FileFormatError(path, header.message, row=before + 1)
    blocks = _blocks(stream, path, delimiter, len(header), count)
    return Records(blocks, [one.strip() for one in header])


def _blocks(
    stream: IO[str], path: object, delimiter: str, width: int, count: int
) -> Iterator[tuple[Sequence[int], list[Any]]]:
    """Take plain lines many at a time, and from the first other ones on all one by one."""
    while chunk := stream.read(BLOCK):
        chunk += stream.readline(LONGEST_LINE)
        text = chunk.replace("\r\n", "\n").removesuffix("\n")
        is_plain = '"' not in text and "\r" not in text and len(chunk) < BLOCK + LONGEST_LINE
        rows = [one.split(delimiter) for one in text.split("\n")] if is_plain else []
        if {*map(len, rows)} != {width}:
            break
        yield range(count + 1, count + 1 + len(rows)), rows
        count += len(rows)
    following = bounded_lines(stream, path, count + chunk.count("\n"))
    lines = chain(bounded_lines(io.StringIO(chunk, newline=""), path, count), following)
    rest = _split_rows(enumerate(lines, count + 1), delimiter)
    yield from (([number], [row]) for number, row in _whole_rows(rest, width))


def _delimiter(header: str, wanted: Format | None) -> str:
    """A comma, unless another one gives the columns the user has named, or none are and it more."""
    cells = {one: next(csv.reader([header], delimiter=one), []) for one in DELIMITERS}
    if wanted is None:
        return max(DELIMITERS, key=lambda one: len(cells[one]))
    names = {*wanted.required}
    fitting = (one for one in DELIMITERS if names <= {*map(str.strip, cells[one])})
    return next(fitting, DELIMITERS[0])


def _whole_rows(rows: Iterable[tuple[int, Any]], width: int) -> Iterator[tuple[int, Any]]:
    """Fill short rows up, pass over blank ones, and refuse long ones."""
    for number, cells in rows:
        if isinstance(cells, BadRow) or len(cells) == width:
            yield number, cells
        elif len(cells) > width:
            reason = "has more cells than the header"
            yield number, BadRow(f"the row {reason}", reason)
        elif cells:
            yield number, [*cells, *[None] * (width - len(cells))]


def _split_rows(lines: Iterator[tuple[int, str]], delimiter: str) -> Iterator[tuple[int, Any]]:
    """Split lines into cells; a quoted cell may go on in the lines after it.

    A quote that is not closed within `LONGEST_ROW` characters is wrong in its own line only.
    """
    again: deque[tuple[int, str]] = deque()
    while one := again.popleft() if again else next(lines, None):
        number, row = one
        if '"' not in row:
            text = row.rstrip("\r\n")
            yield number, text.split(delimiter) if text else []
            continue
        cells, quotes = _split(row, delimiter), row.count('"')
        later: list[tuple[int, str]] = []
        while isinstance(cells, BadRow) and quotes % 2 and len(row) < LONGEST_ROW:
            following = again.popleft() if again else next(lines, None)
            if following is None:
                break
            later.append(following)
            row += following[1]
            quotes += following[1].count('"')
            if quotes % 2 == 0:
                cells = _split(row, delimiter)
        if isinstance(cells, BadRow):
            again.extendleft(reversed(later))
        yield number, cells


def _split(row: str, delimiter: str) -> list[str] | BadRow:
    try:
        return next(csv.reader((row,), strict=True, delimiter=delimiter))
    except csv.Error as error:
        return BadRow("a quote in it is wrong", f"has a quote that is wrong: {error}")

"""Write files atomically, and read files that may be damaged, endless or malicious."""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

from .errors import FileFormatError, printable, shown

LARGEST_TEXT = 2**30
"""Largest size in bytes of a file read as a whole: enough for ten million requests."""

CHUNK = 2**20

LONGEST_LINE = 2**20
"""Longest line in characters. A whole line is in memory at once, and table rows are shorter."""

FORMULA_SIGNS = ("=", "+", "-", "@")
"""A spreadsheet takes the text of a cell for a formula if it begins with one of these."""

DEEPEST = 100
"""Largest depth of nested lists and tables in a JSON or TOML document. Python allows hundreds."""

LARGEST_NUMBER = 10**300
"""Largest integer in a JSON or TOML document. Larger ones overflow floats or cannot be printed."""

_TOO_DEEP = f"is nested more than {DEEPEST} deep"


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read a whole text file or pipe, and stop early if it cannot be a text file.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        The file has NUL bytes, like the endless device /dev/zero, or over `LARGEST_TEXT` bytes.
    """
    content = bytearray()
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            content += chunk
            if b"\0" in chunk:
                raise FileFormatError(path, "not UTF-8 text: it holds NUL bytes")
            if len(content) > LARGEST_TEXT:
                raise FileFormatError(path, f"is larger than {LARGEST_TEXT} bytes")
    return bytes(content)


def bounded_lines(
    stream: IO[str], path: object, before: int = 0, longest: int = LONGEST_LINE
) -> Iterator[str]:
    """Yield the lines of a text stream, and raise an error for a line that is too long for memory.

    Parameters
    ----------
    stream : IO[str]
        Text, of which the first lines may already be read.
    path : object
        Name of the file in error messages.
    before : int, default 0
        Number of lines already read, for line numbers in errors.
    longest : int, default LONGEST_LINE
        Longest line allowed, in characters.

    Raises
    ------
    FileFormatError
        A line is longer than ``longest``.
    """
    number = before
    while line := stream.readline(longest):
        number += 1
        if len(line) == longest and line[-1] not in "\r\n":
            reason = f"is longer than {longest} characters"
            raise FileFormatError(path, reason, row=number)
        yield line


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Convert the pairs of a JSON object to a dict, and refuse duplicate keys.

    A duplicate key is ambiguous: Python takes the last value, and other readers take the first. All
    JSON files of users are parsed with this function as ``object_pairs_hook``.

    Raises
    ------
    ValueError
        Two pairs have the same key.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {twice[:40]!r} is there twice")
    return found


def parse_json(text: str | bytes, path: object) -> Any:
    """Parse JSON text, and refuse duplicate keys, NaN, deep nesting and huge integers.

    Parameters
    ----------
    text : str | bytes
        The JSON text.
    path : object
        Name of the document in error messages.

    Raises
    ------
    FileFormatError
        The text is not UTF-8 or not JSON, has a key twice, NaN or an infinite number, is nested
        more than `DEEPEST` deep, or has an integer above `LARGEST_NUMBER`.
    """
    load = partial(json.loads, object_pairs_hook=unique_keys, parse_constant=_refused)
    return _parsed(load, text, path)


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def parse_toml(text: str | bytes, path: object) -> dict[str, Any]:
    """Parse TOML text, and refuse deep nesting and huge integers.

    Raises
    ------
    FileFormatError
        The text is not UTF-8 or not TOML, is nested more than `DEEPEST` deep, or has an integer
        above `LARGEST_NUMBER`.
    """
    document: dict[str, Any] = _parsed(tomllib.loads, text, path)
    return document


def _parsed(parse: Callable[[str], Any], text: str | bytes, path: object) -> Any:
    try:
        document = parse(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except RecursionError:
        raise FileFormatError(path, _TOO_DEEP) from None
    except UnicodeDecodeError as error:
        raise FileFormatError(path, f"not UTF-8 text: {error}") from None
    except json.JSONDecodeError as error:
        raise FileFormatError(path, f"not valid JSON at line {error.lineno}: {error.msg}") from None
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(path, f"is not TOML: {error}") from None
    except ValueError as error:
        # The error is about a duplicate key, or an integer of thousands of digits.
        raise FileFormatError(path, str(error)) from None
    check_shape(document, path)
    return document


def check_shape(document: Any, path: object) -> None:
    """Raise an error if a document could be written as JSON but not be read again.

    Raises
    ------
    FileFormatError
        The document is nested more than `DEEPEST` deep, or has an integer above `LARGEST_NUMBER`.
    """
    level = [document]
    for _ in range(DEEPEST + 1):
        if any(type(one) is int and abs(one) > LARGEST_NUMBER for one in level):
            raise FileFormatError(path, "holds an integer of more than 300 digits")
        tables = [list(one.values()) if type(one) is dict else one for one in level]
        level = [*chain.from_iterable(one for one in tables if type(one) in (list, tuple))]
        if not level:
            return
    raise FileFormatError(path, _TOO_DEEP)


def check_head(document: Any, head: Mapping[str, Any], path: object) -> None:
    """Raise an error unless a document has all entries of ``head``: its format and version.

    Raises
    ------
    FileFormatError
        An entry differs or is missing.
    """
    for key, expected in head.items():
        found = document.get(key) if isinstance(document, dict) else None
        if type(found) is not type(expected) or found != expected:
            raise FileFormatError(path, f"{key} is {shown(found)}, not {expected!r}")


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Convert rows of numbers and text to CSV text without formulas that a spreadsheet would run.

    Text that a spreadsheet would take for a formula gets a leading quote. Control characters are
    escaped.
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(_inert, row) for row in rows)
    return stream.getvalue()


def _inert(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    # The csv module does not quote a carriage return, which would begin a new line. `printable`
    # escapes it.
    text = printable(cell)
    if not text.startswith(FORMULA_SIGNS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file so that readers see either the old or the whole new content.

    The content goes to a temporary file in the same folder, which is then renamed to ``path``.

    Raises
    ------
    OSError
        The folder is missing or not writable; no temporary file is left.
    """
    target = Path(path)
    if target.is_symlink():
        # Resolve a symbolic link first: a rename would replace the link instead of its target.
        target = target.resolve()
    if isinstance(content, str):
        # Text may have a lone surrogate, which UTF-8 cannot encode: write it as an escape.
        content = content.encode("utf-8", "backslashreplace")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            # Add the path: an error such as "disk full" does not name the file.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise

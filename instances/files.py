"""Writing files so that a reader never meets half of one, and reading those that may be hostile."""

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
"""Bytes of a file that is read as a whole: ten million requests, and no endless pipe."""

CHUNK = 2**20

LONGEST_LINE = 2**20
"""Characters of a line: what is longer is no row of a table, and would be held at once."""

FORMULA_SIGNS = ("=", "+", "-", "@")
"""A cell that begins with one of them, and is no number, is a formula to a spreadsheet."""

DEEPEST = 100
"""Lists and tables inside one another in a document that is read: Python gives up at hundreds."""

LARGEST_NUMBER = 10**300
"""Integers beyond it fit no float, and those of thousands of digits Python does not even print."""

_TOO_DEEP = f"is nested more than {DEEPEST} deep"


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The whole of a text file, which may be a pipe, and is not held where it cannot be one.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        NUL bytes (a device such as /dev/zero has no end), or more than `LARGEST_TEXT` bytes.
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
    """The lines of a text stream, none of which can fill the memory.

    Parameters
    ----------
    stream : IO[str]
        The text that has not been read yet.
    path : object
        What errors call the file.
    before : int, default 0
        Lines that have been read.
    longest : int, default LONGEST_LINE
        Characters that a line may have.

    Raises
    ------
    FileFormatError
        A line of more than that.
    """
    number = before
    while line := stream.readline(longest):
        number += 1
        if len(line) == longest and line[-1] not in "\r\n":
            reason = f"is longer than {longest} characters"
            raise FileFormatError(path, reason, row=number)
        yield line


class DuplicateKeyError(ValueError):
    """A JSON object has a key twice; Python would take the last, other readers the first."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The ``object_pairs_hook`` of all JSON from outside.

    Raises
    ------
    DuplicateKeyError
        A key is there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise DuplicateKeyError(f"key {twice[:40]!r} is there twice")
    return found


def parse_json(text: str | bytes, path: object, **hooks: Any) -> Any:
    """Parse JSON whose shape the package can handle.

    Parameters
    ----------
    text : str | bytes
        The JSON text.
    path : object
        What errors call the document.
    hooks : Any
        Of `json.loads`.

    Raises
    ------
    FileFormatError
        Not UTF-8, not JSON, a key given twice, nested too deeply, or with an integer that is too
        large.
    """
    return _parsed(partial(json.loads, **{"object_pairs_hook": unique_keys, **hooks}), text, path)


def parse_toml(text: str | bytes, path: object) -> dict[str, Any]:
    """Parse TOML whose shape the package can handle.

    Raises
    ------
    FileFormatError
        Not UTF-8, not TOML, nested too deeply, or with an integer that is too large.
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
        # A key given twice, or an integer of thousands of digits.
        raise FileFormatError(path, str(error)) from None
    check_shape(document, path)
    return document


def check_shape(document: Any, path: object) -> None:
    """Refuse what could be written and not be read again.

    Raises
    ------
    FileFormatError
        Nested too deeply, or an integer that is too large.
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
    """Refuse a document that does not have these entries.

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
    """Write rows of numbers and text as CSV that a spreadsheet does not run.

    What a spreadsheet would take for a formula has a quote before it, controls are escaped.
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(map(_inert, row) for row in rows)
    return stream.getvalue()


def _inert(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    # The csv module leaves carriage returns unquoted: what follows one would begin a line.
    text = printable(cell)
    if not text.startswith(FORMULA_SIGNS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write to a temporary name in the same folder, then rename over ``path``.

    Raises
    ------
    OSError
        The folder is missing or not writable; nothing is left behind.
    """
    target = Path(path)
    if target.is_symlink():
        # Renaming over a link would replace the link instead of what it points to.
        target = target.resolve()
    if isinstance(content, str):
        # A name may hold half of a surrogate pair, which no encoding has.
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
            # A full disk does not say of which file.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise

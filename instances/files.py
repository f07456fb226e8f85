"""Reading text of bounded size, and writing files so that a reader never meets half of one."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .errors import FileFormatError

LARGEST_TEXT = 2**30
"""Bytes of a file that is read as a whole: ten million requests, and no endless pipe."""

CHUNK = 2**20

LONGEST_LINE = 2**20
"""Characters of a line: what is longer is no row of a table, and would be held at once."""


def read_text(path: str | os.PathLike[str]) -> str:
    """The whole of a text file, which may be a pipe, and is not held where it cannot be one.

    Raises
    ------
    OSError: the file cannot be read.
    FileFormatError: not UTF-8, NUL bytes (a device such as /dev/zero has no end), or more than
        `LARGEST_TEXT` bytes.
    """
    content = bytearray()
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            if b"\0" in chunk:
                raise FileFormatError(path, "not UTF-8 text: it holds NUL bytes")
            content += chunk
            if len(content) > LARGEST_TEXT:
                raise FileFormatError(path, f"is larger than {LARGEST_TEXT} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(path, f"not UTF-8 text: {error}") from error


def bounded_lines(stream: IO[str], path: str | os.PathLike[str]) -> Iterator[str]:
    """The lines of a text stream, none of which can fill the memory.

    Raises
    ------
    FileFormatError: a line of more than `LONGEST_LINE` characters.
    """
    number = 0
    while line := stream.readline(LONGEST_LINE):
        number += 1
        if len(line) == LONGEST_LINE and line[-1] not in "\r\n":
            reason = f"is longer than {LONGEST_LINE} characters"
            raise FileFormatError(path, reason, row=number)
        yield line


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write to a temporary name in the same folder, then rename over ``path``.

    Raises
    ------
    OSError: the folder is missing or not writable; nothing is left behind.
    """
    target = Path(path)
    if target.is_symlink():
        # Renaming over a link would replace the link instead of what it points to.
        target = target.resolve()
    data = content.encode("utf-8") if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _mode_of(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _mode_of(target: Path) -> int:
    """The permissions of the file replaced, or those a plain open() would give a new one."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

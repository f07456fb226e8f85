"""Writing files so that a reader never meets half of one."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


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
    if isinstance(content, str):
        # A name may hold half of a surrogate pair, which no encoding has.
        content = content.encode("utf-8", "backslashreplace")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _mode_of(target))
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno is not None:
            # A full disk does not say of which file.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _mode_of(target: Path) -> int:
    """The permissions of the file replaced, or those a plain open() would give a new one."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

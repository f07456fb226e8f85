"""A store of trials: a file with a line of JSON for each trial, appended when the trial ends.

One process writes the file, and others may read it at the same time. If a process was killed while
it wrote, the last line is incomplete. Readers ignore such a line, and the next writer removes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from instances import FileFormatError, InvalidValueError

from .trial import Trial, with_best_bounds

HEAD = b'{"format": "llm-hindsight/trials", "version": 2}\n'
"""First line of a file of trials, which names the file format and its version."""


def read_trials(path: str | os.PathLike[str]) -> list[Trial]:
    """Read the trials in a file that `online.sweep` wrote (its parameter ``store``).

    Each trial gets the best bounds on its optimum that any trial in the file has.

    Raises
    ------
    OSError
        The file cannot be read.
    FileFormatError
        The file is not a store of trials, or one of its lines is damaged.
    """
    return with_best_bounds(_parse(Path(path), Path(path).read_bytes()).values())


class Store:
    """Collection of trials. If the store has a file, new trials are also appended to the file.

    Attributes
    ----------
    trials : dict[str, Trial]
        The trials by `Trial.key`, a hash of what defines a trial.
    """

    def __init__(self, path: Path | None, trials: dict[str, Trial]) -> None:
        self._path = path
        self.trials = trials

    def add(self, found: Iterable[Trial]) -> None:
        """Add trials and append them to the file. A trial replaces an earlier one of equal key."""
        lines = ""
        for one in found:
            self.trials[one.key] = one
            lines += json.dumps(one.to_json(), ensure_ascii=False) + "\n"
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(lines)
                stream.flush()
                os.fsync(stream.fileno())


@contextmanager
def opened(path: str | os.PathLike[str] | None) -> Iterator[Store]:
    """Open a file of trials as a `Store` for reading and appending, and lock the file.

    A missing file is created. If ``path`` is None, the store has no file.

    Raises
    ------
    OSError, FileFormatError
        The file cannot be opened, or is not a store of trials.
    InvalidValueError
        Another process has the store open for writing.
    """
    if path is None:
        yield Store(None, {})
        return
    file = Path(path)
    with file.open("a+b") as stream:
        try:
            with suppress(ImportError):
                # Systems without the module fcntl, such as Windows, do not lock the file.
                import fcntl

                fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reason = "is being written by another process"
            raise InvalidValueError(None, "store", str(file), reason) from None
        stream.seek(0)
        content = stream.read()
        trials = _parse(file, content)
        if not content.endswith(b"\n"):
            stream.truncate(content.rfind(b"\n") + 1)
        if not stream.seek(0, os.SEEK_END):
            stream.write(HEAD)
            stream.flush()
        yield Store(file, trials)


def _parse(file: Path, content: bytes) -> dict[str, Trial]:
    # A file with only a part of the first line counts as a store without trials: the process that
    # created the file was killed.
    if not content.startswith(HEAD) and not HEAD.startswith(content):
        raise FileFormatError(file, "is not a store of trials of this version")
    trials = {}
    for number, line in enumerate(content.split(b"\n")[1:-1], start=2):
        try:
            one = Trial.from_json(json.loads(line))
        except (TypeError, ValueError) as error:
            raise FileFormatError(file, f"line {number} is not a trial: {error}") from None
        trials[one.key] = one
    return trials

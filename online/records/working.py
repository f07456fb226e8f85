"""`verify_records` and `improve_records`: the library's records, an instance a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from instances import FileFormatError, InvalidValueError, LibraryEntry, Record, RecordStore
from instances.catalogue.library import library
from instances.validation import as_integer, as_number
from online.runtime import processes
from online.runtime.processes import POLL_SECONDS, WorkerPool

if TYPE_CHECKING:
    from hindsight.records.improvement import Gain
    from hindsight.records.verification import RecordVerdict

LEAST_SLICE = 5.0
"""Seconds below which an attempt does hardly more than begin."""


def verify_records(
    entries: Iterable[LibraryEntry], folder: Path | None = None, jobs: int = 1
) -> Iterator[RecordVerdict]:
    """Verify each record, in order; loads no solver, in no process.

    Parameters
    ----------
    entries : Iterable[LibraryEntry]
        Of the library.
    folder : Path or None, default None
        Of records in place of the package's.
    jobs : int, default 1
        Processes; 1 stays in this one.

    Raises
    ------
    MissingCertificatesError
        The package was installed without certificates, and the folder has none.
    """
    entries = [*entries]
    RecordStore(folder).require_certificates(entries)
    tasks = [(entry.name, folder) for entry in entries]
    if as_integer(jobs, None, "jobs", minimum=1) == 1:
        yield from map(_verify, tasks)
        return
    with WorkerPool[tuple[str, Path | None], "RecordVerdict"](min(jobs, len(tasks) or 1)) as pool:
        yield from pool.map(_verify, tasks)


def _verify(task: tuple[str, Path | None]) -> RecordVerdict:
    from hindsight.records.verification import verify_record

    name, folder = task
    return verify_record(library(name), RecordStore(folder))


Turn = tuple[LibraryEntry, Record | None]
Attempt = tuple[str, Record | None, float]
"""The name of an instance, what is known of it, and seconds, as a worker gets them."""

Found = tuple[Record, bytes | None]


@dataclass(frozen=True)
class Failure:
    """An attempt that came to nothing, or could not begin.

    Attributes
    ----------
    name : str
        Of the instance.
    reason : str
        What it raised or died of, or why its record cannot be read.
    """

    name: str
    reason: str


@dataclass(frozen=True)
class Improvement:
    """Outcome of the attempts to improve records.

    Attributes
    ----------
    attempts : tuple[Gain | Failure, ...]
        In the order in which they came back, of what was not left out.
    interrupted : bool
        Whether Ctrl-C ended it.
    left_out : tuple[Failure, ...]
        Instances whose records could not be read, at the beginning or later.
    """

    attempts: tuple[Gain | Failure, ...]
    interrupted: bool
    left_out: tuple[Failure, ...]


def improve_records(
    entries: Iterable[LibraryEntry],
    store: RecordStore,
    seconds: float,
    *,
    jobs: int = 1,
    tell: Callable[[Gain | Failure], None] | None = None,
) -> Improvement:
    """Spend a given time on the widest gaps, from the schedules known on.

    Open instances are tried in turn, those tried least first, among them the widest gap, of these
    the smallest; each gets an equal slice of the time left for those not tried yet, but no less
    than `LEAST_SLICE`, if there is as much. What an attempt found is kept as soon as it is back, so
    killed or interrupted it goes on where it was. Ctrl-C ends the attempts that run, and keeps what
    they found; a second one drops them. Instances whose records are damaged are left out.

    Parameters
    ----------
    entries : Iterable[LibraryEntry]
        Of the library.
    store : RecordStore
        Where records are, and will be.
    seconds : float
        For everything; attempts that have begun are ended with it, but for the certificates of what
        they found.
    jobs : int, default 1
        Processes, one attempt in each at a time.
    tell : Callable[[Gain | Failure], None] or None, default None
        Told of each attempt that is back.

    Returns
    -------
    Improvement
        What came of each attempt.
    """
    from hindsight.runtime.clock import Clock
    from instances.ctrl_c import Interruption

    clock = Clock(as_number(seconds, None, "seconds", above=0))
    jobs = as_integer(jobs, None, "jobs", minimum=1)
    turns = _Turns(entries, store)
    begun, stopped = 0, False
    back: list[Gain | Failure] = []
    with (
        Interruption(math.inf) as pressed,
        WorkerPool[Attempt, "Found | None"](jobs, allowed_deaths=1) as pool,
    ):
        while pressed.presses < 2:
            while (
                not stopped
                and pool.pending < jobs
                and clock.seconds_left() > (0 if begun < jobs else LEAST_SLICE)
                and (turn := turns.next())
            ):
                begun += 1
                entry, known = turn
                share = clock.seconds_left() * jobs / (turns.waiting + pool.pending + 1)
                slice_seconds = max(0.0, min(max(share, LEAST_SLICE), clock.seconds_left()))
                pool.submit(_attempt, (entry.name, known, slice_seconds))
            if not pool.pending:
                break
            if pressed() and not stopped:
                pool.stop()
                stopped = True
            for one in pool.wait(POLL_SECONDS):
                news = turns.take(library(one.task[0]), one.result, one.error)
                back += news
                if tell is not None and news:
                    tell(*news)
    return Improvement(tuple(back), pressed(), tuple(turns.left_out))


class _Turns:
    """Order of the instances to try, with what is known of each; unreadable ones have no turn."""

    def __init__(self, entries: Iterable[LibraryEntry], store: RecordStore) -> None:
        self._store = store
        self.left_out: list[Failure] = []
        self._waiting = self._open(entries)
        self._spent: list[LibraryEntry] = []

    @property
    def waiting(self) -> int:
        """Count the instances whose turn is still to come in this round of turns."""
        return len(self._waiting)

    def next(self) -> Turn | None:
        """Take the open instance tried least, and of these the one of the widest gap."""
        self._waiting = self._open(entry for entry, _ in self._waiting)
        if not self._waiting:
            self._waiting, self._spent = self._open(self._spent), []
        return self._waiting.pop(0) if self._waiting else None

    def take(
        self, entry: LibraryEntry, found: Found | None, error: BaseException | None
    ) -> list[Gain | Failure]:
        """Keep what an attempt found, and give its instance another turn unless it is closed.

        Nothing is returned where the record there cannot be read.
        """
        from hindsight.records.improvement import keep

        if error is not None or found is None:
            return [Failure(entry.name, "not begun" if error is None else str(error))]
        try:
            gain = keep(entry, self._store, *found)
        except FileFormatError as unreadable:
            self.leave_out(entry, unreadable)
            return []
        except (InvalidValueError, OSError) as refused:
            return [Failure(entry.name, str(refused))]
        self._spent.append(entry)
        return [gain]

    def leave_out(self, entry: LibraryEntry, error: FileFormatError) -> None:
        """Give no turn any more to an instance whose record cannot be read."""
        self.left_out.append(Failure(entry.name, str(error)))

    def _open(self, entries: Iterable[LibraryEntry]) -> list[Turn]:
        """List those that are open, the next one first."""
        found: list[Turn] = []
        for entry in entries:
            try:
                record = self._store.record(entry)
            except FileFormatError as error:
                self.leave_out(entry, error)
                continue
            if record is None or record.gap > 0:
                found.append((entry, record))
        return sorted(found, key=_order)


def _order(turn: Turn) -> tuple[int, float, int]:
    entry, record = turn
    attempts, gap = (0, math.inf) if record is None else (record.attempts, record.gap)
    return attempts, -gap, entry.n


def _attempt(task: Attempt) -> Found | None:
    from hindsight.records.improvement import attempt

    if processes.should_stop():
        return None
    name, known, seconds = task
    return attempt(library(name), known, seconds, should_stop=processes.should_stop)

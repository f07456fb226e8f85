"""Records of the library's instances: a file for each set, a certificate for each bound.

A record has the best schedule, as the rounds in which requests run, and the best lower bound that
is verified without a solver.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast

import numpy as np

from instances.batch_time.seconds_schedule import COLUMNS, SecondsSchedule
from instances.errors import FileFormatError, InvalidValueError
from instances.files import parse_json, read_bytes, write_atomically
from instances.problem.instance import Instance
from instances.problem.preemptive_schedule import AnySchedule, PreemptiveSchedule
from instances.problem.schedule import Schedule
from instances.problem.workload import Workload
from instances.validation import LARGEST_INTEGER, as_integer, as_name, as_number

FORMAT = "llm-hindsight/library-records"
VERSION = 2
PACKAGE = Path(__file__).resolve().parent

LOCK = ".lock"
"""File that is locked while records are written; network file systems lock no folders."""

LOCK_SECONDS = 0.2
"""How long to wait for another process before Ctrl-C is noticed."""

LATE = "late_requests"
"""The goal that may be 0."""

MICROSECONDS = 10**6
"""In a second: what bounds in seconds are shown in."""

NAMES = ("proof", "date", "method", "version")
"""Entries of a record that are texts."""

Bound: TypeAlias = int | float
"""Rounds, or seconds: rounded outward."""

RecordStatus = Literal["open", "closed"]


class MissingCertificatesError(FileNotFoundError):
    """Certificates that a record names were not installed; the message says where they are."""


class Named(Protocol):
    """An entry of the library, as far as its record needs it."""

    @property
    def name(self) -> str:
        """Return the name of the instance."""

    @property
    def set(self) -> str:
        """Return the name of its set."""

    @property
    def n(self) -> int:
        """Return the number of requests."""

    @property
    def goal(self) -> str:
        """Return the goal: what is minimised."""

    @property
    def batch_time(self) -> str | None:
        """Name of a preset."""

    @property
    def digest(self) -> str:
        """Return the digest of the instance."""

    @property
    def instance(self) -> Instance | Workload:
        """The instance."""


@dataclass(frozen=True, eq=False)
class Record:
    """Record of the optimum of a library instance: the best known schedule and bounds.

    Attributes
    ----------
    entry : LibraryEntry
        Of what.
    upper_bound : int or float
        Cost of ``schedule``: total latency or makespan in rounds, total latency in seconds, rounded
        up, or late requests.
    rounds : Mapping[str, list]
        The schedule as its file has it.
    lower_bound : int or float
        Verified: by the certificate or, where there is none, computed anew in closed form.
    proof : str
        The kind of its certificate's proof, or the name of the closed form.
    date, method, version : str
        Of the last improvement: its day, as 2026-11-22, what found it, and the version of this
        package that checked it.
    certificate : Path or None
        The certificate, compressed; None where no kind of certificate is of this goal, or none was
        needed.
    attempts : int
        How often it was tried to improve.
    """

    entry: Named
    upper_bound: Bound
    rounds: Mapping[str, list[Any]]
    lower_bound: Bound
    proof: str
    date: str
    method: str
    version: str
    certificate: Path | None = None
    attempts: int = 0

    def __repr__(self) -> str:
        return f"Record({self.entry.name!r}, {self.status}, {self.interval})"

    @property
    def status(self) -> RecordStatus:
        """``"closed"`` where the verified bound meets the schedule."""
        return "closed" if self.lower_bound == self.upper_bound else "open"

    @property
    def certified(self) -> bool:
        """Tell whether the lower bound has a certificate of its own."""
        return self.certificate is not None

    @property
    def gap(self) -> float:
        """(upper - lower) / upper, of the verified bound; of late requests, / all requests."""
        whole = self.entry.n if self.entry.goal == LATE else self.upper_bound
        return (self.upper_bound - self.lower_bound) / whole

    @property
    def interval(self) -> str:
        """Show both bounds in a few characters; seconds to a microsecond, outward."""
        if self.entry.goal != "seconds" and self.status == "closed":
            return f"{self.upper_bound}"
        lower = self._shown(self.lower_bound, math.floor)
        return f"[{lower}, {self._shown(self.upper_bound, math.ceil)}]"

    def _shown(self, bound: Bound, outward: Callable[[float], int]) -> str:
        if self.entry.goal == "seconds":
            return f"{outward(bound * MICROSECONDS) / MICROSECONDS:.6f}"
        return f"{bound}"

    @cached_property
    def schedule(self) -> AnySchedule | SecondsSchedule:
        """Read the best schedule known, unchecked: `hindsight.records` checks.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            What the file has is no schedule of the instance.
        """
        return schedule_of(self.entry, self.rounds)

    def tried(self, attempts: int) -> Record:
        """Set the number of attempts to improve it, as far as a file may count."""
        return replace(self, attempts=min(attempts, LARGEST_INTEGER))

    def merged(self, other: Record) -> Record:
        """Take the better schedule and the better bound; this one's where they are equal.

        Date, method and version are the other's if it improves something.
        """
        schedule = other if other.upper_bound < self.upper_bound else self
        is_better = (other.lower_bound, other.certified) > (self.lower_bound, self.certified)
        bound = other if is_better else self
        return replace(
            self if schedule is bound is self else other,
            upper_bound=schedule.upper_bound,
            rounds=schedule.rounds,
            lower_bound=bound.lower_bound,
            proof=bound.proof,
            certificate=bound.certificate,
            attempts=max(self.attempts, other.attempts),
        )


def rounds_of(schedule: AnySchedule | SecondsSchedule) -> dict[str, list[Any]]:
    """Write a schedule as a record's file has it, in seconds with rounds as early as they can."""
    if isinstance(schedule, Schedule):
        return {"start_times": schedule.start_times.tolist()}
    if isinstance(schedule, PreemptiveSchedule):
        return {"stretches": [[list(one) for one in own] for own in schedule.stretches]}
    columns = [getattr(schedule, name) for name in COLUMNS]
    return {"stretches_in_seconds": np.stack(columns, axis=1).tolist()}


def schedule_of(entry: Named, rounds: Mapping[str, list[Any]]) -> AnySchedule | SecondsSchedule:
    """Read the schedule of an entry's instance that `rounds_of` wrote.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        It is none of the instance.
    FileFormatError
        It is not of the kind that the goal asks for.
    """
    ((kind, rows),) = rounds.items()
    instance = entry.instance
    if entry.batch_time is not None and kind == "stretches_in_seconds":
        return SecondsSchedule(cast(Workload, instance), cast(Any, rows))
    if entry.goal == "preemptive_total_latency" and kind == "stretches":
        return PreemptiveSchedule(cast(Instance, instance), rows)
    is_timed = entry.goal in ("total_latency", "makespan", LATE)
    if is_timed and entry.batch_time is None and kind == "start_times":
        return Schedule(cast(Instance, instance), rows)
    raise FileFormatError(f"record of {entry.name}", f"{kind!r} is no schedule for {entry.goal}")


class RecordStore:
    """Records in a folder, each in place of the package's, or the package's alone.

    Parameters
    ----------
    folder : str or os.PathLike or None, default None
        Where they are written, and read; the package's records count for all other instances. None
        is the package's own folder.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = PACKAGE if folder is None else Path(folder)
        self._read: dict[Path, tuple[int, dict[str, Any]]] = {}

    def record(self, entry: Named) -> Record | None:
        """Read what is known; a record of another digest is none of this instance.

        Raises
        ------
        FileFormatError
            A file that is damaged, cannot be read, or has bounds that contradict its own schedule.
        """
        folder, found = self._stored(entry)
        if found is None or found.get("digest") != entry.digest:
            return None
        return self._record(entry, found, folder)

    def stale(self, entry: Named) -> str | None:
        """Return the digest of a record of that name which is of another instance."""
        _, found = self._stored(entry)
        digest = entry.digest if found is None else found.get("digest")
        return None if digest == entry.digest else str(digest)

    def unknown(self, set_name: str, names: frozenset[str]) -> list[str]:
        """List names with a record in a set's file that are not among ``names``."""
        return [name for name in self._records(self.folder, set_name) if name not in names]

    def _stored(self, entry: Named) -> tuple[Path, dict[str, Any] | None]:
        """Return the folder with the record of that name, the package's if none has it."""
        found = self._records(self.folder, entry.set).get(entry.name)
        if found is not None:
            return self.folder, found
        return PACKAGE, self._records(PACKAGE, entry.set).get(entry.name)

    def put(self, record: Record, certificate: bytes | None = None) -> Record:
        """Keep what is better than what is there; each file is replaced whole, or not at all.

        Parameters
        ----------
        record : Record
            Checked by whoever gives it.
        certificate : bytes or None, default None
            The compressed certificate of its lower bound, where that is new.

        Returns
        -------
        Record
            What is known now.

        Raises
        ------
        OSError
            The folder cannot be written.
        FileFormatError
            The file there is damaged, or cannot be read.
        InvalidValueError
            Its bounds contradict those known.
        """
        entry = record.entry
        path = self._file(self.folder, entry.set)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.parent):
            # What another process has written since belongs to it.
            self._read.pop(path, None)
            known = self.record(entry)
            own = self.folder / "certificates" / f"{entry.name}.json.xz"
            if certificate is not None:
                record = replace(record, certificate=own)
            better = record if known is None else known.merged(record)
            if better.lower_bound > better.upper_bound:
                others = "each other" if known is None else str(known.interval)
                raise InvalidValueError(
                    entry.name, "bounds", record.interval, f"contradict {others}"
                )
            proof = certificate if better.certificate is own else None
            theirs = better.certificate
            if theirs is not None and theirs != own and theirs.exists():
                proof = theirs.read_bytes()
            if proof is not None:
                own.parent.mkdir(parents=True, exist_ok=True)
                # Before the record: a certificate that proves more than it says does no harm.
                write_atomically(own, proof)
                better = replace(better, certificate=own)
            self._write(path, entry, better)
        return better

    def _write(self, path: Path, entry: Named, record: Record) -> None:
        records = {**self._records(self.folder, entry.set), entry.name: _document(record)}
        lines = ",\n".join(
            f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}"
            for name, one in sorted(records.items())
        )
        head = json.dumps({"format": FORMAT, "version": VERSION, "set": entry.set})
        write_atomically(path, f'{head[:-1]}, "records": {{\n{lines}\n}}}}\n')

    def require_writable(self) -> None:
        """Refuse a folder that cannot be written, before anything is computed.

        Raises
        ------
        OSError
            It cannot.
        """
        for folder in (self.folder, self.folder / "records", self.folder / "certificates"):
            # A folder that is missing is made once there is something to put into it.
            there = next(one for one in (folder, *folder.absolute().parents) if one.exists())
            if not there.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(there))
            if not os.access(there, os.W_OK):
                reason = "cannot be written: records of your own need a folder (--records DIR)"
                raise PermissionError(errno.EACCES, reason, str(folder))

    @staticmethod
    def _file(folder: Path, set_name: str) -> Path:
        return folder / "records" / f"{set_name}.json"

    def _records(self, folder: Path, set_name: str) -> dict[str, Any]:
        path = self._file(folder, set_name)
        before = self._read.get(path)
        try:
            stamp = path.stat().st_mtime_ns
            if before is not None and before[0] == stamp:
                return before[1]
            content = read_bytes(path)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise FileFormatError(path, f"cannot be read: {error.strerror}") from error
        document = parse_json(content, path)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise FileFormatError(path, f"holds no records: its format is not {FORMAT!r}")
        if document.get("version") not in (1, VERSION) or document.get("set") != set_name:
            raise FileFormatError(path, f"is not of version {VERSION} and {set_name!r}")
        records = document.get("records")
        if not isinstance(records, dict) or not all(
            isinstance(one, dict) for one in records.values()
        ):
            raise FileFormatError(path, "'records' is no object of objects")
        self._read[path] = stamp, records
        return records

    def _record(self, entry: Named, found: Mapping[str, Any], folder: Path) -> Record:
        path = self._file(folder, entry.set)
        number: Callable[..., Bound] = as_number if entry.goal == "seconds" else as_integer

        def bound(field: str, maximum: Bound = LARGEST_INTEGER) -> Bound:
            return number(found[field], None, field, minimum=0, maximum=maximum)

        try:
            if "found" in found:
                # Version 1 credited schedule and bound apart.
                found = {**found, **max(found["found"], found["proved"], key=itemgetter("date"))}
            ((kind, rows),) = found["schedule"].items()
            if not isinstance(rows, list):
                raise TypeError("the schedule is no list")
            upper = bound("upper_bound")
            if upper == 0 and entry.goal != LATE:
                raise InvalidValueError(None, "upper_bound", upper, "is the cost of no schedule")
            texts = {name: as_name(found[name], None, name) for name in NAMES}
            is_certified = bool(found.get("certificate"))
            return Record(
                entry,
                upper,
                {str(kind): rows},
                bound("lower_bound", upper),
                certificate=self._certificate(entry.name, folder) if is_certified else None,
                attempts=as_integer(found.get("attempts", 0), None, "attempts", minimum=0),
                **texts,
            )
        except KeyError as error:
            raise FileFormatError(path, f"the record of {entry.name} lacks {error}") from error
        except (AttributeError, OSError, TypeError, ValueError) as error:
            raise FileFormatError(path, f"the record of {entry.name}: {error}") from error

    @staticmethod
    def _certificate(name: str, folder: Path) -> Path:
        """Return the certificate's path: beside the record, or in the package."""
        own, package = (one / "certificates" / f"{name}.json.xz" for one in (folder, PACKAGE))
        return own if own.exists() else package

    def require_certificates(self, entries: Iterable[Named]) -> None:
        """Check that certificates can be read where the package came without them.

        Raises
        ------
        MissingCertificatesError
            The package was installed from a wheel, and the folder does not have them all.
        """
        if (PACKAGE / "certificates").is_dir():
            return
        for entry in entries:
            with suppress(FileFormatError):
                record = self.record(entry)
                path = None if record is None else record.certificate
                if path is not None and not path.exists():
                    raise MissingCertificatesError(
                        f"the certificate of {entry.name} is not installed: the package comes "
                        "without certificates. Clone the repository, and verify there"
                    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes that write there, until done or dead."""
    import sqlite3

    # SQLite locks a file on every system, and the lock ends with the process.
    (folder / LOCK).touch()
    with closing(sqlite3.connect(folder / LOCK, timeout=LOCK_SECONDS)) as lock:
        while not lock.in_transaction:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
        yield


def _document(record: Record) -> dict[str, Any]:
    document: dict[str, Any] = {
        "digest": record.entry.digest,
        "upper_bound": record.upper_bound,
        "lower_bound": record.lower_bound,
        **{name: getattr(record, name) for name in NAMES},
        "certificate": record.certified,
    }
    if record.attempts:
        document["attempts"] = record.attempts
    return document | {"schedule": dict(record.rounds)}

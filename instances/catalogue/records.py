"""Records of the library's instances, in one file per set, and certificates of lower bounds.

The record of an instance has the best known schedule and the best lower bound that can be verified
without a solver.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from instances.batch_time.seconds_schedule import SecondsSchedule
from instances.errors import FileFormatError, InvalidValueError
from instances.files import check_head, parse_json, read_bytes, write_atomically
from instances.problem.preemptive_schedule import AnySchedule, PreemptiveSchedule
from instances.problem.schedule import Schedule
from instances.validation import LARGEST_INTEGER, as_integer, as_name, as_number

FORMAT = "llm-hindsight/library-records"
VERSION = 2
PACKAGE = Path(__file__).resolve().parent

LATE = "late_requests"
"""Goal of instances whose number of late requests is minimised. Only this optimum may be 0."""

MICROSECONDS = 10**6
"""Microseconds per second: bounds in seconds are shown rounded to microseconds."""

NAMES = ("proof", "date", "method", "version")
"""Entries of a record in its file that are text, in the order in which they are written."""

Bound: TypeAlias = int | float
"""Bound on an optimum: rounds, late requests, or seconds rounded away from the optimum."""


@dataclass(frozen=True, eq=False)
class Record:
    """Record of a library instance: the best known schedule, and bounds on the optimum.

    Attributes
    ----------
    entry : LibraryEntry
        The instance, with its goal.
    upper_bound : int or float
        Cost of ``schedule``, by the goal of the entry: total latency or makespan in rounds, total
        latency in seconds (rounded up), or number of late requests.
    rounds : Mapping[str, list]
        The schedule in the form in which the file stores it; see `rounds_of`.
    lower_bound : int or float
        Lower bound that is verified by the certificate or, without a certificate, by a formula.
    proof : str
        Kind of proof in the certificate, or name of the formula.
    date, method, version : str
        Day of the last improvement, such as 2026-11-22; the method that found it; and the version
        of this package that checked it.
    certificate : Path or None
        File with the compressed certificate. None if certificates do not exist for this goal, or if
        a formula proves the bound.
    attempts : int
        Number of attempts to improve the record.
    """

    entry: Any
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
    def status(self) -> Literal["open", "closed"]:
        """``"closed"`` if the lower bound equals the upper bound, otherwise ``"open"``."""
        return "closed" if self.lower_bound == self.upper_bound else "open"

    @property
    def certified(self) -> bool:
        """True if the lower bound has a certificate file."""
        return self.certificate is not None

    @property
    def gap(self) -> float:
        """(upper - lower) / upper, or (upper - lower) / n if late requests are counted."""
        whole = self.entry.n if self.entry.goal == LATE else self.upper_bound
        return (self.upper_bound - self.lower_bound) / whole

    @property
    def interval(self) -> str:
        """Both bounds as text, such as ``[12, 15]``; one number if they are equal.

        Bounds in seconds are rounded to microseconds, the lower one down and the upper one up.
        """
        if self.entry.goal != "seconds" and self.status == "closed":
            return f"{self.upper_bound}"
        if self.entry.goal != "seconds":
            return f"[{self.lower_bound}, {self.upper_bound}]"
        lower = math.floor(self.lower_bound * MICROSECONDS) / MICROSECONDS
        return f"[{lower:.6f}, {math.ceil(self.upper_bound * MICROSECONDS) / MICROSECONDS:.6f}]"

    @cached_property
    def schedule(self) -> AnySchedule | SecondsSchedule:
        """Best known schedule. Its feasibility and cost are checked in `hindsight.records` only.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            The file does not have a schedule of this instance.
        """
        return schedule_of(self.entry, self.rounds)

    def tried(self, attempts: int) -> Record:
        """Return a copy with the number of attempts to improve the record, at most 2**53."""
        return replace(self, attempts=min(attempts, LARGEST_INTEGER))

    def merged(self, other: Record) -> Record:
        """Combine two records of an instance: the better schedule and the better lower bound.

        Where both are equally good, those of this record stay. Date, method and version are those
        of the other record if it improves the schedule or the bound.
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
    """Convert a schedule to the form in which the file of records stores it.

    The starts of rounds in seconds are not stored: all rounds are as early as possible.
    """
    if isinstance(schedule, Schedule):
        return {"start_times": schedule.start_times.tolist()}
    if isinstance(schedule, PreemptiveSchedule):
        return {"stretches": [[list(one) for one in own] for own in schedule.stretches]}
    return {"stretches_in_seconds": schedule.stretches.tolist()}


def schedule_of(entry: Any, rounds: Mapping[str, list[Any]]) -> AnySchedule | SecondsSchedule:
    """Convert the form of `rounds_of` back to a schedule of the entry's instance.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        The data are not a schedule of the instance.
    FileFormatError
        The schedule is of another kind than the goal requires, such as a preemptive one.
    """
    ((kind, rows),) = rounds.items()
    expected, made = "start_times", cast(Any, Schedule)
    if entry.batch_time is not None:
        expected, made = "stretches_in_seconds", SecondsSchedule
    elif entry.goal == "preemptive_total_latency":
        expected, made = "stretches", PreemptiveSchedule
    if kind != expected:
        reason = f"{kind!r} is not a schedule for {entry.goal}"
        raise FileFormatError(f"record of {entry.name}", reason)
    return made(entry.instance, rows)  # type: ignore[no-any-return]


class RecordStore:
    """Folder with the records and certificates of library instances.

    Each file is read once, and again by `put`. If two processes write to one folder at the same
    time, records may be lost.

    Parameters
    ----------
    folder : str or os.PathLike or None, default None
        The folder; None means that of the installed package.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = PACKAGE if folder is None else Path(folder)
        self._read: dict[Path, dict[str, Any]] = {}

    def record(self, entry: Any) -> Record | None:
        """Return the record of an instance; None if there is none with the instance's digest.

        Raises
        ------
        FileFormatError
            The file is damaged or cannot be read, or the lower bound exceeds the upper bound.
        """
        found = self._records(entry.set).get(entry.name)
        if found is None or found.get("digest") != entry.digest:
            return None
        return self._record(entry, found)

    def stale(self, entry: Any) -> str | None:
        """Return the digest in an outdated record of the instance.

        A record is outdated if it has the name of the instance and another digest. Return None if
        it has the same digest, or if there is no record.
        """
        found = self._records(entry.set).get(entry.name)
        digest = entry.digest if found is None else found.get("digest")
        return None if digest == entry.digest else str(digest)

    def put(self, record: Record, certificate: bytes | None = None) -> Record:
        """Merge a record with the stored one, and write the result and its certificate.

        Parameters
        ----------
        record : Record
            The record, whose schedule and bounds have been checked.
        certificate : bytes or None, default None
            Compressed certificate of its lower bound; None if the bound has no new certificate.

        Returns
        -------
        Record
            The merged record, as stored.

        Raises
        ------
        OSError
            The folder cannot be written.
        FileFormatError
            The stored file is damaged or cannot be read.
        InvalidValueError
            The lower bound of one record exceeds the upper bound of the other.
        """
        entry = record.entry
        path, own = self._file(entry.set), self._certificate(entry.name)
        self._read.pop(path, None)
        known = self.record(entry)
        if certificate is not None:
            record = replace(record, certificate=own)
        better = record if known is None else known.merged(record)
        if better.lower_bound > better.upper_bound:
            others = "each other" if known is None else str(known.interval)
            raise InvalidValueError(entry.name, "bounds", record.interval, f"contradict {others}")
        if certificate is not None and better.lower_bound == record.lower_bound:
            own.parent.mkdir(parents=True, exist_ok=True)
            # Write the certificate before the record. If writing stops in between, the new
            # certificate proves a better bound than the old record states, which does no harm.
            write_atomically(own, certificate)
        path.parent.mkdir(parents=True, exist_ok=True)
        records = {**self._records(entry.set), entry.name: _document(better)}
        lines = ",\n".join(
            f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}"
            for name, one in sorted(records.items())
        )
        head = json.dumps({"format": FORMAT, "version": VERSION, "set": entry.set})
        write_atomically(path, f'{head[:-1]}, "records": {{\n{lines}\n}}}}\n')
        self._read.pop(path, None)
        return better

    def _file(self, set_name: str) -> Path:
        return self.folder / "records" / f"{set_name}.json"

    def _certificate(self, name: str) -> Path:
        return self.folder / "certificates" / f"{name}.json.xz"

    def _records(self, set_name: str) -> dict[str, Any]:
        path = self._file(set_name)
        if path in self._read:
            return self._read[path]
        try:
            document = parse_json(read_bytes(path), path)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise FileFormatError(path, f"cannot be read: {error.strerror}") from error
        check_head(document, {"format": FORMAT, "version": VERSION, "set": set_name}, path)
        records = document.get("records")
        if not isinstance(records, dict) or not all(
            isinstance(one, dict) for one in records.values()
        ):
            raise FileFormatError(path, "'records' is not an object of objects")
        return self._read.setdefault(path, records)

    def _record(self, entry: Any, found: Mapping[str, Any]) -> Record:
        number: Callable[..., Bound] = as_number if entry.goal == "seconds" else as_integer

        def bound(field: str, maximum: Bound = LARGEST_INTEGER) -> Bound:
            return number(found[field], None, field, minimum=0, maximum=maximum)

        try:
            ((kind, rows),) = found["schedule"].items()
            if not isinstance(rows, list):
                raise TypeError("the schedule is not a list")
            upper = bound("upper_bound")
            if upper == 0 and entry.goal != LATE:
                raise InvalidValueError(None, "upper_bound", upper, "is not the cost of a schedule")
            return Record(
                entry,
                upper,
                {str(kind): rows},
                bound("lower_bound", upper),
                certificate=self._certificate(entry.name) if found.get("certificate") else None,
                attempts=as_integer(found.get("attempts", 0), None, "attempts", minimum=0),
                **{name: as_name(found[name], None, name) for name in NAMES},
            )
        except KeyError as error:
            reason = f"the record of {entry.name} lacks {error}"
            raise FileFormatError(self._file(entry.set), reason) from error
        except (AttributeError, OSError, TypeError, ValueError) as error:
            reason = f"the record of {entry.name}: {error}"
            raise FileFormatError(self._file(entry.set), reason) from error


def _document(record: Record) -> dict[str, Any]:
    return {
        "digest": record.entry.digest,
        **{name: getattr(record, name) for name in ("upper_bound", "lower_bound", *NAMES)},
        "certificate": record.certified,
        **({"attempts": record.attempts} if record.attempts else {}),
        "schedule": dict(record.rounds),
    }

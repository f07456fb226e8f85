"""Records of the library's instances: a file for each set, a certificate for each bound.

A record has the best schedule, as the rounds in which requests run, and the best lower bound that
is verified without a solver.
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
"""The goal that may be 0."""

MICROSECONDS = 10**6
"""In a second: what bounds in seconds are shown in."""

NAMES = ("proof", "date", "method", "version")
"""Entries of a record that are texts."""

Bound: TypeAlias = int | float
"""Rounds, or seconds: rounded outward."""

RecordStatus = Literal["open", "closed"]


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
        Verified: by the certificate or, where there is none, computed again in closed form.
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
    def status(self) -> RecordStatus:
        """``"closed"`` where the verified bound meets the schedule."""
        return "closed" if self.lower_bound == self.upper_bound else "open"

    @property
    def certified(self) -> bool:
        """Return whether the lower bound has a certificate of its own."""
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
    return {"stretches_in_seconds": schedule.stretches.tolist()}


def schedule_of(entry: Any, rounds: Mapping[str, list[Any]]) -> AnySchedule | SecondsSchedule:
    """Read the schedule of an entry's instance that `rounds_of` wrote.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        It is none of the instance.
    FileFormatError
        It is not of the kind that the goal asks for.
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
    """Records and certificates in a folder.

    Files are read once, and again by `put`. Processes that write to one folder at once may lose the
    records of the other.

    Parameters
    ----------
    folder : str or os.PathLike or None, default None
        The folder; None is the package's own.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = PACKAGE if folder is None else Path(folder)
        self._read: dict[Path, dict[str, Any]] = {}

    def record(self, entry: Any) -> Record | None:
        """Read the record of an instance; a record with another digest does not count.

        Raises
        ------
        FileFormatError
            A file that is damaged, cannot be read, or has bounds that contradict its own schedule.
        """
        found = self._records(entry.set).get(entry.name)
        if found is None or found.get("digest") != entry.digest:
            return None
        return self._record(entry, found)

    def stale(self, entry: Any) -> str | None:
        """Return the digest in a record of that name for another instance, or None."""
        found = self._records(entry.set).get(entry.name)
        digest = entry.digest if found is None else found.get("digest")
        return None if digest == entry.digest else str(digest)

    def put(self, record: Record, certificate: bytes | None = None) -> Record:
        """Keep the better of the record and the stored one; each file is replaced whole.

        Parameters
        ----------
        record : Record
            A checked record.
        certificate : bytes or None, default None
            The compressed certificate of its lower bound, where that is new.

        Returns
        -------
        Record
            The stored record.

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
            # Before the record: a certificate that proves more than it says does no harm.
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
                raise InvalidValueError(None, "upper_bound", upper, "is the cost of no schedule")
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

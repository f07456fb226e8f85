"""Conditions of a measurement besides the paper: lengths, batch time and memory.

A paper's conversations are not freely available and its hardware is known in part, so each of the
three may be given from outside: lengths by a reader who has the data, and one of them changed in an
experiment that is to tell causes apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from instances import FileFormatError, InvalidValueError, UnknownNameError
from instances.batch_time import BatchTime, parse_batch_time
from instances.validation import as_integer

from .length_file import UNITS, LengthFile, Unit
from .lengths import LAWS, LawName, Source

DataSet = Literal["lmsys", "arxiv"]
DATA_SETS: dict[DataSet, tuple[Unit, ...]] = {"lmsys": UNITS, "arxiv": ("tokens",)}
"""LMSYS-Chat-1M and the arXiv summaries, with the units that their papers count in."""

SYNTHETIC = "synthetic"
"""What a record says where lengths are drawn from laws."""

Varied = Literal["lengths", "batch-time", "memory"]
VARIED: tuple[Varied, ...] = get_args(Varied)


@dataclass(frozen=True)
class Conditions:
    """Conditions set by the caller; None leaves the measurement its own.

    Attributes
    ----------
    lmsys, arxiv : LengthFile or None
        A reader's lengths of that data set.
    law : LawName or None
        Of the conversations, where there is no file.
    batch_time : str or None
        As `instances.batch_time.parse_batch_time` reads it.
    memory : int or None
        M, in tokens.
    """

    lmsys: LengthFile | None = None
    arxiv: LengthFile | None = None
    law: LawName | None = None
    batch_time: str | None = None
    memory: int | None = None

    def conversations(self, own: LawName) -> Source:
        """Return the source of conversations: the file, the requested law, or ``own``."""
        return self.lmsys or self.law or own

    def conversations_told(self, own: str) -> str:
        """The same in words: ``own`` for the law that the measurement takes by itself."""
        if self.lmsys is not None:
            return "lengths of a reader's file"
        return own if self.law is None else f"synthetic lengths of the law {self.law}"

    def summaries(self) -> Source:
        """Return the source of summaries."""
        return self.arxiv or "summaries"

    def seconds(self, own: BatchTime) -> BatchTime:
        """Return the batch time that was requested, or ``own``."""
        return own if self.batch_time is None else parse_batch_time(self.batch_time)[0]

    def memory_limit(self, own: int) -> int:
        """M: as asked for, or ``own``."""
        return own if self.memory is None else self.memory

    @property
    def change(self) -> str:
        """Describe what is varied, as on the command line; empty if nothing is."""
        found = {"lengths": self.law, "batch-time": self.batch_time, "memory": self.memory}
        return " ".join(f"{what}={value}" for what, value in found.items() if value is not None)

    def file(self, data_set: DataSet) -> LengthFile | None:
        """The reader's lengths of a data set."""
        return self.lmsys if data_set == "lmsys" else self.arxiv

    def used(self, data_sets: Iterable[DataSet]) -> dict[str, str]:
        """Describe the lengths used for each data set, in words that a record may store."""
        return {name: str(self.file(name) or SYNTHETIC) for name in data_sets}

    def check_size(self, needed: Mapping[DataSet, int]) -> None:
        """Refuse files that hold fewer requests than a measurement takes.

        Raises
        ------
        FileFormatError
            One does.
        """
        for name, count in needed.items():
            known = self.file(name)
            if known is not None and known.rows < count:
                reason = f"holds {known.rows:,} requests, and {count:,} are needed"
                raise FileFormatError(known.path, reason)

    def with_lengths(self, data_set: str, known: LengthFile) -> Conditions:
        """The same, with a reader's lengths.

        Raises
        ------
        UnknownNameError
            No such data set.
        FileFormatError
            It counts what the papers do not count there.
        """
        for name, units in DATA_SETS.items():
            if name == data_set:
                if known.unit not in units:
                    reason = f"counts {known.unit}, and lengths of {name} are in {units[0]}"
                    raise FileFormatError(known.path, reason)
                return replace(self, lmsys=known) if name == "lmsys" else replace(self, arxiv=known)
        raise UnknownNameError("data set of lengths", data_set, list(DATA_SETS))

    def varied(self, what: str, value: str) -> Conditions:
        """The same, with one of `VARIED` changed.

        Raises
        ------
        UnknownNameError, InvalidValueError
            It is none of them, or the value is not one for it.
        """
        if what == "lengths":
            for law in LAWS:
                if law == value:
                    return replace(self, law=law)
            raise UnknownNameError("law of lengths", value, list(LAWS))
        if what == "batch-time":
            parse_batch_time(value)
            return replace(self, batch_time=value)
        if what == "memory":
            if not value.isdecimal():
                raise InvalidValueError(None, "memory", value, "is not a number of tokens")
            return replace(self, memory=as_integer(int(value), None, "memory", minimum=1))
        raise UnknownNameError("condition", what, list(VARIED))


OWN = Conditions()
"""Nothing given: what a measurement takes by itself."""

"""Declaration of a trace format, and the lookup of cells in its records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from instances.errors import InvalidTypeError, InvalidValueError

from .row import (
    FAILED,
    SECONDS,
    WARM_UP,
    BadRow,
    Cells,
    Clock,
    Measured,
    as_blocks,
    as_duration,
    named_unit,
)
from .streams import JsonStream

ABSENT = object()

PHASES = ("phase", "benchmark_phase", "credit_phase", "is_warmup", "warmup", "is_warm_up")
"""Keys, at the top of a record or in its metadata, that say whether it is of a warm-up."""

Container = Literal["csv", "json", "document"]


@dataclass(frozen=True)
class TraceFormat:
    """Description of where a format stores arrival, prompt and output.

    Attributes
    ----------
    name : str
        What ``format=`` calls it.
    source : str
        The dataset or the tool it is from.
    container : Literal[csv, json, document] or None
        ``"csv"`` with a header line; ``"json"``, objects that are lines or items of one list;
        ``"document"``, requests inside a larger object; None is told from the file.
    time, prompt, output : str or None, str, str
        The columns or keys that are read; others are passed over. No ``time``: lengths only.
    unit : str or None
        Unit of ``time``, as in `Clock`.
    time_is_optional : bool
        Whether files without ``time`` are of this format too.
    marks : tuple[str, ...]
        Keys by which a tool's log is told; datasets are told by the columns that are read.
    names : Mapping[str, tuple[str, ...]]
        Where a column may be, looked up in turn; others are only where their name says.
    requests : Callable[[JsonStream], Iterator[Any]] or None
        The records below the key ``marks[0]`` of a document; None for one that has failed.
    among : Callable[[Iterator[tuple[int, Any]]], Iterator[tuple[int, Any]]] or None
        From all numbered records of a document to those that may be requests.
    request : Callable[[dict[str, Any]], dict[str, Any] or Cells or None] or None
        From a record to the one whose columns are read, or the cells of one that is left out; None
        for a record that is no request.
    has_failed : Callable[[dict[str, Any]], Any] or None
        Whether a record's request failed or was broken off.
    measured : Callable[[dict[str, Any]], Measured] or None
        What the log measured of a record's request.
    further : tuple[str, ...]
        Columns that ``has_failed`` and ``measured`` read in a table.
    worker : str or None
        The column that names the replica which served a request.
    blocks : Callable[[dict[str, Any]], tuple[Any, Any]] or None
        The tokens of a block and the hashes of the blocks of a record's prompt.
    records : tuple[str, ...]
        Keys inside one another below which the list of requests is, where the user says so.
    note : str or None
        What was assumed of the columns.
    is_in_order : bool
        Whether rows promise to be in order of time; others are sorted unless told otherwise.
    """

    name: str
    source: str
    container: Container | None
    time: str | None
    prompt: str
    output: str
    unit: str | None = SECONDS
    time_is_optional: bool = False
    marks: tuple[str, ...] = ()
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    requests: Callable[[JsonStream], Iterator[Any]] | None = None
    among: Callable[[Iterator[tuple[int, Any]]], Iterator[tuple[int, Any]]] | None = None
    request: Callable[[dict[str, Any]], dict[str, Any] | Cells | None] | None = None
    has_failed: Callable[[dict[str, Any]], Any] | None = None
    measured: Callable[[dict[str, Any]], Measured] | None = None
    further: tuple[str, ...] = ()
    worker: str | None = None
    blocks: Callable[[dict[str, Any]], tuple[Any, Any]] | None = None
    records: tuple[str, ...] = ()
    note: str | None = None
    is_in_order: bool = False

    def new_clock(self) -> Clock:
        """Return a clock that reads the cells of ``time`` of one file."""
        return Clock(self.unit, named_unit(self.time or "") or SECONDS)

    @property
    def is_log(self) -> bool:
        """True for logs of a tool, which may not know the output of a request."""
        return bool(self.marks)

    @property
    def required(self) -> tuple[str, ...]:
        """Columns no file of this format is without."""
        if self.marks:
            return self.marks
        if self.time_is_optional:
            return self.prompt, self.output
        return self.read

    @property
    def read(self) -> tuple[str, ...]:
        """Columns that are read where they are there."""
        time = () if self.time is None else (self.time,)
        return (*time, *self.further, self.prompt, self.output)

    def cells(self, record: dict[str, Any]) -> Cells | BadRow | None:
        """The cells of a record, or why they cannot be read; None if it is no request."""
        try:
            found = record if self.request is None else self.request(record)
            if found is None or isinstance(found, Cells):
                return found
            if is_warm_up(record):
                return Cells(left_out=WARM_UP)
            if self.has_failed is not None and self.has_failed(found):
                return FAILED
            measured = None if self.measured is None else self.measured(found)
        except (InvalidTypeError, InvalidValueError) as error:
            return BadRow(f"{error.field} {error.reason}", str(error))
        if measured is not None and all(value is None for value in measured):
            measured = None
        time, prompt, output, worker = (
            None if one is None else lookup(found, *self.names.get(one, (one,)))
            for one in (self.time, self.prompt, self.output, self.worker)
        )
        blocks = None if self.blocks is None else as_blocks(*self.blocks(found))
        return Cells(time, prompt, output, measured, worker=worker, blocks=blocks)


def lookup(record: Any, *names: str, missing: Any = None) -> Any:
    """Look up the first of these keys that an object has.

    Parameters
    ----------
    record : Any
        A JSON object.
    *names : str
        Keys, or keys inside one another, joined by dots; a dot of a key itself has a backslash
        before it, unless the whole name is a key.
    missing : Any, default None
        What is returned where none is there.
    """
    for name in names:
        if isinstance(record, dict) and name in record:
            return record[name]
        found = record
        for key in path_of(name):
            if not isinstance(found, dict) or key not in found:
                break
            found = found[key]
        else:
            return found
    return missing


@lru_cache(maxsize=256)
def path_of(name: str) -> tuple[str, ...]:
    """Split a path at its dots; a dot after a backslash belongs to a key."""
    return tuple(key.replace("\\.", ".") for key in re.split(r"(?<!\\)\.", name))


def is_warm_up(record: Mapping[str, Any]) -> bool:
    """Return True if a record says that its request was sent to warm the server up, or to cool it.

    Benchmarks measure none of these, and their requests were not sent at the benchmark's times.
    """
    metadata = record.get("metadata")
    for one in (record, metadata if isinstance(metadata, dict) else {}):
        for key in PHASES:
            if key in one:
                value = re.sub("[^a-z0-9]", "", str(one[key]).lower())
                if value.startswith(("warm", "cooldown")) or (
                    "warm" in key and value in ("true", "1", "yes")
                ):
                    return True
    return False


def durations(**columns: tuple[str, float]) -> Callable[[dict[str, Any]], Measured]:
    """Read measurements from columns.

    Parameters
    ----------
    **columns : tuple[str, float]
        By the fields of `Measured`: where each is, as in `lookup`, and its unit in seconds.
    """

    def measured(record: dict[str, Any]) -> Measured:
        found: dict[str, Any] = {name: duration(record, *at) for name, at in columns.items()}
        return Measured(**found)

    return measured


def duration(record: Any, name: str, seconds: float = 1.0) -> float | None:
    """A time that was measured, in seconds; None where the record does not have it.

    Parameters
    ----------
    record, name : Any, str
        As in `lookup`.
    seconds : float, default 1.0
        Seconds in the unit that it is in.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        No number, or a negative one.
    """
    value = lookup(record, name)
    return None if value is None else as_duration(value, name) * seconds

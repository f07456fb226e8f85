"""Formats of logs, from ``formats.toml`` or from a user's columns, and how they are detected."""

from __future__ import annotations

import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from instances.errors import FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError
from instances.settings import quoted
from instances.validation import as_choice

from .cells import DATES, DIGITS_OF, SECONDS, column
from .tools import FAILED

WARM_UP, WITHOUT_OUTPUT = "warm-up", "without output length"

_TABLE = tomllib.loads((resources.files(__package__) / "formats.toml").read_text("utf-8"))
_OUTCOMES = _TABLE.pop("outcomes")
_UNIT_OF_WORD = {word: unit for unit, words in _TABLE.pop("units").items() for word in words}
_UNIT_OF_SUFFIX = {"date": DATES, **dict(zip(("s", "ms", "us", "ns"), DIGITS_OF, strict=True))}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

MOST_TRIED = 100
"""Number of records used to detect the format. One would not do: first requests may have failed."""

LONGEST_LIST = 1000
"""Largest number of characters of a file's list of columns in an error message."""

LONGEST_NAME = 80
"""Longest text that can be the name of a column. A longer text may be a prompt."""

DEEPEST_LISTED = 4
"""Largest number of levels of nested JSON keys that an error message lists as columns."""

DURATIONS = {
    "latency": "latencies",
    "time_to_first_token": "times_to_first_token",
    "inter_token_time": "mean_inter_token_times",
}
"""Roles of columns of durations, with the attribute of `RequestLog` for each."""

STAMPS = {"end": "latency", "first_token": "time_to_first_token"}
"""Roles of timestamp columns, each with the role of the duration from the arrival to it."""

ROLES = (
    *("arrival", "arrival_ms", "arrival_us", "arrival_ns", "prompt", "output", *DURATIONS),
    *(*(f"{one}_ms" for one in DURATIONS), *STAMPS, "error", "phase", "worker"),
)
"""Roles that the user can give columns, as keys of the argument ``columns`` of `read_log`."""


class Format(NamedTuple):
    """Format of a tool's log or of a dataset: the names of its columns, by role, and their units.

    The file ``formats.toml`` lists the formats and explains its fields.

    Attributes
    ----------
    name : str
        Value of the argument ``format`` of `read_log` for this format.
    columns : Mapping[str, tuple[str, ...]]
        For each role, such as ``"prompt"``, alternative names of its column. The first name that
        has a value in a record counts.
    units : Mapping[str, str]
        Unit of the column of each role, if the format defines it. That of ``arrival`` is a unit for
        `cells.as_times`. Without a unit here, durations are in seconds, and the unit of arrivals is
        detected.
    marks : tuple[str, ...]
        Columns that identify the log of a known tool. If there are none, a file of this format must
        have all columns that are read.
    document : bool
        Whether a file is one JSON value that holds many requests.
    optional_arrival : bool
        Whether the column of arrivals may be missing.
    block_size : int
        Tokens per block for which the log has hashes, unless it has a column ``block_size``.
    settings : tuple[str, ...]
        Names of the engine's settings that are read from the file.
    note : str or None
        Assumptions made about units, as a sentence for the user.
    """

    name: str
    columns: Mapping[str, tuple[str, ...]]
    units: Mapping[str, str]
    marks: tuple[str, ...] = ()
    document: bool = False
    optional_arrival: bool = False
    block_size: int = 0
    settings: tuple[str, ...] = ()
    note: str | None = None

    def seconds(self, role: str) -> float:
        """Return the unit of the column with this role, a duration, in seconds: 0.001 for ms."""
        return float(10 ** -DIGITS_OF[self.units.get(role, SECONDS)])

    def missing(self, records: Sequence[dict[str, Any]]) -> list[str]:
        """Return the names of columns that this format requires but that no record has."""
        optional = {"hashes", *["arrival"] * self.optional_arrival}
        columns = [one for role, one in self.columns.items() if role not in optional]
        required = self.marks or [name for names in columns for name in names]
        found = {one: column(records, *one.split("|")) for one in required}
        return [one for one, values in found.items() if all(value is None for value in values)]

    def reasons(self, records: Sequence[Any]) -> Iterator[tuple[str, list[bool]]]:
        """Yield reasons to leave requests out, each with a mask of the records that it applies to.

        Requests of a warm-up or cool-down phase are left out, as benchmarks do. So are requests
        that failed, by the columns with role "error": an error text, an HTTP status, or whether the
        request succeeded. In a format with ``marks``, the log of a known tool, rows without an
        output length are left out too. In other formats such a row cannot be read.
        """
        phases = column(records, *self.columns.get("phase", ()))
        yield WARM_UP, [str(one).lower().startswith(("warm", "cool")) for one in phases]
        for name in self.columns.get("error", ()):
            texts = [str(one).strip().lower() for one in column(records, name)]
            meanings = {one: _is_error(one, name) for one in {*texts}}
            yield FAILED, [meanings[text] for text in texts]
        if self.marks:
            outputs = column(records, *self.columns["output"])
            yield WITHOUT_OUTPUT, [one is None for one in outputs]


def _is_error(value: str, column: str) -> bool:
    if {*_words(column)} & {"success", "successful", "succeeded", "ok"}:
        return value in _OUTCOMES["no_success"]
    status = re.match(r"(\d{3})(\.0)?\b", value)
    return value not in _OUTCOMES["no_error"] and not (status and 200 <= int(status[1]) < 400)


def _words(column: str) -> list[str]:
    """Split the name of a column into lower-case words: ``startTime`` into ``start``, ``time``."""
    return [word.lower() for word in _WORD.findall(column)]


def _named_unit(column: str) -> str | None:
    """Return the unit of time at the end of the name of a column, such as "Wait (us)", or None."""
    words = _words(column.replace("\u00b5", "u").replace("\u03bc", "u"))
    return _UNIT_OF_WORD.get(words[-1]) if words else None


def made(name: str, columns: Mapping[str, Any], **more: Any) -> Format:
    """Make a format from the names of columns by role; ``more`` are other fields of `Format`.

    A role may end with the unit of its column, as in ``arrival_date`` or ``latency_ms``. Else the
    name of a column of arrivals or durations may state the unit.
    """
    found, units, notes = dict[str, tuple[str, ...]](), dict[str, str](), list[str]()
    for role, names in columns.items():
        start, _, suffix = role.rpartition("_")
        unit, own = _UNIT_OF_SUFFIX.get(suffix), start if suffix in _UNIT_OF_SUFFIX else role
        if own in found:
            reason = f"names two columns of {own.replace('_', ' ')}"
            raise InvalidValueError(None, "columns", dict(columns), reason)
        found[own] = (names,) if isinstance(names, str) else tuple(names)
        if role in ("arrival", *DURATIONS) and (unit := _named_unit(found[own][0])):
            notes += [f"{names!r} is in {unit}, as its name says"] * (unit != SECONDS)
        units |= {own: unit} if unit else {}
    return Format(name, found, units, note="; ".join(notes) or None, **more)


def wanted_format(name: Any, columns: Any, bad_rows: Any) -> Format | None:
    """Return the format that the caller asks for by name or by columns; None to detect it.

    If ``columns`` has the role ``"worker"`` only, the format is detected too.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        The format's name is unknown, ``columns`` lacks a role or has an unknown one, both arguments
        are given, or ``bad_rows`` is neither "refuse" nor "skip".
    """
    as_choice(bad_rows, None, "bad_rows", ("refuse", "skip"))
    named = None if columns is None else _named(columns)
    if name is None:
        return named
    if named is not None:
        raise InvalidValueError(None, "format", name, "is given with columns: give one")
    if name not in [*FORMATS]:
        raise UnknownNameError("trace format", name, sorted(FORMATS))
    return FORMATS[name]


def _named(columns: Any) -> Format | None:
    """Make a format from the columns that the user names by role.

    Return None if the only role is ``"worker"``: it is added to the detected format.
    """
    if not isinstance(columns, Mapping):
        raise InvalidTypeError(None, "columns", columns, "is not a mapping")
    roles: dict[str, Any] = {str(role).replace("-", "_"): name for role, name in columns.items()}
    for role, name in roles.items():
        if role not in ROLES:
            raise UnknownNameError("column role", role, list(ROLES))
        if not isinstance(name, str):
            raise InvalidTypeError("columns", role, name, "is not the name of a column")
    if {*roles} == {"worker"}:
        return None
    kind = made("columns", roles)
    for role in ("prompt", "output", *["arrival"] * bool({*roles} & {*STAMPS})):
        if role not in kind.columns:
            reason = f"does not say which column holds {role}s"
            raise InvalidValueError(None, "columns", roles, reason)
    return kind


FORMATS = {name: made(name, **fields) for name, fields in _TABLE.items()}
ENGINE_SETTINGS = frozenset(name for one in FORMATS.values() for name in one.settings)
"""Names of the settings of vLLM and SGLang that affect scheduling and are read from logs."""


def format_of(
    path: object, wanted: Format | None, header: Sequence[str], chunk: Any, worker: str | None
) -> Format:
    """Choose the format of a log file, and check that the file has the format's columns.

    Parameters
    ----------
    path : object
        Name of the file in error messages.
    wanted : Format or None
        The format that the user asks for; None detects it.
    header : sequence of str
        Names of the columns of a table; empty for JSON.
    chunk : tuple[Sequence[int], list]
        The first records: their line numbers, or positions in a JSON list, and the records.
    worker : str or None
        The user's choice of a column with role ``"worker"``, which is added to any format.

    Raises
    ------
    FileFormatError
        No format fits, several fit, a column is missing, or two columns have one name. The message
        suggests what to type.
    """
    numbers, tried = chunk
    records = [one for one in tried[:MOST_TRIED] if isinstance(one, dict)]
    if header:
        records.insert(0, dict.fromkeys(header, ""))
    elif tried and not records:
        raise FileFormatError(path, tried[0].message, row=numbers[0])
    kind = wanted or _detected(path, [one for one in records if one])
    if worker is not None:
        kind = kind._replace(columns={**kind.columns, "worker": (worker,)})
    for mark in kind.missing(records):
        raise _unknown(path, records, f"column {mark!r} is missing")
    for name in {name for names in kind.columns.values() for name in names}:
        if header.count(name) > 1:
            raise FileFormatError(path, f"column {name!r} is there twice")
    return kind


def _detected(path: object, records: Sequence[dict[str, Any]]) -> Format:
    """Return the only format that fits the columns of the records.

    Raise an error if no format fits, or if several fit.
    """
    if not records:
        raise FileFormatError(path, "has no record with fields")
    found = [kind for kind in FORMATS.values() if not all(kind.missing([one]) for one in records)]
    most = max((len(one.marks) for one in found), default=0)
    found = [one for one in found if len(one.marks) == most]
    if len(found) == 1:
        return found[0]
    several = f"fits several formats: give {' or '.join(f'format={one.name}' for one in found)}"
    raise _unknown(path, records, several if found else "fits no format")


def _unknown(path: object, records: Sequence[dict[str, Any]], why: str) -> FileFormatError:
    """Make the error for a file of unknown format.

    Its message has the reason, the columns in a form that the user can type, and the text to type
    as a source of requests: ``trace:FILE(role=column, ...)``.
    """
    seen = [*dict.fromkeys(one for record in records for one in _paths(record))]
    if any(len(one) > LONGEST_NAME or one.replace(".", "").isdigit() for one in seen):
        reason = "has no header line with the names of columns; a server's own log has no requests"
        return FileFormatError(path, f"{reason}: give the result of a benchmark, or a recording")
    listed = textwrap.shorten(", ".join(map(quoted, seen)), LONGEST_LIST, placeholder="...")
    line = shlex.quote(f"trace:{path}(arrival=NAME, prompt=NAME, output=NAME)")
    reason = f"{why}; its columns are {listed or 'none'}; type {line}, with a column for each NAME"
    return FileFormatError(path, reason)


def _paths(record: Mapping[str, Any], before: str = "", depth: int = 1) -> Iterator[str]:
    """Yield the path of each value of a nested record, such as ``usage.prompt_tokens``."""
    for key, value in record.items():
        path = before + str(key).replace(".", "\\." if before or isinstance(value, dict) else ".")
        if isinstance(value, dict) and value and depth < DEEPEST_LISTED:
            yield from _paths(value, f"{path}.", depth + 1)
        else:
            yield path

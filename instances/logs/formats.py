"""Formats of traces and logs: those of ``formats.toml``, and formats made of a user's columns."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, Literal, NamedTuple, get_args

from instances.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from instances.validation import as_choice

from .cells import DATES, DIGITS_OF, MILLISECONDS, SECONDS
from .paths import column, name_words, named_unit
from .tools import ROWS, Row

OnBadRows = Literal["refuse", "skip"]

ARRIVALS = {
    "arrival": None,
    "arrival_ms": MILLISECONDS,
    "arrival_us": "microseconds",
    "arrival_ns": "nanoseconds",
    "arrival_s": SECONDS,
    "arrival_date": DATES,
}
"""Roles of a column of arrival times, with the unit; None: detected from its name or cells."""

DURATIONS = {
    "latency": "latencies",
    "time_to_first_token": "times_to_first_token",
    "inter_token_time": "mean_inter_token_times",
}
"""Roles of columns of durations, with the attribute of `RequestLog` for each. Units: seconds, the
unit in the name of the column, or milliseconds if the role ends with ``_ms``."""

STAMPS = {"end": "latency", "first_token": "time_to_first_token"}
"""Roles of columns of points in time, with the role of the duration from arrival to then."""

ROLES = (
    *([*ARRIVALS][:4]),
    *("prompt", "output", *DURATIONS, *(f"{one}_ms" for one in DURATIONS)),
    *(*STAMPS, "error", "worker"),
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
        For each role, such as ``"prompt"``, alternative names of its column: the first name with a
        value counts.
    unit : str or None
        Unit of ``arrival``, as in `cells.as_times`.
    seconds : Mapping[str, float]
        For each role of a duration, the length of its unit in seconds.
    marks : tuple[str, ...]
        Columns that identify a tool's log. Without marks, a file must have all columns that are
        read.
    document : bool
        Whether a file is one JSON value that holds many requests.
    optional_arrival : bool
        Whether the column of arrivals may be missing.
    block_size : int
        Tokens per block for which the log has hashes, unless it has a column ``block_size``.
    settings : tuple[str, ...]
        Names of the engine's settings that are read from the file.
    rows : Callable[[dict[str, Any]], Iterable[Row]] or None
        Function from a record to its requests; None if every record is a request.
    note : str or None
        Assumptions made about units, as a sentence for the user.
    """

    name: str
    columns: Mapping[str, tuple[str, ...]]
    unit: str | None
    seconds: Mapping[str, float]
    marks: tuple[str, ...] = ()
    document: bool = False
    optional_arrival: bool = False
    block_size: int = 0
    settings: tuple[str, ...] = ()
    rows: Callable[[dict[str, Any]], Iterable[Row]] | None = None
    note: str | None = None

    def name_of(self, role: str) -> str:
        """Return the column's name for a role, for error messages; without one the role itself."""
        return next(iter(self.columns.get(role, ())), role)

    def missing(self, records: Sequence[dict[str, Any]]) -> list[str]:
        """Return the names of columns that this format requires but that no record has."""
        optional = {"hashes", *["arrival"] * self.optional_arrival}
        columns = [one for role, one in self.columns.items() if role not in optional]
        required = self.marks or [name for names in columns for name in names]
        found = {one: column(records, *one.split("|")) for one in required}
        return [one for one, values in found.items() if all(value is None for value in values)]

    def failed(self, records: Sequence[dict[str, Any]]) -> list[bool]:
        """Return for each record whether its request failed, by the columns with role "error".

        Such a column holds errors, HTTP statuses, or successes.
        """
        found = [False] * len(records)
        for name in self.columns.get("error", ()):
            texts = [str(one).strip().lower() for one in column(records, name)]
            meanings = {one: _is_error(one, name) for one in {*texts}}
            found = [one or meanings[text] for one, text in zip(found, texts, strict=True)]
        return found

    def without_output(self, records: Sequence[dict[str, Any]]) -> list[bool]:
        """Return for each record of a tool's log whether its output length is missing.

        Return an empty list for a dataset, where a missing output length is an error.
        """
        found = column(records, *self.columns["output"]) if self.marks else []
        return [one is None for one in found]


def _is_error(value: str, column: str) -> bool:
    if {*name_words(column)} & {"success", "successful", "succeeded", "ok"}:
        return value in _OUTCOMES["no_success"]
    status = re.match(r"(\d{3})(\.0)?\b", value)
    return value not in _OUTCOMES["no_error"] and not (status and 200 <= int(status[1]) < 400)


def made(name: str, roles: Mapping[str, Any], **more: Any) -> Format:
    """Make a format from the names of columns by role; ``more`` are other fields of `Format`."""
    columns: dict[str, tuple[str, ...]] = {}
    seconds: dict[str, float] = {}
    unit, notes = None, []
    for role, names in roles.items():
        own = "arrival" if role in ARRIVALS else role.removesuffix("_ms")
        if own in columns:
            reason = f"names two columns of {own.replace('_', ' ')}"
            raise InvalidValueError(None, "columns", dict(roles), reason)
        columns[own] = (names,) if isinstance(names, str) else tuple(names)
        if role in ARRIVALS:
            unit = ARRIVALS[role]
            continue
        of_name = MILLISECONDS if role != own else SECONDS
        if name == "columns" and role in DURATIONS:
            of_name = named_unit(names) or SECONDS
            notes += [f"{names!r} is in {of_name}, as its name says"] * (of_name != SECONDS)
        seconds[own] = float(10 ** -DIGITS_OF[of_name])
    return Format(name, columns, unit, seconds, note="; ".join(notes) or None, **more)


def wanted_format(format: Any, columns: Any, bad_rows: Any) -> Format | None:  # noqa: A002
    """Return the format that the caller asks for by name or by columns; None to detect it.

    If ``columns`` has the role ``"worker"`` only, the format is detected too.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        The format's name is unknown, ``columns`` lacks a role or has an unknown one, both arguments
        are given, or ``bad_rows`` is neither "refuse" nor "skip".
    """
    as_choice(bad_rows, None, "bad_rows", get_args(OnBadRows))
    named = None if columns is None else _named(columns)
    if named is not None and format is not None:
        raise InvalidValueError(None, "format", format, "is given with columns: give one")
    if format is None:
        return named
    if format not in [*FORMATS]:
        raise UnknownNameError("trace format", format, sorted(FORMATS))
    return FORMATS[format]


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
        if role in STAMPS and not {*roles} & {*ARRIVALS}:
            raise InvalidValueError("columns", role, name, "needs a column of arrivals")
    if {*roles} == {"worker"}:
        return None
    for role in ("prompt", "output"):
        if role not in roles:
            reason = f"does not say which column holds {role}s"
            raise InvalidValueError(None, "columns", roles, reason)
    return made("columns", roles)


_TABLE = tomllib.loads((resources.files(__package__) / "formats.toml").read_text("utf-8"))
_OUTCOMES = _TABLE.pop("outcomes")

FORMATS: dict[str, Format] = {
    name: made(name, one.pop("columns"), rows=ROWS.get(name), **one) for name, one in _TABLE.items()
}
ENGINE_SETTINGS = frozenset(name for one in FORMATS.values() for name in one.settings)
"""Names of the settings of vLLM and SGLang that affect scheduling and are read from logs."""

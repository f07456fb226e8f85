"""Formats of traces and logs: what ``formats.toml`` says of each, and columns named by the user."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import resources
from typing import Any, Literal, NamedTuple, get_args

from instances.errors import InvalidTypeError, InvalidValueError, UnknownNameError

from .cells import DATES, DIGITS_OF, MILLISECONDS, SECONDS, Clock
from .paths import ABSENT, inside, lookup, name_words, named_unit, path_of
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
"""Units by the role of a column of arrivals; None means the unit of its name or its cells."""

DURATIONS = ("latency", "time_to_first_token", "inter_token_time")
"""Roles of columns in seconds or in the unit that their name has, or with ``_ms`` at their end."""

STAMPS = {"end": "latency", "first_token": "time_to_first_token"}
"""Roles of columns with a time of day, and the duration that ends then."""

ROLES = (
    *([*ARRIVALS][:4]),
    *("prompt", "output", *DURATIONS, *(f"{one}_ms" for one in DURATIONS)),
    *(*STAMPS, "error", "worker", "requests"),
)
"""What the user can say of columns."""


class Format(NamedTuple):
    """Description of what a tool or a dataset writes where, as ``formats.toml`` explains it.

    Attributes
    ----------
    name : str
        Its name in ``format=``.
    columns : Mapping[str, tuple[str, ...]]
        Columns by what they hold, looked up in turn.
    unit : str or None
        Unit of ``arrival``, as in `Clock`.
    seconds : Mapping[str, float]
        Seconds in the unit of a duration.
    marks : tuple[str, ...]
        Columns that identify a tool's log; those that are read identify a dataset.
    document, optional_arrival, block_size, settings : bool, bool, int or str, tuple[str, ...]
        As in the table.
    rows : Callable[[dict[str, Any]], Iterable[Row]] or None
        From a record to its requests.
    note : str or None
        Assumptions about the columns.
    """

    name: str
    columns: Mapping[str, tuple[str, ...]]
    unit: str | None
    seconds: Mapping[str, float]
    marks: tuple[str, ...] = ()
    document: bool = False
    optional_arrival: bool = False
    block_size: int | str = 0
    settings: tuple[str, ...] = ()
    rows: Callable[[dict[str, Any]], Iterable[Row]] | None = None
    note: str | None = None

    def name_of(self, role: str) -> str:
        """The column of a role, as errors call it."""
        return next(iter(self.columns.get(role, ())), role)

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that no file of this format is without."""
        optional = {"hashes", *["arrival"] * self.optional_arrival}
        return self.marks or tuple(
            name for role, names in self.columns.items() if role not in optional for name in names
        )

    def missing(self, records: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the required columns that none of the records has."""

        def is_there(mark: str) -> bool:
            names = mark.split("|")
            return any(lookup(one, *names, missing=ABSENT) is not ABSENT for one in records)

        return [mark for mark in self.required if not is_there(mark)]

    def has_failed(self, row: Mapping[str, Any]) -> bool:
        """Return whether a column of errors or successes says that the request failed."""
        return any(_is_error(lookup(row, one), one) for one in self.columns.get("error", ()))

    def clock(self) -> Clock:
        """Return a clock that reads the arrivals of one file."""
        return Clock(self.unit, named_unit(self.name_of("arrival")) or SECONDS)


def _is_error(cell: Any, column: str) -> bool:
    value = str(cell).strip().lower()
    if {*name_words(column)} & {"success", "successful", "succeeded", "ok"}:
        return value in _OUTCOMES["no_success"]
    status = re.match(r"(\d{3})(\.0)?\b", value)
    return value not in _OUTCOMES["no_error"] and not (status and 200 <= int(status[1]) < 400)


def made(name: str, roles: Mapping[str, Any], **more: Any) -> Format:
    """Make a format of columns by their roles."""
    columns: dict[str, tuple[str, ...]] = {}
    seconds: dict[str, float] = {}
    unit, notes = None, []
    for role, names in roles.items():
        own = "arrival" if role in ARRIVALS else role.removesuffix("_ms")
        columns[own] = (names,) if isinstance(names, str) else tuple(names)
        if role in ARRIVALS:
            unit = ARRIVALS[role]
        elif own in (*DURATIONS, "inter_token_times"):
            of_name = named_unit(columns[own][0]) if name == "columns" else None
            of_name = MILLISECONDS if role != own else of_name or SECONDS
            seconds[own] = float(10 ** -DIGITS_OF[of_name])
            if role == own and of_name != SECONDS:
                notes.append(f"{names!r} is in {of_name}, as its name says")
    return Format(name, columns, unit, seconds, note="; ".join(notes) or None, **more)


def wanted_format(format: Any, columns: Any, bad_rows: Any) -> Format | None:  # noqa: A002
    """Choose the format that the caller asks for; None leaves it to the content of the file.

    Columns that name only the worker do not make a format.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        No name of a format, columns that do not say what is read, or both are given; or
        ``bad_rows`` is neither of its values.
    """
    if bad_rows not in get_args(OnBadRows):
        raise InvalidValueError(None, "bad_rows", bad_rows, "is neither 'refuse' nor 'skip'")
    chosen = None if columns is None else _chosen(columns)
    if chosen is not None and not (columns and {*chosen} <= {"worker"}):
        if format is not None:
            raise InvalidValueError(None, "format", format, "and columns say two things: give one")
        return _named(chosen)
    if format is None:
        return None
    if not isinstance(format, str):
        raise InvalidTypeError(None, "format", format, "is not a string")
    if format not in FORMATS:
        raise UnknownNameError("trace format", format, sorted(FORMATS))
    return FORMATS[format]


def _chosen(columns: Any) -> dict[str, str]:
    """Check the roles of columns."""
    if not isinstance(columns, Mapping):
        raise InvalidTypeError(None, "columns", columns, "is not a mapping")
    chosen: dict[str, Any] = {str(role).replace("-", "_"): name for role, name in columns.items()}
    kinds = set()
    for role, name in chosen.items():
        if role not in ROLES:
            raise UnknownNameError("column role", role, list(ROLES))
        if not isinstance(name, str):
            raise InvalidTypeError("columns", role, name, "is not the name of a column")
        kind = "arrivals" if role in ARRIVALS else role.removesuffix("_ms")
        kind = STAMPS.get(kind, kind)
        if kind in kinds:
            reason = f"names two columns of {kind.replace('_', ' ')}"
            raise InvalidValueError(None, "columns", dict(columns), reason)
        kinds.add(kind)
    return chosen


def _named(chosen: Mapping[str, str]) -> Format:
    """Make a format of columns that are named by the user."""
    for role in ("prompt", "output"):
        if role not in chosen:
            reason = f"does not say which column holds {role}s"
            raise InvalidValueError(None, "columns", dict(chosen), reason)
    for role in STAMPS:
        if role in chosen and not {*chosen} & {*ARRIVALS}:
            raise InvalidValueError("columns", role, chosen[role], "needs a column of arrivals")
    roles, more = dict(chosen), {}
    if "requests" in roles:
        more = {"rows": partial(inside, keys=path_of(roles.pop("requests"))), "document": True}
    return made("columns", roles, **more)


_TABLE = tomllib.loads((resources.files(__package__) / "formats.toml").read_text("utf-8"))
_OUTCOMES = _TABLE.pop("outcomes")

FORMATS: dict[str, Format] = {
    name: made(name, one.pop("columns"), rows=ROWS.get(name), **one) for name, one in _TABLE.items()
}
ENGINE_SETTINGS = frozenset(name for one in FORMATS.values() for name in one.settings)
"""Settings of vLLM and SGLang, as the engines call them, that decide what is scheduled."""

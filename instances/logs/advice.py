"""Detection of a log's format; errors that list its columns, guess their roles, and advise."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from instances.errors import FileFormatError
from instances.settings import quoted

from .cells import DATES, MILLISECONDS, NO_OBJECT, SECONDS, as_numbers, as_times
from .formats import FORMATS, Format
from .paths import name_words, named_unit

MOST_TRIED = 100
"""Records used to detect the format; more than one, as the first requests may have failed."""

LONGEST_LIST = 1000
"""Most characters of a file's list of columns in an error message."""

LONGEST_GUESSED = 40
"""Most characters of the name of a column that is guessed."""

DEEPEST_LISTED = 4
"""Most levels of nested JSON keys that an error message lists as columns."""

_TOKENS = {"prompt", "request", "output"}

_HINTS = tomllib.loads((resources.files(__package__) / "hints.toml").read_text("utf-8"))
_WORDS = {name: {*listed.split()} for name, listed in _HINTS["words"].items()}


def format_of(
    path: object,
    wanted: Format | None,
    header: Sequence[str],
    chunk: tuple[Sequence[int], list[Any]],
    columns: Mapping[str, Any],
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
    columns : Mapping[str, Any]
        The user's choice of columns by role, of which only ``"worker"`` is used here: it may
        be added to any format.

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
        message = getattr(tried[0], "message", NO_OBJECT.message)
        raise FileFormatError(path, message, row=numbers[0])
    kind = wanted or _detected(path, [one for one in records if one])
    if "worker" in columns:
        kind = kind._replace(columns={**kind.columns, "worker": (columns["worker"],)})
    for mark in kind.missing(records):
        raise _unknown(path, records, f"column {mark!r} is missing")
    for name in {name for names in kind.columns.values() for name in names}:
        if header.count(name) > 1:
            raise FileFormatError(path, f"column {name!r} is there twice")
    return kind


def _detected(path: object, records: Sequence[dict[str, Any]]) -> Format:
    """Return the only format whose columns the records have; raise an error if none or several."""
    if not records:
        raise FileFormatError(path, "has no record with fields")
    found = [kind for kind in FORMATS.values() if not all(kind.missing([one]) for one in records)]
    most = max((len(one.marks) for one in found), default=0)
    found = [one for one in found if len(one.marks) == most]
    if len(found) > 1:
        ways = " or ".join(f"format={one.name} (times in {one.unit})" for one in found)
        raise FileFormatError(path, f"fits several formats: choose {ways}")
    if found:
        return found[0]
    raise _unknown(path, records, "fits no format")


def _unknown(path: object, records: Sequence[dict[str, Any]], why: str) -> FileFormatError:
    """Make the error for a file of unknown format.

    Its message has the reason, the columns, their guessed roles (such as prompt), and the text to
    type as a source of requests: ``trace:FILE(role=column, ...)``.
    """
    seen: dict[str, Any] = {}
    for name, value in (one for record in records for one in _paths(record)):
        if seen.get(name) in (None, ""):
            seen[name] = value
    if len(seen) > 1 and 2 * sum(_unit_seen(one) is not None for one in seen) > len(seen):
        return FileFormatError(path, "has no header line: names of columns come before its rows")
    found = _guessed(seen)
    is_whole = {"prompt", "output"} <= found.keys()
    # Columns of prompt and output lengths are enough, as requests without arrivals all arrive at
    # once. Without these the text to type has NAME for the columns that the user must fill in.
    given = found if is_whole else {"arrival": "NAME", "prompt": "NAME", "output": "NAME", **found}
    settings = ", ".join(f"{role}={quoted(name)}" for role, name in given.items())
    line = shlex.quote(f"trace:{path}({settings})")
    seem = ", ".join(f"{role} is {name!r}" for role, name in found.items())
    guess = f"by name and content, {seem}: " if found else ""
    python = f" (in Python columns={given})" if is_whole else ", with a column for each NAME"
    listed = ", ".join(seen) or "none"
    if len(listed) > LONGEST_LIST:
        listed = f"{listed[:LONGEST_LIST]}..."
    return FileFormatError(path, f"{why}; its columns are {listed}; {guess}type {line}{python}")


def _paths(
    record: Mapping[str, Any], before: str = "", depth: int = 1
) -> Iterator[tuple[str, Any]]:
    """Yield each value of a nested record with its path, such as ``usage.prompt_tokens``."""
    for key, value in record.items():
        path = before + str(key).replace(".", "\\." if before or isinstance(value, dict) else ".")
        if isinstance(value, dict) and value and depth < DEEPEST_LISTED:
            yield from _paths(value, f"{path}.", depth + 1)
        else:
            yield path, value


def _guessed(seen: Mapping[str, Any]) -> dict[str, str]:
    """Guess the roles of columns from their names and one value of each: return column by role.

    ``seen`` maps the name of each column to a value of it, or None if no record has one.
    """
    known = {
        path: (_word_kinds(path.rpartition(".")[2]), _word_kinds(path), _value_kind(value))
        for path, value in seen.items()
        if len(path) <= LONGEST_GUESSED and not isinstance(value, dict | list)
    }
    found: dict[str, str] = {}
    for guess in _HINTS["guesses"]:
        for path, (own, whole, value) in known.items():
            is_inside = guess["role"] in _TOKENS and not own & _TOKENS
            words = whole if is_inside else own
            fits = words >= {*guess["words"]} and not words & {*guess.get("without", ())}
            if fits and value in guess.get("values", [value]):
                found.setdefault(guess["role"], path)
    if "latency" in found or "arrival" not in found:
        found.pop("end", None)
    if named_unit(found.get("latency", "")) == MILLISECONDS:
        found["latency_ms"] = found.pop("latency")
    return found


def _word_kinds(name: str) -> set[str]:
    """Return the kinds, such as "prompt" or "time", of the words in a column's name.

    The file ``hints.toml`` lists the words of each kind.
    """
    words = {*name_words(name)}
    return {kind for kind, some in _WORDS.items() if words & some}


def _value_kind(value: Any) -> str:
    unit = _unit_seen(value)
    if unit is None or unit == DATES:
        return "unknown" if value in (None, "") else "text" if unit is None else "date"
    return "count" if as_numbers([value])[0].is_integer() else "number"


def _unit_seen(value: Any) -> str | None:
    return as_times([value], None, SECONDS, lambda *_: None)[1]

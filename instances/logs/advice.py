"""The format of a file, or an error: its columns, a guess at these, and the line to type."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import resources
from typing import Any

from instances.errors import FileFormatError
from instances.settings import quoted

from .cells import DATES, MILLISECONDS, SECONDS, TICKS_PER_SECOND, Clock, as_count
from .formats import FORMATS, Format
from .paths import lookup, name_words, named_unit

MOST_LISTED = 30
"""Columns of a file that an error lists."""

LONGEST_LISTED = 40
"""Characters of a column's name that an error repeats."""

DEEPEST_LISTED = 4
"""Names of keys inside one another that are listed."""

MAP_COLUMNS = (
    "say which column holds what with columns (in a command FILE(arrival=NAME, prompt=NAME, "
    "output=NAME))"
)
MOONCAKE, QWEN = FORMATS["mooncake"], FORMATS["qwen-bailian"]
QWEN_KEYS = {"chat_id", "parent_chat_id", "turn"}

_HINTS = tomllib.loads((resources.files(__package__) / "hints.toml").read_text("utf-8"))
_WORDS = {name: [{*one.split()} for one in listed] for name, listed in _HINTS["words"].items()}


def refuse_text_without_requests(path: object, line: str) -> None:
    """Refuse totals and logs of text by their first line.

    Raises
    ------
    FileFormatError
        The line is of such a file; the error says where the tool writes requests.
    """
    for pattern, answer in _HINTS["texts"].items():
        if re.match(pattern, line.strip()):
            raise FileFormatError(path, f"holds {_HINTS['answers'][answer]}")


def detect_format(path: object, records: Sequence[Mapping[str, Any]]) -> Format:
    """Detect the format whose columns a file has.

    Parameters
    ----------
    path : object
        What errors call the file.
    records : sequence of mapping
        Some of them; of a table one may be its columns without cells.

    Raises
    ------
    FileFormatError
        No format or several fit; the message says what can be done.
    """
    filled = [one for one in records if one]
    if not filled:
        raise FileFormatError(path, "holds no record that has fields")
    fitting = [[kind for kind in FORMATS.values() if kind.fits(one)] for one in filled]
    found = next((some for some in fitting if len(some) == 1), fitting[0])
    if found == [MOONCAKE, QWEN]:
        unit = likely_unit(filled, MOONCAKE.name_of("arrival"), MOONCAKE.name_of("prompt"))
        found = [one for one in found if unit in (None, one.unit)]
    if len(found) > 1:
        ways = " or ".join(f"format={one.name} (times in {one.unit})" for one in found)
        raise FileFormatError(path, f"fits several formats: which is it? Say {ways}")
    if found:
        return found[0]
    for key, answer in _HINTS["keys"].items():
        if key in filled[0]:
            raise FileFormatError(path, f"holds {_HINTS['answers'][answer]}")
    why = "fits no format"
    for one in FORMATS.values():
        names = {name for names in one.columns.values() for name in names}
        missing = [name for name in one.required if name not in filled[0]]
        if not one.marks and len(missing) == 1 and len(names & {*filled[0]}) > 1:
            why += f" (of {one.name} column {missing[0]!r} is missing)"
            break
    raise unknown(path, filled, why)


def likely_unit(records: Sequence[Mapping[str, Any]], time: str, prompt: str) -> str | None:
    """Return the unit in which relative times of records are, seconds or milliseconds.

    Blocks of prompts tell Mooncake's format, in milliseconds, from Qwen's, in seconds. Other whole
    numbers are milliseconds where they differ by 10 from row to row or more, and seconds where by
    less than 1; for numbers with fractions these limits are 100 and 10.

    Parameters
    ----------
    records : sequence of mapping
        The first records of a file.
    time, prompt : str
        Their columns.

    Returns
    -------
    str or None
        The unit; None in doubt.
    """
    if any(QWEN_KEYS & one.keys() for one in records):
        return SECONDS
    stamps, votes = [], {MILLISECONDS: 0, SECONDS: 0}
    for one in records:
        with suppress(ValueError):
            stamps.append(Clock(SECONDS)(lookup(one, time)))
            tokens = as_count(lookup(one, prompt))
            hashes: Any = one.get("hash_ids")
            for kind in (MOONCAKE, QWEN) if hashes and isinstance(hashes, list) else ():
                votes[str(kind.unit)] += len(hashes) == -(-tokens // int(kind.block_size))
    if votes[SECONDS] != votes[MILLISECONDS]:
        return max(votes, key=lambda unit: votes[unit])
    if len(stamps) < 2 or max(stamps) == min(stamps):
        return MILLISECONDS
    step = (max(stamps) - min(stamps)) / TICKS_PER_SECOND / (len(stamps) - 1)
    is_whole = not any(one % TICKS_PER_SECOND for one in stamps)
    fewest, most = (1, 10) if is_whole else (10, 100)
    return SECONDS if step < fewest else MILLISECONDS if step >= most else None


def unknown(path: object, records: Sequence[Mapping[str, Any]], why: str) -> FileFormatError:
    """Say which columns a file has, which of them seem to hold what, and what to type.

    Parameters
    ----------
    path : object
        The file.
    records : sequence of mapping
        Some of its records, or the columns of a table.
    why : str
        Why it is refused.
    """
    cells: dict[str, Any] = {}
    for name, value in (one for record in records for one in _paths(record)):
        if cells.get(name) is None:
            cells[name] = value
    if len(cells) > 1 and 2 * sum(_unit_seen(one) is not None for one in cells) > len(cells):
        return FileFormatError(path, "has no header line: names of columns come before its rows")
    found = guessed(cells)
    inside = found.get("prompt", "").rpartition("[].")[0]
    if inside:
        before = f"{inside}[]."
        own = {one.removeprefix(before): cells[one] for one in cells if one.startswith(before)}
        found = {"requests": inside, **guessed(own)}
    arrival, hint = found.get("arrival", ""), ""
    if _unit_seen(cells.get(arrival)) not in (None, DATES) and named_unit(arrival) is None:
        unit = likely_unit(records, arrival, found.get("prompt", ""))
        if unit == MILLISECONDS and any("hash_ids" in one for one in records):
            found = {"arrival_ms": found.pop("arrival"), **found}
        elif unit != SECONDS:
            hint = f"; write arrival_ms for arrival if {arrival!r} is in milliseconds"
    is_whole = {"prompt", "output"} <= found.keys()
    # Without a time all arrive at once.
    given = found if is_whole else {"arrival": "NAME", "prompt": "NAME", "output": "NAME", **found}
    settings = ", ".join(f"{role}={quoted(name)}" for role, name in given.items())
    line = shlex.quote(f"trace:{path}({settings})")
    seem = ", ".join(f"{role} is {name!r}" for role, name in found.items())
    guess = f"by name and content, {seem}: " if found else ""
    python = f" (in Python columns={given})" if is_whole else ", with a column for each NAME"
    columns = _listed(cells)
    raise FileFormatError(
        path, f"{why}; its columns are {columns}; {guess}type {line}{python}{hint}"
    )


def _paths(
    record: Mapping[str, Any], before: str = "", depth: int = 1
) -> Iterator[tuple[str, Any]]:
    """Yield the keys of a record with those inside them, as paths, and their values."""
    for key, value in record.items():
        path = before + str(key).replace(".", "\\." if before or isinstance(value, dict) else ".")
        items = value[:1] if isinstance(value, list) else []
        inner = items[0] if items else value
        if isinstance(inner, dict) and inner and depth < DEEPEST_LISTED:
            yield from _paths(inner, f"{path}{'[]' if items else ''}.", depth + 1)
        else:
            yield path, value


def guessed(cells: Mapping[str, Any]) -> dict[str, str]:
    """Guess which columns hold what from their names and a value of each.

    Parameters
    ----------
    cells : Mapping[str, Any]
        A value by the path of its column; None where none is known.

    Returns
    -------
    dict[str, str]
        Columns by role; roles without a likely column are missing.
    """
    best = dict.fromkeys(("arrival", "prompt", "output", "latency", "end", "error"), (0, ""))
    for path, value in cells.items():
        # In a file without a header a long name may be a prompt.
        if len(path) <= LONGEST_LISTED and not isinstance(value, dict | list):
            for role, score in _scores(path, value).items():
                best[role] = max(best[role], (score, path), key=lambda one: one[0])
    found = {role: path for role, (score, path) in best.items() if score}
    if "latency" in found or "arrival" not in found:
        found.pop("end", None)
    if named_unit(found.get("latency", "")) == MILLISECONDS:
        found["latency_ms"] = found.pop("latency")
    return found


def _scores(path: str, value: Any) -> dict[str, int]:
    """How likely a column holds what, by its name and a value."""
    own = {*name_words(path.rpartition(".")[2])}
    has = {name: [bool(own & some) for some in listed] for name, listed in _WORDS.items()}
    words = own if any(has["prompt"] + has["output"]) else {*name_words(path)}
    size, of_prompt, of_output, no_size = (
        words & _WORDS[one][0] for one in ("size", "prompt", "output", "no_size")
    )
    unit = _unit_seen(value)
    is_date, is_number = unit == DATES, unit not in (None, DATES)
    is_size = not no_size and (size or is_number) and _is_count(value)
    is_prompt = is_size and of_prompt and not of_output and (size or "request" not in words)
    is_time = (is_date or is_number or value is None) and not any(
        has["no_time"] + has["end"] + has["latency"] + has["size"]
    )
    rank = has["time"].index(True) if any(has["time"]) else len(has["time"])
    is_end = (is_date or {"time", "at"} & own) and any(has["end"])
    return {
        "prompt": (1 + 2 * bool(size)) * bool(is_prompt),
        "output": (1 + 2 * bool(size)) * bool(is_size and of_output and not of_prompt),
        "arrival": (len(has["time"]) - rank) * bool(is_time),
        "end": int(bool(is_end)),
        "latency": int(is_number and not is_end and any(has["latency"])),
        "error": 2 * ("error" in own) + any(has["status"]),
    }


def _is_count(value: Any) -> bool:
    with suppress(ValueError):
        return value is None or as_count(value) >= 0
    return False


def _unit_seen(value: Any) -> str | None:
    clock = Clock()
    with suppress(ValueError):
        clock(value)
    return clock.unit


def _listed(columns: Collection[str]) -> str:
    """List the columns of a file in a message, the first `MOST_LISTED` only.

    Names are cut: in a file without a header they are cells of its first row.
    """
    names = [
        one if len(one) <= LONGEST_LISTED else f"{one[:LONGEST_LISTED]}..."
        for one in list(columns)[:MOST_LISTED]
    ]
    shown = ", ".join(names) or "none"
    return f"{shown}, ... {len(columns)} in all" if len(columns) > MOST_LISTED else shown

"""Names of columns: paths to keys inside one another, the words of a name, the unit in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from .cells import MILLISECONDS, SECONDS

_UNIT_WORDS = {
    SECONDS: "s sec secs second seconds",
    MILLISECONDS: "ms msec msecs milli millis millisecond milliseconds",
    "microseconds": "us usec usecs micro micros microsecond microseconds",
    "nanoseconds": "ns nsec nsecs nano nanos nanosecond nanoseconds",
}
UNIT_OF_WORD = {word: unit for unit, words in _UNIT_WORDS.items() for word in words.split()}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_IN_BRACKETS = re.compile(r"[(\[{]\s*([A-Za-z]+)\.?\s*[)\]}]")


def column(records: Sequence[dict[str, Any]], *names: str) -> list[Any]:
    """Of each record look up the first of these keys that has a value.

    Parameters
    ----------
    records : sequence of dict
        JSON objects, or rows of a table.
    *names : str
        Keys, or keys inside one another, joined by dots; a dot of a key itself has a backslash
        before it, unless the whole name is a key.

    Returns
    -------
    list
        A value per record; None where there is none.
    """
    found: list[Any] = []
    for name in names:
        for keys in [(name,), path_of(name)] if "." in name else [(name,)]:
            values: list[Any] = [*records]
            for key in keys:
                values = [one.get(key) if type(one) is dict else None for one in values]
            pairs = zip(found, values, strict=True) if found else ()
            found = [own if own is not None else value for own, value in pairs] or values
        if None not in found:
            break
    return found


def lookup(record: Any, *names: str) -> Any:
    """Look up the first of these keys that has a value in one record, as `column` does."""
    return column([record], *names)[0]


@lru_cache(maxsize=256)
def path_of(name: str) -> tuple[str, ...]:
    """Split a path at its dots; a dot after a backslash belongs to a key."""
    return tuple(key.replace("\\.", ".") for key in re.split(r"(?<!\\)\.", name))


def inside(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    """All values below these keys, one inside the other; lists on the way give their items."""
    for one in value if isinstance(value, list) else [value]:
        if not keys:
            yield one
        elif isinstance(one, dict):
            yield from inside(one.get(keys[0].removesuffix("[]"), []), keys[1:])


def name_words(column: str) -> list[str]:
    """Split the name of a column into words, as in ``startTime`` or ``start_time``."""
    return [word.lower() for word in _WORD.findall(column)]


def named_unit(column: str) -> str | None:
    """Return the unit that the name of a column has in brackets, or ends or begins with.

    Examples
    --------
    >>> named_unit("startTimeMs"), named_unit("Wait (us), mean"), named_unit("status")
    ('milliseconds', 'microseconds', None)
    """
    column = column.replace("\u00b5", "u").replace("\u03bc", "u")
    words = name_words(column)
    # A name that begins with s or us has hardly a unit there.
    first = [one for one in words[:1] if one in ("ms", "ns")]
    for word in (*map(str.lower, _IN_BRACKETS.findall(column)), *words[-1:], *first):
        if word in UNIT_OF_WORD:
            return UNIT_OF_WORD[word]
    return None

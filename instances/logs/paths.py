"""Names of columns in a log: paths to nested JSON keys, the words of a name, its unit of time."""

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


def column(records: Sequence[dict[str, Any]], *names: str) -> list[Any]:
    """Look up a column of a log: in each record, the value of the first of ``names`` that has one.

    Parameters
    ----------
    records : sequence of dict
        JSON objects, or rows of a table.
    *names : str
        Alternative names of the column. A name is a key, or a path to a nested key with dots
        between the keys, as in ``"usage.prompt_tokens"``. In a path, a dot that belongs to a key
        has a backslash before it.

    Returns
    -------
    list
        One value for each record; None where the record has none of the names.
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
    """Look up in one record the value of the first of ``names`` that has one, as `column` does.

    Names are keys, or paths to nested keys with dots between the keys. None if no name has a value.
    """
    return column([record], *names)[0]


@lru_cache(maxsize=256)
def path_of(name: str) -> tuple[str, ...]:
    """Split a path to a nested JSON key into its keys: ``"usage.tokens"`` is two keys.

    A dot after a backslash belongs to a key.
    """
    return tuple(key.replace("\\.", ".") for key in re.split(r"(?<!\\)\.", name))


def inside(value: Any, keys: Sequence[str]) -> Iterator[Any]:
    """Yield all values that a path of nested keys leads to in a JSON value.

    Where the path meets a list, it goes on in every item of the list.
    """
    for one in value if isinstance(value, list) else [value]:
        if not keys:
            yield one
        elif isinstance(one, dict):
            yield from inside(one.get(keys[0], []), keys[1:])


def name_words(column: str) -> list[str]:
    """Split the name of a column into lower-case words: ``startTime`` into ``start``, ``time``."""
    return [word.lower() for word in _WORD.findall(column)]


def named_unit(column: str) -> str | None:
    """Return the unit of time at the end of the name of a column; None if it has none.

    Examples
    --------
    >>> named_unit("startTimeMs"), named_unit("Wait (us)"), named_unit("status")
    ('milliseconds', 'microseconds', None)
    """
    words = name_words(column.replace("\u00b5", "u").replace("\u03bc", "u"))
    return UNIT_OF_WORD.get(words[-1]) if words else None

"""Columns of a log by their names, which may be paths to nested JSON keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any


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

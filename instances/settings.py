"""Settings as text: ``name=value``, as command lines have them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .errors import InvalidValueError

_PLAIN = re.compile(r"[\w./:+*?-]+")


def quoted(text: str) -> str:
    """The text as it is in the brackets of a source: in quotes where it has other signs."""
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parse_value(text: str) -> bool | int | float | str:
    """The value that a text stands for.

    ``10`` is a whole number, ``0.5`` and ``nan`` are floats, ``true`` and ``False`` are truth
    values, anything else is text.
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def parse_texts(entries: Iterable[str], option: str) -> dict[str, str]:
    """``["n=10", ...]`` by name, ``-`` as ``_``; the values as they are.

    Raises
    ------
    InvalidValueError
        An entry without a name or ``=``, or a name given twice.
    """
    settings: dict[str, str] = {}
    for entry in entries:
        key, separator, value = entry.partition("=")
        key = key.strip().replace("-", "_")
        if not separator or not key:
            raise InvalidValueError(None, option, entry, "is not of the form name=value")
        if key in settings:
            raise InvalidValueError(None, option, entry, "is given twice")
        settings[key] = value.strip()
    return settings

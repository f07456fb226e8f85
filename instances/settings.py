"""Settings as text of the form ``name=value``, as in command lines."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .errors import InvalidValueError

_PLAIN = re.compile(r"[\w./:+*?-]+")


def quoted(text: str) -> str:
    """Return a value as written in brackets on a command line, such as ``trace:FILE(name=value)``.

    Text with other characters than letters, digits and ``_./:+*?-`` gets double quotes.
    """
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parse_value(text: str) -> bool | int | float | str:
    """Convert text from a command line to a Python value.

    ``10`` becomes an int, ``0.5`` and ``nan`` floats, ``true`` and ``False`` bools. Any other text
    is returned unchanged.
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
    """Split texts of the form ``name=value`` into a dict from names to values, both as text.

    In names ``-`` becomes ``_``. ``option`` is the name of the command's option in errors.

    Raises
    ------
    InvalidValueError
        An entry has no name or no ``=``, or a name is given twice.
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

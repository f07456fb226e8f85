"""Errors of invalid input. Their messages have the object, its field and the refused value."""

from __future__ import annotations

import difflib
import re
from typing import Any

LONGEST_SHOWN = 200
"""Largest number of characters of a refused value that an error message repeats."""

CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters not allowed in names: control characters, line breaks, lone surrogates, and marks of
text direction, which could show a line in another order."""

MOST_LISTED = 40
"""Largest number of known names that the error for an unknown name lists."""


class _RefusedError(Exception):
    """Base class of errors about a value. The message has owner, field, value and reason."""

    def __init__(self, owner: str | None, field: str, value: Any, reason: str) -> None:
        # All arguments go to the base class: pickle rebuilds an exception from these.
        super().__init__(owner, field, value, reason)
        self.owner, self.field, self.value, self.reason = owner, field, value, reason

    def __str__(self) -> str:
        prefix = f"{self.owner}: " if self.owner else ""
        return f"{prefix}{self.field} = {shown(self.value)} {self.reason}"


class InvalidValueError(_RefusedError, ValueError):
    """Error: an argument or field has the right type, but its value is not allowed.

    Attributes
    ----------
    owner : str or None
        The object that has the field, such as ``"request 3"``; None for an argument of a function.
    field : str
        Name of the field or argument.
    value : Any
        The value that was refused.
    """


class InvalidTypeError(_RefusedError, TypeError):
    """Error: an argument or field has a type that is not allowed, such as a float token count."""


class UnknownNameError(ValueError):
    """Error: a name is not registered; the message lists known names and suggests the nearest."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        super().__init__(kind, name, known)
        self.kind, self.name, self.known = kind, name, known

    @property
    def nearest(self) -> str:
        """Question that suggests similar known names, ``did you mean ...?``. Empty without any."""
        lowered = {one.lower(): one for one in self.known}
        name = str(self.name).lower()
        near = difflib.get_close_matches(name, lowered, n=2, cutoff=0.65)
        near = near or [one for one in lowered if name in one and len(name) > 2][:2]
        meant = " or ".join(repr(lowered[one]) for one in near)
        return f"did you mean {meant}?" if near else ""

    def __str__(self) -> str:
        known = self.known
        more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
        listed = f"{', '.join(known[:MOST_LISTED])}{more}"
        hint = f"known: {listed}"
        if near := self.nearest:
            hint = near if more else f"{near} Known: {listed}"
        return f"unknown {self.kind} {self.name!r}; {hint}"


class FileFormatError(ValueError):
    """Error: a file does not have the expected format.

    The message has the path, the row if known, and the reason.
    """

    def __init__(self, path: Any, reason: str, row: int | None = None) -> None:
        super().__init__(str(path), reason, row)
        self.path, self.reason, self.row = str(path), reason, row

    def __str__(self) -> str:
        place = self.path if self.row is None else f"{self.path}, row {self.row}"
        return printable(f"{place}: {self.reason}")


def shown(value: Any) -> str:
    """Return ``repr(value)`` in one line of at most `LONGEST_SHOWN` characters, for a message."""
    try:
        text = " ".join(repr(value).splitlines())
    except (ValueError, RecursionError):
        # repr() fails for integers of thousands of digits and for lists nested thousands deep.
        return f"{type(value).__name__} too long to show"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def printable(text: str) -> str:
    r"""Return ``text`` with control characters and line breaks as escapes, such as ``\n``."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)

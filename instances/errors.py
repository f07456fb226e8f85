"""Errors of invalid input: each names the owner, the field and the value."""

from __future__ import annotations

import difflib
import unicodedata
from typing import Any

LONGEST_SHOWN = 200
"""Characters of a refused value that its error repeats."""

CONTROL_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories a name has no use for: control characters, lone surrogates, line breaks."""

MOST_LISTED = 40
"""Known names that the error of an unknown one lists."""

DIRECTION_MARKS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They let a line be read in another order than it has."""


class _RefusedError(Exception):
    """Error that names the owner, the field, the value and the reason."""

    def __init__(self, owner: str | None, field: str, value: Any, reason: str) -> None:
        # Exceptions are pickled by what they give their base.
        super().__init__(owner, field, value, reason)
        self.owner = owner
        self.field = field
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        prefix = f"{self.owner}: " if self.owner else ""
        return f"{prefix}{self.field} = {shown(self.value)} {self.reason}"


class InvalidValueError(_RefusedError, ValueError):
    """A field has the right type but a value the model cannot hold.

    Attributes
    ----------
    owner : str or None
        What the field belongs to, e.g. ``"request 3"``; None for a free-standing argument.
    field : str
        The field's name.
    value : Any
        The value that was refused.
    """


class InvalidTypeError(_RefusedError, TypeError):
    """A field has a type the model cannot hold, such as a float token count."""


class UnknownNameError(ValueError):
    """A name that is not registered; the message lists those that are and names the nearest."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        super().__init__(kind, name, known)
        self.kind = kind
        self.name = name
        self.known = known

    def __str__(self) -> str:
        known = self.known
        lowered = {one.lower(): one for one in known}
        near = difflib.get_close_matches(str(self.name).lower(), lowered, n=2, cutoff=0.65)
        more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
        listed = f"{', '.join(known[:MOST_LISTED])}{more}"
        hint = f"; known: {listed}"
        if near:
            meant = " or ".join(repr(lowered[one]) for one in near)
            hint = f"; did you mean {meant}?{'' if more else f' Known: {listed}'}"
        return f"unknown {self.kind} {self.name!r}{hint}"


class FileFormatError(ValueError):
    """A file cannot be read as what it claims to be: path, place inside it, and the reason."""

    def __init__(self, path: Any, reason: str, row: int | None = None) -> None:
        super().__init__(str(path), reason, row)
        self.path = str(path)
        self.reason = reason
        self.row = row

    def __str__(self) -> str:
        place = self.path if self.row is None else f"{self.path}, row {self.row}"
        return printable(f"{place}: {self.reason}")


def shown(value: Any) -> str:
    """A value in one line of bearable length, for a message."""
    try:
        text = " ".join(repr(value).splitlines())
    except (ValueError, RecursionError):
        # Python refuses to write integers of thousands of digits and lists nested thousands deep.
        return f"{type(value).__name__} too long to show"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def is_control(character: str) -> bool:
    """Return whether a character is a control character or cannot be stored as text."""
    return unicodedata.category(character) in CONTROL_CATEGORIES or character in DIRECTION_MARKS


def printable(text: str) -> str:
    """``text`` in one line, control characters written as escapes."""
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode() if is_control(character) else character
        for character in text
    )

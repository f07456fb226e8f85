"""Errors of invalid input: each names the owner, the field and the value."""

from __future__ import annotations

import difflib
import re
from typing import Any

LONGEST_SHOWN = 200
"""Characters of a refused value that its error repeats."""

CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a name has no use for: control characters, line breaks, lone surrogates, and
marks of direction, which let a line be read in another order than it has."""

MOST_LISTED = 40
"""Known names that the error of an unknown one lists."""


class _RefusedError(Exception):
    """Error that names the owner, the field, the value and the reason."""

    def __init__(self, owner: str | None, field: str, value: Any, reason: str) -> None:
        # Exceptions are pickled by what they give their base.
        super().__init__(owner, field, value, reason)
        self.owner, self.field, self.value, self.reason = owner, field, value, reason

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
        self.kind, self.name, self.known = kind, name, known

    @property
    def nearest(self) -> str:
        """The question whether a similar name was meant; empty without one."""
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
    """A file cannot be read as what it claims to be: path, place inside it, and the reason."""

    def __init__(self, path: Any, reason: str, row: int | None = None) -> None:
        super().__init__(str(path), reason, row)
        self.path, self.reason, self.row = str(path), reason, row

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


def printable(text: str) -> str:
    """``text`` in one line, control characters written as escapes."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)

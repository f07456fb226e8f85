"""YAML of any size, taken apart like JSON: event by event."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn, Protocol

from instances.errors import FileFormatError
from instances.files import DEEPEST

FIRST_LINE = re.compile(r"\ufeff?(---|%YAML|[A-Za-z_][\w-]*:)(\s|$)")
"""How a YAML document begins, and no table or JSON does."""

LONGEST_ITEM = 2**20
"""Scalars of a value that is taken as a whole."""

_INTEGER = re.compile(r"[-+]?\d{1,40}", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(\d{1,40}\.\d{0,40}|\.\d{1,40}|\d{1,40}(?=e))(e[-+]?\d{1,3})?", re.A | re.I
)
_NAMED = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF"), float("inf")),
}


class Readable(Protocol):
    """A text that is read piece by piece."""

    def read(self, size: int = -1, /) -> str:
        """The next ``size`` characters at most."""


class YamlStream:
    """A pointer into a YAML document: a `Document`. Aliases are not followed: they are None.

    Parameters
    ----------
    stream : Readable
        The text.
    path : object
        What errors call the document.

    Raises
    ------
    FileFormatError
        PyYAML is not there, or, while reading, the text is no YAML.
    """

    def __init__(self, stream: Readable, path: object) -> None:
        self._path = path
        try:
            import yaml
        except ImportError:
            self._refuse("is YAML: install PyYAML (pip install 'llm-hindsight[yaml]')")
        self._yaml = yaml
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events = iter(yaml.parse(stream, Loader=loader))
        self._event: Any = None
        self._advance()

    def opening(self) -> str:
        """``"{"`` before an object, ``"["`` before a list, empty at the end of the document."""
        self._pass_marks()
        if isinstance(self._event, self._yaml.MappingStartEvent):
            return "{"
        if isinstance(self._event, self._yaml.SequenceStartEvent):
            return "["
        return "" if self._event is None else "."

    def documents(self) -> Iterator[None]:
        """Stand before each document of the stream."""
        while self.opening():
            yield

    def items(self) -> Iterator[None]:
        """Stand before each item of the list that comes next."""
        if self.opening() != "[":
            self._refuse(f"{self._place()} is no list")
        self._advance()
        while not isinstance(self._event, self._yaml.SequenceEndEvent):
            yield
        self._advance()

    def members(self) -> Iterator[str]:
        """Stand before the value of each key of the mapping that comes next."""
        if self.opening() != "{":
            self._refuse(f"{self._place()} is no mapping")
        self._advance()
        while not isinstance(self._event, self._yaml.MappingEndEvent):
            if not isinstance(self._event, self._yaml.ScalarEvent):
                self._refuse(f"{self._place()} is no key")
            key = str(self._event.value)
            self._advance()
            yield key
        self._advance()

    def value(self) -> Any:
        """What comes next, as a whole.

        Raises
        ------
        FileFormatError
            Nested too deeply, too long, or a key given twice.
        """
        self._left = LONGEST_ITEM
        return self._value(0)

    def skip(self) -> None:
        """Pass over what comes next."""
        depth = 0
        while True:
            if isinstance(self._event, self._yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(self._event, self._yaml.CollectionEndEvent):
                depth -= 1
            self._advance()
            if not depth:
                return

    def _value(self, depth: int) -> Any:
        self._left -= 1
        if depth > DEEPEST or not self._left:
            what = "nested too deeply" if depth > DEEPEST else f"more than {LONGEST_ITEM} values"
            self._refuse(f"{self._place()} is {what}")
        opening = self.opening()
        if opening == "[":
            return [self._value(depth + 1) for _ in self.items()]
        if opening == "{":
            found: dict[str, Any] = {}
            for key in self.members():
                if key in found:
                    self._refuse(f"key {key[:40]!r} is there twice")
                found[key] = self._value(depth + 1)
            return found
        event = self._event
        self._advance()
        if not isinstance(event, self._yaml.ScalarEvent):
            return None
        return _resolved(event.value) if event.implicit[0] else event.value

    def _advance(self) -> None:
        try:
            self._event = next(self._events, None)
        except self._yaml.YAMLError as error:
            self._refuse(f"is cut off, or not YAML: {' '.join(str(error).split())[:200]}")

    def _pass_marks(self) -> None:
        marks = (
            self._yaml.StreamStartEvent,
            self._yaml.StreamEndEvent,
            self._yaml.DocumentStartEvent,
            self._yaml.DocumentEndEvent,
        )
        while isinstance(self._event, marks):
            self._advance()

    def _place(self) -> str:
        mark = getattr(self._event, "start_mark", None)
        return f"line {mark.line + 1}" if mark else "its end"

    def _refuse(self, reason: str) -> NoReturn:
        raise FileFormatError(self._path, reason) from None


def _resolved(text: str) -> Any:
    """What a scalar without quotes means."""
    if text in _NAMED:
        return _NAMED[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text

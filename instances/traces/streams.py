"""Documents of any size, JSON or YAML, taken apart piece by piece: one item of one list is held."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain
from types import SimpleNamespace
from typing import IO, Any, NoReturn

from instances.errors import FileFormatError
from instances.files import DEEPEST, DuplicateKeyError, unique_keys

CHUNK = 2**18
"""Characters read at a time."""

LONGEST_ITEM = 2**24
"""Characters of a JSON value that is taken as a whole."""

MOST_VALUES = 2**20
"""Values of a YAML value that is taken as a whole."""

FIRST_YAML_LINE = re.compile(r"\ufeff?(---|%YAML|[A-Za-z_][\w-]*:)(\s|$)")
"""The beginning of a YAML document, which no table and no JSON has."""


MOST_KEYS = 64
"""Keys of an object that is passed over, and characters of a text, that are shown."""


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        return [_cut(one) for one in value[:1]]
    if isinstance(value, dict):
        return {key: _cut(one) for key, one in [*value.items()][:MOST_KEYS]}
    return value[:MOST_KEYS] if isinstance(value, str) else value


class Document(ABC):
    """A pointer into a document; whoever is given an item or a member must take or skip it.

    Every method raises `FileFormatError` where the text is not what is asked for.

    Parameters
    ----------
    path : object
        What errors call the document.
    """

    def __init__(self, path: object) -> None:
        self._path = path

    @abstractmethod
    def opening(self) -> str:
        """``"{"`` before an object, ``"["`` before a list, empty at the end of the text."""

    @abstractmethod
    def _begin(self, opening: str, closing: str) -> bool:
        """Enter the list or object that comes next, or pass it if nothing is in it."""

    @abstractmethod
    def _goes_on(self, closing: str) -> bool:
        """Pass what follows an item or a member; False if it was the last."""

    @abstractmethod
    def _key(self) -> str:
        """Take the key of a member."""

    @abstractmethod
    def value(self) -> Any:
        """Take what comes next as a whole, which bounds its length and depth."""

    @abstractmethod
    def refuse(self, reason: str) -> NoReturn:
        """Say what is wrong, and where."""

    def items(self) -> Iterator[None]:
        """Stand before each item of the list that comes next."""
        goes_on = self._begin("[", "]")
        while goes_on:
            yield
            goes_on = self._goes_on("]")

    def members(self) -> Iterator[str]:
        """Stand before the value of each key of the object that comes next."""
        goes_on = self._begin("{", "}")
        while goes_on:
            yield self._key()
            goes_on = self._goes_on("}")

    def documents(self) -> Iterator[None]:
        """Stand before each value at the top."""
        while self.opening():
            yield

    def skip(self) -> Any:
        """Pass over what comes next, item by item; return its first item or members, cut short."""
        opening = self.opening()
        if opening not in ("[", "{"):
            return _cut(self.value())
        first: Any = None
        if opening == "[":
            for place, _ in enumerate(self.items()):
                value = self.value()
                first = first if place else [_cut(value)]
            return first
        first = {}
        for key in self.members():
            value = self.value()
            if len(first) < MOST_KEYS:
                first[key] = _cut(value)
        return first

    def inside(self, *path: Sequence[str]) -> Iterator[None]:
        """Stand before each value at a path: names of members to go into, none for all items."""
        if not path:
            yield
        elif not path[0]:
            for _ in self.items():
                yield from self.inside(*path[1:])
        else:
            for key in self.members():
                if key in path[0]:
                    yield from self.inside(*path[1:])
                else:
                    self.skip()


# --- JSON ---------------------------------------------------------------------------------------

_WHITE = " \t\n\r"
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


class JsonStream(Document):
    """A pointer into JSON text.

    Values are parsed by the standard library, which reads NaN and Infinity as vLLM's and SGLang's
    benchmarks write them; ijson does not.

    Parameters
    ----------
    stream : IO[str]
        The text that has not been read yet.
    path : object
        What errors call the document.
    head : str, default ""
        Text before it that has.
    """

    def __init__(self, stream: IO[str], path: object, head: str = "") -> None:
        super().__init__(path)
        self._stream = stream
        self._text = head
        self._at = 0
        self._dropped = 0
        self._ended = False

    def opening(self) -> str:
        """The first character of what comes next; empty at the end of the text."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _WHITE:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def _begin(self, opening: str, closing: str) -> bool:
        self._expect(opening)
        if self.opening() != closing:
            return True
        self._at += 1
        return False

    def _goes_on(self, closing: str) -> bool:
        return self._expect(f",{closing}") == ","

    def _key(self) -> str:
        if (found := self.opening()) != '"':
            self.refuse("is not JSON: expecting a key" if found else "is cut off")
        key: str = self.value()
        self._expect(":")
        return key

    def value(self) -> Any:
        """Take what comes next as a whole: no more than `LONGEST_ITEM` characters."""
        self.opening()
        while True:
            reason, value, end = "", None, 0
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                reason = error.msg
                # What is wrong far from the end of what has been read is wrong for good.
                if len(self._text) - error.pos > 64 and not reason.startswith("Unterminated"):
                    self.refuse(f"is not JSON: {reason}")
            except DuplicateKeyError as error:
                self.refuse(str(error))
            except RecursionError:
                self.refuse("is nested too deeply")
            except ValueError as error:
                self.refuse(f"holds a number that is none: {error}")
            # A number may go on in what has not been read: 1 is the beginning of 1.5e-3, 1.5e- is.
            is_closed = isinstance(value, (str, list, dict)) or len(self._text) - end > 3
            if not reason and is_closed:
                self._at = end
                return value
            if len(self._text) - self._at > LONGEST_ITEM:
                self.refuse(f"holds a value of more than {LONGEST_ITEM} characters")
            length = end - self._at
            if not self._more():
                if reason:
                    self.refuse(f"is cut off, or not JSON: {reason}")
                self._at += length
                return value

    def _more(self) -> bool:
        """Read on; False at the end. What has been passed is dropped, what has not may grow."""
        if self._ended:
            return False
        self._dropped += self._at
        kept = self._text[self._at :]
        more = self._stream.read(max(CHUNK, len(kept)))
        self._text, self._at, self._ended = kept + more, 0, not more
        return bool(more)

    def _expect(self, characters: str) -> str:
        """Pass one of these characters, or refuse what is there."""
        found = self.opening()
        if not found or found not in characters:
            wanted = " or ".join(map(repr, characters))
            self.refuse(f"is not JSON: expecting {wanted}" if found else "is cut off")
        self._at += 1
        return found

    def refuse(self, reason: str) -> NoReturn:
        """Say what is wrong, and at which character."""
        place = self._dropped + self._at
        raise FileFormatError(self._path, f"{reason} (at character {place})") from None


# --- YAML ---------------------------------------------------------------------------------------

_NUMBER = re.compile(r"[-+]?(\d{1,40}|(?=\.?\d)\d{0,40}\.\d{0,40})(e[-+]?\d{1,3})?", re.A | re.I)
_NAMED = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF"), float("inf")),
}


class YamlStream(Document):
    """A pointer into the events of a YAML document. Aliases are not followed: they are None.

    Parameters
    ----------
    stream : IO[str]
        The text that has not been read yet.
    path : object
        What errors call the document.
    head : str, default ""
        Text before it that has.

    Raises
    ------
    FileFormatError
        PyYAML is not there, or, while reading, the text is no YAML.
    """

    def __init__(self, stream: IO[str], path: object, head: str = "") -> None:
        super().__init__(path)
        try:
            import yaml
        except ImportError:
            self.refuse("is YAML: install PyYAML (pip install 'llm-hindsight[yaml]')")
        self._yaml = yaml
        pieces = chain([head] if head else [], iter(lambda: stream.read(CHUNK), ""))
        text = SimpleNamespace(read=lambda size: next(pieces, ""))
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        # What is left are the events that are nodes, or end them.
        nodes = (yaml.NodeEvent, yaml.CollectionEndEvent)
        self._events = (event for event in events if isinstance(event, nodes))
        self._event: Any = None
        self._advance()

    def opening(self) -> str:
        """``"{"`` before an object, ``"["`` before a list, empty at the end of the document."""
        if isinstance(self._event, self._yaml.MappingStartEvent):
            return "{"
        if isinstance(self._event, self._yaml.SequenceStartEvent):
            return "["
        return "" if self._event is None else "."

    def _begin(self, opening: str, closing: str) -> bool:
        if self.opening() != opening:
            self.refuse(f"{self._place()} is no {'list' if opening == '[' else 'mapping'}")
        self._advance()
        return self._goes_on(closing)

    def _goes_on(self, closing: str) -> bool:
        ends = (self._yaml.SequenceEndEvent, self._yaml.MappingEndEvent)
        is_over = isinstance(self._event, ends)
        if is_over:
            self._advance()
        return not is_over

    def _key(self) -> str:
        if not isinstance(self._event, self._yaml.ScalarEvent):
            self.refuse(f"{self._place()} is no key")
        key = str(self._event.value)
        self._advance()
        return key

    def value(self) -> Any:
        """Take what comes next as a whole: no more than `MOST_VALUES`, and `DEEPEST` levels."""
        self._left = MOST_VALUES
        return self._value(0)

    def _value(self, depth: int) -> Any:
        self._left -= 1
        if depth > DEEPEST or not self._left:
            what = "nested too deeply" if depth > DEEPEST else f"more than {MOST_VALUES} values"
            self.refuse(f"{self._place()} is {what}")
        opening = self.opening()
        if opening == "[":
            return [self._value(depth + 1) for _ in self.items()]
        if opening == "{":
            found: dict[str, Any] = {}
            for key in self.members():
                if key in found:
                    self.refuse(f"key {key[:40]!r} is there twice")
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
            self.refuse(f"is cut off, or not YAML: {' '.join(str(error).split())[:200]}")

    def _place(self) -> str:
        mark = getattr(self._event, "start_mark", None)
        return f"line {mark.line + 1}" if mark else "its end"

    def refuse(self, reason: str) -> NoReturn:
        """Say what is wrong; the reason tells where."""
        raise FileFormatError(self._path, reason) from None


def _resolved(text: str) -> Any:
    """Resolve a scalar without quotes to a number, a truth value, None or text."""
    if text in _NAMED:
        return _NAMED[text]
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if set(text) & set(".eE") else int(text)

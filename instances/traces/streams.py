"""Documents of any size, JSON or YAML, taken apart piece by piece: one item of one list is held."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from types import SimpleNamespace
from typing import IO, Any, NoReturn

from instances.errors import FileFormatError
from instances.files import DEEPEST, DuplicateKeyError, unique_keys

CHUNK = 2**18
"""Characters read at a time."""

LONGEST_ITEM = 2**24
"""Characters of a JSON value that is taken as a whole."""

PIECES = 2**14
"""Pieces of JSON into which YAML is rewritten at a time."""

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


# --- JSON ---------------------------------------------------------------------------------------

_WHITE = " \t\n\r"
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


class JsonStream:
    """A pointer into JSON text; an item or a member that is given must be taken or skipped.

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
        self._path = path
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


class YamlStream(JsonStream):
    """A pointer into a YAML document, rewritten as JSON while it is read.

    Aliases are not followed: they are None.

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
        texts = chain([head] if head else [], iter(lambda: stream.read(CHUNK), ""))
        pieces = self._pieces(SimpleNamespace(read=lambda size: next(texts, "")))
        joined: Any = SimpleNamespace(read=lambda size: "".join(islice(pieces, PIECES)))
        super().__init__(joined, path)

    def _pieces(self, text: Any) -> Iterator[str]:
        """Yield JSON piece by piece; of every open list or object the parts are counted."""
        try:
            import yaml
        except ImportError:
            self.refuse("is YAML: install PyYAML (pip install 'llm-hindsight[yaml]')")
        counts: list[int] = []
        closings: list[str] = []
        try:
            for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                if isinstance(event, yaml.CollectionEndEvent):
                    counts.pop()
                    yield closings.pop()
                if not isinstance(event, yaml.NodeEvent):
                    continue
                is_key = bool(closings) and closings[-1] == "}" and counts[-1] % 2 == 0
                if counts:
                    yield "" if not counts[-1] else "," if is_key or closings[-1] == "]" else ":"
                    counts[-1] += 1
                if isinstance(event, yaml.ScalarEvent):
                    is_plain = event.implicit[0] and not is_key
                    yield json.dumps(_resolved(event.value) if is_plain else event.value)
                elif is_key:
                    self.refuse(f"line {event.start_mark.line + 1} is no key")
                elif isinstance(event, yaml.CollectionStartEvent):
                    is_list = isinstance(event, yaml.SequenceStartEvent)
                    counts.append(0)
                    closings.append("]" if is_list else "}")
                    yield "[" if is_list else "{"
                    if len(counts) > DEEPEST:
                        self.refuse("is nested too deeply")
                else:
                    yield "null"
                yield "" if counts else "\n"
        except yaml.YAMLError as error:
            self.refuse(f"is cut off, or not YAML: {' '.join(str(error).split())[:200]}")

    def refuse(self, reason: str) -> NoReturn:
        """Say what is wrong."""
        raise FileFormatError(self._path, reason.replace("not JSON", "not YAML")) from None


def _resolved(text: str) -> Any:
    """Resolve a scalar without quotes to a number, a truth value, None or text."""
    if text in _NAMED:
        return _NAMED[text]
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if set(text) & set(".eE") else int(text)

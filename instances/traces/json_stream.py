"""JSON of any size, taken apart piece by piece: what is held is one item of one list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any, NoReturn

from instances.errors import FileFormatError
from instances.files import DuplicateKeyError, unique_keys

CHUNK = 2**18
"""Characters read at a time."""

LONGEST_ITEM = 2**24
"""Characters of a value that is taken as a whole."""

_WHITE = " \t\n\r"
_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)


class JsonStream:
    """A pointer into JSON text; whoever is given an item or a member must take or skip it.

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
        self._stream = stream
        self._path = path
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

    def documents(self) -> Iterator[None]:
        """Stand before each value at the top."""
        while self.opening():
            yield

    def items(self) -> Iterator[None]:
        """Stand before each item of the list that comes next.

        Raises
        ------
        FileFormatError
            It is no list, or no JSON.
        """
        self._expect("[")
        if self.opening() == "]":
            self._at += 1
            return
        while True:
            yield
            if self._separator("]"):
                return

    def members(self) -> Iterator[str]:
        """Stand before the value of each key of the object that comes next.

        Raises
        ------
        FileFormatError
            It is no object, or no JSON.
        """
        self._expect("{")
        if self.opening() == "}":
            self._at += 1
            return
        while True:
            self._meet('"', "a key")
            key = self.value()
            self._expect(":")
            yield key
            if self._separator("}"):
                return

    def value(self) -> Any:
        """What comes next, as a whole.

        Raises
        ------
        FileFormatError
            No JSON, cut off, too long, a key given twice, or nested too deeply.
        """
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

    def skip(self) -> None:
        """Pass over what comes next, item by item."""
        opening = self.opening()
        if opening == "[":
            for _ in self.items():
                self.value()
        elif opening == "{":
            for _ in self.members():
                self.value()
        else:
            self.value()

    def _more(self) -> bool:
        """Read on; False at the end. What has been passed is dropped, what has not may grow."""
        if self._ended:
            return False
        self._dropped += self._at
        kept = self._text[self._at :]
        more = self._stream.read(max(CHUNK, len(kept)))
        self._text, self._at, self._ended = kept + more, 0, not more
        return bool(more)

    def _meet(self, characters: str, name: str) -> str:
        """Stand before one of these characters, or refuse what is there."""
        found = self.opening()
        if not found or found not in characters:
            self.refuse(f"is not JSON: expecting {name}" if found else "is cut off")
        return found

    def _expect(self, character: str) -> None:
        self._meet(character, repr(character))
        self._at += 1

    def _separator(self, closing: str) -> bool:
        """Pass a comma, or the end of the list or object."""
        found = self._meet(f",{closing}", f"',' or {closing!r}")
        self._at += 1
        return found == closing

    def refuse(self, reason: str) -> NoReturn:
        """Say what is wrong, and where.

        Raises
        ------
        FileFormatError
            Always.
        """
        place = self._dropped + self._at
        raise FileFormatError(self._path, f"{reason} (at character {place})") from None

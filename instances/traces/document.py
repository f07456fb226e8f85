"""What JSON and YAML documents have in common while they are taken apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class Document(Protocol):
    """A pointer into a document; whoever is given an item or a member must take or skip it."""

    def opening(self) -> str:
        """``"{"`` before an object, ``"["`` before a list, empty at the end of the document."""

    def documents(self) -> Iterator[None]:
        """Stand before each value at the top."""

    def items(self) -> Iterator[None]:
        """Stand before each item of the list that comes next."""

    def members(self) -> Iterator[str]:
        """Stand before the value of each key of the object that comes next."""

    def value(self) -> Any:
        """What comes next, as a whole."""

    def skip(self) -> None:
        """Pass over what comes next."""

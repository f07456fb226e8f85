"""Tokens set aside for running requests."""

from __future__ import annotations


class Reservations:
    """Tokens set aside for running requests."""

    def __init__(self) -> None:
        self.total = 0
        self._tokens: dict[int, int] = {}

    def add(self, index: int, tokens: int) -> None:
        """Reserve tokens for a request."""
        self._tokens[index] = tokens
        self.total += tokens

    def drop(self, index: int) -> None:
        """Give back what a request has reserved, if anything."""
        self.total -= self._tokens.pop(index, 0)

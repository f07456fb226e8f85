"""Blocks of the KV cache that are free, and what those freed last still hold."""

from __future__ import annotations

from collections import OrderedDict


class BlockPool:
    """Free blocks of the KV cache, and the tokens that they still hold of requests that left.

    A block keeps the tokens of the request that filled it until it is handed out to another. Empty
    blocks are handed out first, then the blocks freed longest ago. Of one request the last block
    goes before the first, so that a returning request finds the beginning of its tokens.

    Parameters
    ----------
    blocks : int
        Number of blocks of the machine, all of them free and empty.
    keeps : bool
        Whether the tokens of freed blocks may be found again; if not, only numbers are counted.
    """

    def __init__(self, blocks: int, *, keeps: bool) -> None:
        self.free = blocks
        self._keeps = keeps
        self._blank = blocks
        self._filled: OrderedDict[tuple[int, int], None] = OrderedDict()

    def take(self, blocks: int) -> None:
        """Hand out so many free blocks; at least so many must be free."""
        self.free -= blocks
        if not self._keeps:
            return
        blank = self._blank - blocks
        self._blank = blank if blank > 0 else 0
        for _ in range(-blank):
            self._filled.popitem(last=False)

    def give_back(self, owner: int, blocks: int, filled: int) -> None:
        """Free the blocks of a request; its first ``filled`` blocks may be found again."""
        self.free += blocks
        if not self._keeps:
            return
        self._blank += blocks - filled
        for position in reversed(range(filled)):
            self._filled[owner, position] = None

    def found(self, owner: int, most: int) -> int:
        """Return how many first blocks of a request still hold its tokens, at most ``most``."""
        count = 0
        if self._keeps:
            while count < most and (owner, count) in self._filled:
                count += 1
        return count

    def reclaim(self, owner: int, blocks: int) -> None:
        """Hand the first blocks of a returning request, which still hold its tokens, back to it."""
        self.free -= blocks
        for position in range(blocks):
            del self._filled[owner, position]

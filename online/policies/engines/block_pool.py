"""Blocks of the KV cache that are free, and what those freed last still hold."""

from __future__ import annotations

from collections import OrderedDict


class BlockPool:
    """The free blocks: first those that hold nothing of use, then the rest, oldest first.

    A block filled by a request keeps its tokens after the request has left it, until it is handed
    out again. The last block of a request is handed out before its first, so that what a request
    finds again is the beginning of what it had.

    Parameters
    ----------
    blocks : int
        How many there are, all of them free.
    keeps : bool
        Whether freed blocks are remembered at all.
    """

    def __init__(self, blocks: int, *, keeps: bool) -> None:
        self.free = blocks
        self._keeps = keeps
        self._blank = blocks
        self._filled: OrderedDict[tuple[int, int], None] = OrderedDict()

    def take(self, blocks: int) -> None:
        """Hand out free blocks, of which there must be as many."""
        self.free -= blocks
        if not self._keeps:
            return
        blank = self._blank - blocks
        self._blank = blank if blank > 0 else 0
        for _ in range(-blank):
            self._filled.popitem(last=False)

    def give_back(self, owner: int, blocks: int, filled: int) -> None:
        """Free the blocks of a request, of which the first ``filled`` may be found again."""
        self.free += blocks
        if not self._keeps:
            return
        self._blank += blocks - filled
        for position in reversed(range(filled)):
            self._filled[owner, position] = None

    def found(self, owner: int, most: int) -> int:
        """Blocks of a request that are still there, from its first one on, ``most`` at most."""
        count = 0
        if self._keeps:
            while count < most and (owner, count) in self._filled:
                count += 1
        return count

    def reclaim(self, owner: int, blocks: int) -> None:
        """Hand the first blocks of a request back to it."""
        self.free -= blocks
        for position in range(blocks):
            del self._filled[owner, position]

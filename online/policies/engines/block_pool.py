"""Free blocks of the KV cache, and the tokens that some of them still contain."""

from __future__ import annotations

from collections import OrderedDict


class BlockPool:
    """Free blocks of the KV cache, with a record of the requests whose tokens they still contain.

    A freed block keeps the tokens of its request until it is handed out again. Empty blocks are
    handed out first, then the blocks freed longest ago. Among the blocks of one request, the last
    is handed out before the first. So a preempted request that returns may find the first part of
    its tokens.

    Parameters
    ----------
    blocks : int
        Number of blocks of the machine, all of them free and empty.
    keeps : bool
        Whether a request that returns may find its tokens in freed blocks. If not, the pool only
        counts free blocks.
    """

    def __init__(self, blocks: int, *, keeps: bool) -> None:
        self.free = blocks
        self._keeps = keeps
        self._blank = blocks
        self._filled: OrderedDict[tuple[int, int], None] = OrderedDict()

    def take(self, blocks: int) -> None:
        """Hand out ``blocks`` blocks, whose tokens are lost. At least so many must be free."""
        self.free -= blocks
        if not self._keeps:
            return
        blank = self._blank - blocks
        self._blank = blank if blank > 0 else 0
        for _ in range(-blank):
            self._filled.popitem(last=False)

    def give_back(self, owner: int, blocks: int, filled: int) -> None:
        """Free all blocks of request ``owner``. Their number is ``blocks``.

        The first ``filled`` of them are full of its tokens. The request may find these tokens again
        when it returns.
        """
        self.free += blocks
        if not self._keeps:
            return
        self._blank += blocks - filled
        for position in reversed(range(filled)):
            self._filled[owner, position] = None

    def found(self, owner: int, most: int) -> int:
        """Return how many of its first ``most`` blocks request ``owner`` could find again.

        It finds its blocks again, from the first one on, as long as they are free and still contain
        its tokens.
        """
        count = 0
        if self._keeps:
            while count < most and (owner, count) in self._filled:
                count += 1
        return count

    def reclaim(self, owner: int, blocks: int) -> None:
        """Give request ``owner``, which returns, its first ``blocks`` blocks and tokens back."""
        self.free -= blocks
        for position in range(blocks):
            del self._filled[owner, position]

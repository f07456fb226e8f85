"""KV-cache memory over time: profiles of what ran, and forecasts of what will.

A request started at t with lengths (s, o) holds s + (r - t) tokens in round r, t < r <= t + o, or
what the memory rule makes of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from instances.arrays import IntArray


def held_tokens(
    moments: IntArray,
    begins: IntArray,
    stored: IntArray,
    rounds: IntArray,
    block_size: int = 1,
    growth: int | IntArray = 1,
) -> IntArray:
    """Tokens held in some rounds, in whole blocks, by sorting alone.

    Parameters
    ----------
    moments : int64 array, shape (k,)
        Rounds, of any size.
    begins, stored, rounds : int64 array, shape (n,)
        Each run occupies rounds b+1 .. b+rounds and stores ``stored`` + ``growth``, ``stored`` + 2
        ``growth``, ... tokens.
    block_size : int, default 1
        Tokens of a block.
    growth : int or int64 array, shape (n,), default 1
        Tokens that a round adds, >= 0.

    Returns
    -------
    int64 array, shape (k,)
        What all runs hold.
    """
    growth = np.broadcast_to(np.asarray(growth, dtype=np.int64), begins.shape)
    ends = begins + rounds
    if block_size == 1:
        # In round r a run holds (stored - growth b) + growth r from its begin to its end.
        changes = np.concatenate([begins + 1, ends + 1])
        ramps = (stored - growth * begins, growth)
        amounts = (np.concatenate([one, -one]) for one in ramps)
        constant, slope = _summed(moments, changes, *amounts)
        return constant + slope * moments
    first = -(-(stored + growth) // block_size)
    last = -(-(stored + growth * rounds) // block_size)
    more = last - first
    run = np.repeat(np.arange(len(more)), more)
    # The j-th block more is taken by the first round that the blocks before it cannot store.
    nth = np.arange(len(run)) - np.repeat(np.cumsum(more) - more, more)
    offset = ((first[run] + nth) * block_size - stored[run]) // growth[run] + 1
    changes = np.concatenate([begins + 1, begins[run] + offset, ends + 1])
    blocks = np.concatenate([first, np.ones_like(run), -last])
    (held,) = _summed(moments, changes, blocks)
    return held * block_size


def _summed(moments: IntArray, changes: IntArray, *amounts: IntArray) -> list[IntArray]:
    """Add up, for each moment, each kind of amounts of all changes up to it."""
    order = np.argsort(changes, kind="stable")
    places = np.searchsorted(changes[order], moments, side="right")
    return [np.append(0, np.cumsum(one[order]))[places] for one in amounts]


class MemoryForecast:
    """Forecast of the tokens held in every later round if each running request runs to its end.

    Answers the look-ahead test of [J25] Equation (5) in O(log k) for k running requests: memory
    grows between completions, so it is enough to look at completion rounds. At the end e of a
    running request the newcomer (s, o) started at t holds s + e - t, hence it fits there iff
    ``memory(e) + e <= M - s + t``; the running maximum of ``memory(e) + e`` over increasing e
    covers every end up to t + o at once.
    """

    def __init__(self, memory_limit: int) -> None:
        self._limit = memory_limit
        self.clear()

    def clear(self) -> None:
        """Forget every request."""
        # Per distinct end, the requests that end there and the sum of their s - t, by end.
        self._ends: list[int] = []
        self._group_counts: list[int] = []
        self._group_bases: list[int] = []
        self._total = 0
        self._stale = True
        self._counts: IntArray = np.zeros(1, dtype=np.int64)
        self._bases: IntArray = np.zeros(1, dtype=np.int64)
        self._peaks: IntArray = np.zeros(0, dtype=np.int64)
        self._ceilings: IntArray = np.zeros(0, dtype=np.int64)

    def __len__(self) -> int:
        return self._total

    def add(self, start_time: int, prompt_length: int, rounds_to_run: int) -> None:
        """Count a request started at ``start_time`` that will run ``rounds_to_run`` rounds."""
        self._count(start_time + rounds_to_run, 1, prompt_length - start_time)

    def remove(self, start_time: int, prompt_length: int, rounds_to_run: int) -> None:
        """Forget a request counted by `add` with the same arguments."""
        self._count(start_time + rounds_to_run, -1, start_time - prompt_length)

    def _count(self, end: int, more: int, base: int) -> None:
        position = bisect_left(self._ends, end)
        if position == len(self._ends) or self._ends[position] != end:
            self._ends.insert(position, end)
            self._group_counts.insert(position, 0)
            self._group_bases.insert(position, 0)
        self._group_counts[position] += more
        self._group_bases[position] += base
        if not self._group_counts[position]:
            del self._ends[position], self._group_counts[position], self._group_bases[position]
        self._total += more
        self._stale = True

    def advance(self, now: int) -> None:
        """Release the requests completed by round ``now``."""
        position = bisect_right(self._ends, now)
        if position:
            self._total -= sum(self._group_counts[:position])
            del self._ends[:position], self._group_counts[:position], self._group_bases[:position]
            self._stale = True

    def next_end(self) -> int | None:
        """The earliest completion still ahead, or None when nothing runs."""
        return self._ends[0] if self._ends else None

    def memory_at(self, round_index: int) -> int:
        """Tokens held in a later round by the requests counted so far."""
        self._refresh()
        first = bisect_left(self._ends, round_index)
        return int(self._bases[first] + self._counts[first] * round_index)

    def fits(self, prompt_length: int, rounds_to_run: int, start_time: int) -> bool:
        """Return whether a newcomer started at ``start_time`` keeps every later round within M."""
        self._refresh()
        end = start_time + rounds_to_run
        covered = bisect_right(self._ends, end)
        if covered:
            if self._ends[0] > start_time:
                ceiling = self._ceilings[covered - 1]
            else:
                # Asked about a start beyond completions not yet released by `advance`.
                ahead = bisect_right(self._ends, start_time)
                ceiling = self._peaks[ahead:covered].max(initial=0)
            if ceiling + prompt_length - start_time > self._limit:
                return False
        return self.memory_at(end) + prompt_length + rounds_to_run <= self._limit

    def earliest_fit(
        self, prompt_length: int, rounds_to_run: int, first: int, last: int
    ) -> int | None:
        """The first start in ``first .. last`` that fits, if no request is added meanwhile.

        ``last`` must lie before the next completion (`next_end`), where the forecast changes.
        Returns None when no start in the range fits.
        """
        if last < first:
            return None
        self._refresh()
        # Piece k: the newcomer ends after the k-th completion and by the next one. The memory in
        # its own last round grows with its start there, and that at the completions it outlives
        # falls, so the first start that these leave decides, however long the piece.
        ends = np.array(self._ends, dtype=np.int64) - rounds_to_run
        lows = np.full(len(ends) + 1, first, dtype=np.int64)
        highs = np.full(len(ends) + 1, last, dtype=np.int64)
        outlived = self._ceilings + (prompt_length - self._limit)
        lows[1:] = np.maximum(first, np.maximum(ends + 1, outlived))
        highs[:-1] = np.minimum(last, ends)
        own = self._bases + self._counts * (lows + rounds_to_run) + prompt_length + rounds_to_run
        fitting = lows[(lows <= highs) & (own <= self._limit)]
        return int(fitting.min()) if len(fitting) else None

    def _refresh(self) -> None:
        if not self._stale:
            return
        groups = len(self._ends)
        ends = np.array(self._ends, dtype=np.int64)
        # Suffix sums: entry k covers the requests that end at or after the k-th end.
        self._counts = np.zeros(groups + 1, dtype=np.int64)
        self._bases = np.zeros(groups + 1, dtype=np.int64)
        self._counts[:groups] = np.array(self._group_counts, dtype=np.int64)[::-1].cumsum()[::-1]
        self._bases[:groups] = np.array(self._group_bases, dtype=np.int64)[::-1].cumsum()[::-1]
        self._peaks = self._bases[:groups] + (self._counts[:groups] + 1) * ends
        self._ceilings = np.maximum.accumulate(self._peaks)
        self._stale = False

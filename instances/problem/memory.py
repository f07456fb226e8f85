"""KV-cache memory over time: profiles of what ran, and forecasts of what will.

A request started at t with lengths (s, o) holds s + (r - t) tokens in round r, t < r <= t + o, or
what the memory rule makes of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from instances.arrays import IntArray

from .memory_rule import TOKENS, MemoryRule


def memory_profile(
    start_times: IntArray,
    prompt_lengths: IntArray,
    rounds_run: IntArray,
    horizon: int,
    rule: MemoryRule = TOKENS,
) -> IntArray:
    """Tokens held in each round.

    Parameters
    ----------
    start_times, prompt_lengths, rounds_run : int64 array, shape (n,)
        Each run occupies rounds t+1 .. t+rounds_run with s + 1, s + 2, ... tokens.
    horizon : int
        Last round of the profile, at least every end.
    rule : MemoryRule, default TOKENS
        How memory is counted.

    Returns
    -------
    int64 array, shape (horizon + 1,)
        Entry r is the memory of round r; entry 0 is 0.
    """
    if rule.block_size > 1:
        stored = prompt_lengths - rule.unstored
        changes = block_changes(start_times, stored, rounds_run, rule.block_size)
        return sum_changes(*changes, horizon) * rule.block_size
    # Memory is a sum of ramps (s - t) + r on (t, t + o]: two difference arrays carry it.
    constant = np.zeros(horizon + 2, dtype=np.int64)
    slope = np.zeros(horizon + 2, dtype=np.int64)
    ends = start_times + rounds_run
    base = prompt_lengths - rule.unstored - start_times
    np.add.at(constant, start_times + 1, base)
    np.add.at(constant, ends + 1, -base)
    np.add.at(slope, start_times + 1, 1)
    np.add.at(slope, ends + 1, -1)
    rounds = np.arange(horizon + 2, dtype=np.int64)
    return (np.cumsum(constant) + np.cumsum(slope) * rounds)[:-1]


def memory_at_ends(
    start_times: IntArray,
    prompt_lengths: IntArray,
    rounds_run: IntArray,
    rule: MemoryRule = TOKENS,
) -> tuple[IntArray, IntArray]:
    """Rounds in which something ends, and the tokens held in each, by sorting alone.

    Between ends memory only grows, so these rounds hold the peaks, whatever the horizon.

    Parameters
    ----------
    start_times, prompt_lengths, rounds_run : int64 array, shape (n,)
        As in `memory_profile`; starts may be negative.
    rule : MemoryRule, default TOKENS
        How memory is counted.

    Returns
    -------
    int64 array, int64 array
        Distinct ends, increasing, and the memory in each, of equal length.
    """
    ends = start_times + rounds_run
    rounds = np.unique(ends)
    if rule.block_size > 1:
        stored = prompt_lengths - rule.unstored
        moments, change = block_changes(start_times, stored, rounds_run, rule.block_size)
        order = np.argsort(moments, kind="stable")
        summed = np.concatenate([[0], np.cumsum(change[order])])
        changed = np.searchsorted(moments[order], rounds, side="right")
        return rounds, summed[changed] * rule.block_size
    base = prompt_lengths - rule.unstored - start_times
    by_start = np.argsort(start_times, kind="stable")
    by_end = np.argsort(ends, kind="stable")
    # In round r those with t < r <= end hold (s - t) + r: what started before r, less what ended
    # before r.
    started = np.searchsorted(start_times[by_start], rounds, side="left")
    ended = np.searchsorted(ends[by_end], rounds, side="left")
    started_base = np.concatenate([[0], np.cumsum(base[by_start])])
    ended_base = np.concatenate([[0], np.cumsum(base[by_end])])
    memory = started_base[started] - ended_base[ended] + (started - ended) * rounds
    return rounds, memory


def block_changes(
    begins: IntArray, stored: IntArray, rounds: IntArray, block_size: int, growth: Any = 1
) -> tuple[IntArray, IntArray]:
    """Compute when blocks are taken and given back.

    Parameters
    ----------
    begins, stored, rounds : int64 array, shape (n,)
        Each run occupies rounds b+1 .. b+rounds and stores ``stored`` + ``growth``, ``stored`` + 2
        ``growth``, ... tokens.
    block_size : int
        Tokens of a block.
    growth : int or int64 array, shape (n,), default 1
        Tokens that a round adds, >= 0.

    Returns
    -------
    int64 array, int64 array
        Rounds, in any order, and by how much the blocks held change with each.
    """
    growth = np.broadcast_to(np.asarray(growth, dtype=np.int64), begins.shape)
    first = -(-(stored + growth) // block_size)
    last = -(-(stored + growth * rounds) // block_size)
    more = last - first
    run = np.repeat(np.arange(len(more)), more)
    # The j-th block more is taken by the first round that the blocks before it cannot store.
    nth = np.arange(len(run)) - np.repeat(np.cumsum(more) - more, more)
    offset = ((first[run] + nth) * block_size - stored[run]) // growth[run] + 1
    return (
        np.concatenate([begins + 1, begins[run] + offset, begins + rounds + 1]),
        np.concatenate([first, np.ones_like(run), -last]),
    )


def sum_changes(moments: IntArray, changes: IntArray, horizon: int) -> IntArray:
    """Add up changes at moments 0 .. ``horizon`` + 1: shape (horizon + 1,)."""
    change = np.zeros(horizon + 2, dtype=np.int64)
    np.add.at(change, moments, changes)
    summed: IntArray = np.cumsum(change)[:-1]
    return summed


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
        end, base = start_time + rounds_to_run, prompt_length - start_time
        position = bisect_left(self._ends, end)
        if position < len(self._ends) and self._ends[position] == end:
            self._group_counts[position] += 1
            self._group_bases[position] += base
        else:
            self._ends.insert(position, end)
            self._group_counts.insert(position, 1)
            self._group_bases.insert(position, base)
        self._total += 1
        self._stale = True

    def remove(self, start_time: int, prompt_length: int, rounds_to_run: int) -> None:
        """Forget a request counted by `add` with the same arguments."""
        end, base = start_time + rounds_to_run, prompt_length - start_time
        position = bisect_left(self._ends, end)
        self._group_counts[position] -= 1
        self._group_bases[position] -= base
        if not self._group_counts[position]:
            del self._ends[position], self._group_counts[position], self._group_bases[position]
        self._total -= 1
        self._stale = True

    def clear(self) -> None:
        """Forget every request."""
        self._ends.clear()
        self._group_counts.clear()
        self._group_bases.clear()
        self._total = 0
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
        """Tell whether a newcomer started at ``start_time`` keeps every later round within M."""
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

"""Schedules of memory in blocks: the earliest starts that fit, and ruin and recreate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit
from instances import Instance, Schedule
from instances.arrays import FloatArray, IntArray

LONGEST_PROFILE = 50_000_000
"""Rounds up to which schedules are improved."""

MOST_REMOVED = 12
"""Requests that one move takes out, at most."""

MOVES = 5_000
"""Moves between two looks at the clock."""

PATIENCE = 30
"""Passes without a better schedule after which the search ends."""


class BlockColumns(NamedTuple):
    """Requests column by column, and the blocks they share, as compiled loops take them.

    Attributes
    ----------
    stored, output_lengths : int64 array, shape (n,)
        Tokens stored before the first round, and rounds.
    arrival_times : int64 array, shape (n,)
        Rounds.
    block_size, limit : int
        Tokens of a block, and usable blocks.
    """

    stored: IntArray
    output_lengths: IntArray
    arrival_times: IntArray
    block_size: int
    limit: int


@njit
def _hold(profile: IntArray, requests: BlockColumns, i: int, start: int, sign: int) -> None:
    stored, output, _, size, _ = requests
    for k in range(1, output[i] + 1):
        profile[start + k] += sign * (-(-(stored[i] + k) // size))


@njit
def _earliest_fit(profile: IntArray, requests: BlockColumns, i: int, first: int) -> int:
    """The first start from ``first`` on at which request i fits beside the profile."""
    stored, output, _, size, limit = requests
    start = first
    token = output[i]
    while token >= 1:
        at = start + token
        if at >= len(profile):
            return start
        free = limit - profile[at]
        if -(-(stored[i] + token) // size) <= free:
            token -= 1
            continue
        # At this round it may have come no further than these blocks go, or not have begun.
        start = at - max(0, free * size - stored[i])
        token = output[i]
    return start


@njit
def _shift_left(
    profile: IntArray, requests: BlockColumns, order: IntArray, starts: IntArray
) -> None:
    for i in order:
        _hold(profile, requests, i, starts[i], -1)
        starts[i] = _earliest_fit(profile, requests, i, requests.arrival_times[i])
        _hold(profile, requests, i, starts[i], 1)


@njit
def _recreate(
    profile: IntArray,
    requests: BlockColumns,
    order: IntArray,
    starts: IntArray,
    pivots: IntArray,
    counts: IntArray,
    keys: FloatArray,
) -> None:
    """Moves that take out requests next to each other in ``order`` and put them back by key."""
    output, arrival = requests.output_lengths, requests.arrival_times
    for move in range(len(pivots)):
        removed = order[pivots[move] : pivots[move] + counts[move]]
        old = starts[removed].copy()
        earliest = old.min()
        for i in removed:
            _hold(profile, requests, i, starts[i], -1)
        again = np.argsort(keys[move, : len(removed)] * (1.0 + output[removed]))
        placed = 0
        for position in again:
            i = removed[position]
            # Before the first of them nothing changed: whoever ends by then fits no better.
            first = max(arrival[i], earliest - output[i])
            starts[i] = _earliest_fit(profile, requests, i, first)
            if starts[i] + output[i] >= len(profile):
                break
            _hold(profile, requests, i, starts[i], 1)
            placed += 1
        if placed < len(removed) or starts[removed].sum() > old.sum():
            for position in again[:placed]:
                _hold(profile, requests, removed[position], starts[removed[position]], -1)
            starts[removed] = old
            for i in removed:
                _hold(profile, requests, i, starts[i], 1)


@njit
def _place(profile: IntArray, requests: BlockColumns, order: IntArray, starts: IntArray) -> None:
    for i in order:
        starts[i] = _earliest_fit(profile, requests, i, requests.arrival_times[i])
        _hold(profile, requests, i, starts[i], 1)


class BlockSchedules:
    """Schedules of one instance by its memory rule.

    Parameters
    ----------
    instance : Instance
        Whose memory is counted by any rule.
    """

    def __init__(self, instance: Instance) -> None:
        rule = instance.memory_rule
        self._instance = instance
        self._requests = BlockColumns(
            instance.prompt_lengths - rule.unstored,
            instance.output_lengths,
            instance.arrival_times,
            rule.block_size,
            rule.usable_blocks(instance.memory_limit),
        )
        # One after another they end by then.
        self._longest = int(instance.arrival_times.max()) + instance.total_output_length

    @property
    def is_small(self) -> bool:
        """Whether a profile of the memory fits into memory."""
        return self._longest <= LONGEST_PROFILE

    def in_order(self, order: IntArray) -> Schedule:
        """Requests placed one by one, each as early as it fits beside those before it."""
        starts = np.zeros(len(self._instance), dtype=np.int64)
        _place(np.zeros(self._longest + 2, dtype=np.int64), self._requests, order, starts)
        return Schedule(self._instance, starts)

    def improve(
        self,
        schedule: Schedule,
        seed: int,
        should_stop: Callable[[], bool],
        found: Callable[[Schedule], object],
        patience: float = PATIENCE,
    ) -> None:
        """Shift requests left, then take a few out and put them back, keeping what is no worse.

        ``found`` is told of better schedules. The search ends when told to, or after so many passes
        without one as there is patience for.
        """
        starts = schedule.start_times.copy()
        profile = np.zeros(max(self._longest, schedule.makespan) + 2, dtype=np.int64)
        held = schedule.memory_profile() // self._requests.block_size
        profile[: len(held)] = held
        rng = np.random.default_rng(seed)
        n = len(starts)
        best, idle = int(starts.sum()), 0
        while idle < patience and not should_stop():
            order = np.argsort(starts, kind="stable")
            _shift_left(profile, self._requests, order, starts)
            for _ in range(0, n if n > 1 else 0, MOVES):
                if should_stop():
                    break
                order = np.argsort(starts + rng.random(n) * 0.5, kind="stable")
                counts = rng.integers(2, min(n, MOST_REMOVED) + 1, min(n, MOVES))
                pivots = rng.integers(0, n - counts + 1)
                # From shortest first to a shuffle.
                keys = rng.random((len(counts), MOST_REMOVED)) + rng.choice(
                    [0, 1], (len(counts), 1)
                )
                _recreate(profile, self._requests, order, starts, pivots, counts, keys)
            idle += 1
            if int(starts.sum()) < best:
                best, idle = int(starts.sum()), 0
                found(Schedule(self._instance, starts))

"""Schedules of memory in blocks: the earliest starts that fit, and ruin and recreate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit
from instances import Instance, Schedule
from instances.arrays import FloatArray, IntArray, RequestColumns

from .schedule_decoder import LONGEST_PROFILE, earliest_fit, fit_in_order, hold

MOST_REMOVED = 12
"""Requests that one move takes out, at most."""

MOVES = 5_000
"""Moves between two looks at the clock."""

PATIENCE = 30
"""Passes without a better schedule after which the search ends."""


class Draws(NamedTuple):
    """Random numbers of some moves.

    Attributes
    ----------
    pivots, counts : int64 array, shape (moves,)
        Place in the order of the first request that is taken out, and how many are.
    keys : float64 array, shape (moves, `MOST_REMOVED`)
        The smallest key, times a round more than the request runs, is put back first.
    """

    pivots: IntArray
    counts: IntArray
    keys: FloatArray


@njit
def _recreate(
    profile: IntArray,
    requests: RequestColumns,
    block_size: int,
    order: IntArray,
    starts: IntArray,
    draws: Draws,
) -> None:
    """Make moves that take out requests next to each other in ``order`` and put them back."""
    prompt, output, arrival, limit = requests
    pivots, counts, keys = draws
    for move in range(len(pivots)):
        # Take a few out.
        removed = order[pivots[move] : pivots[move] + counts[move]]
        old = starts[removed].copy()
        earliest = old.min()
        for i in removed:
            hold(profile, starts[i], prompt[i], output[i], -1, block_size)
        # Put them back by key, each at its first fit.
        again = removed[np.argsort(keys[move, : len(removed)] * (1.0 + output[removed]))]
        placed = 0
        for i in again:
            # Before the first of them nothing changed: whoever ends by then fits no better.
            first = max(arrival[i], earliest - output[i])
            starts[i] = earliest_fit(profile, first, prompt[i], output[i], limit, block_size)
            if starts[i] < 0:
                break
            hold(profile, starts[i], prompt[i], output[i], 1, block_size)
            placed += 1
        # Undo what did not fit into the profile or is worse.
        if placed < len(removed) or starts[removed].sum() > old.sum():
            for i in again[:placed]:
                hold(profile, starts[i], prompt[i], output[i], -1, block_size)
            starts[removed] = old
            for i in removed:
                hold(profile, starts[i], prompt[i], output[i], 1, block_size)


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
        self._block_size = rule.block_size
        # Tokens stored before the first round, and usable blocks.
        self._requests = RequestColumns(
            instance.prompt_lengths - rule.unstored,
            instance.output_lengths,
            instance.arrival_times,
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
        profile = np.zeros(self._longest + 2, dtype=np.int64)
        fit_in_order(self._requests, order, starts, profile, False, self._block_size)
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
        held = schedule.memory_profile() // self._block_size
        profile[: len(held)] = held
        rng = np.random.default_rng(seed)
        n = len(starts)
        best, idle = int(starts.sum()), 0
        while idle < patience and not should_stop():
            order = np.argsort(starts, kind="stable")
            fit_in_order(self._requests, order, starts, profile, True, self._block_size)
            for _ in range(0, n if n > 1 else 0, MOVES):
                if should_stop():
                    break
                order = np.argsort(starts + rng.random(n) * 0.5, kind="stable")
                counts = rng.integers(2, min(n, MOST_REMOVED) + 1, min(n, MOVES))
                pivots = rng.integers(0, n - counts + 1)
                # From shortest first to a shuffle.
                shuffled = rng.random((len(counts), MOST_REMOVED))
                draws = Draws(pivots, counts, shuffled + rng.choice([0, 1], (len(counts), 1)))
                _recreate(profile, self._requests, self._block_size, order, starts, draws)
            idle += 1
            if int(starts.sum()) < best:
                best, idle = int(starts.sum()), 0
                found(Schedule(self._instance, starts))

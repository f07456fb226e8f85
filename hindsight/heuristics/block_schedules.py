"""Schedules with memory in blocks: earliest starts that fit, and ruin and recreate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit
from instances import Instance, Schedule
from instances.arrays import FloatArray, IntArray, RequestColumns

from .schedule_decoder import LONGEST_PROFILE, earliest_fit, fit_in_order, hold

MOST_REMOVED = 12
"""Most requests that one move removes."""

MOVES = 5_000
"""Moves between two polls of ``should_stop``."""

PATIENCE = 30
"""Passes without a better schedule after which the search ends."""


class Draws(NamedTuple):
    """Random numbers for a number of moves.

    Attributes
    ----------
    pivots, counts : int64 array, shape (moves,)
        Position in the order of the first request removed, and number of requests removed.
    keys : float64 array, shape (moves, `MOST_REMOVED`)
        Requests are put back in order of key times (output length + 1), smallest first.
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
    """Make moves that remove requests adjacent in ``order`` and put them back."""
    prompt, output, arrival, limit = requests
    pivots, counts, keys = draws
    for move in range(len(pivots)):
        # Remove some requests.
        removed = order[pivots[move] : pivots[move] + counts[move]]
        old = starts[removed].copy()
        earliest = old.min()
        for i in removed:
            hold(profile, starts[i], prompt[i], output[i], -1, block_size)
        # Put them back by key, each at its first fit.
        again = removed[np.argsort(keys[move, : len(removed)] * (1.0 + output[removed]))]
        placed = 0
        for i in again:
            # Nothing changed before the first of them: a request that ends by then fits no better.
            first = max(arrival[i], earliest - output[i])
            starts[i] = earliest_fit(profile, first, prompt[i], output[i], limit, block_size)
            if starts[i] < 0:
                break
            hold(profile, starts[i], prompt[i], output[i], 1, block_size)
            placed += 1
        # Undo a move that does not fit into the profile or is worse.
        if placed < len(removed) or starts[removed].sum() > old.sum():
            for i in again[:placed]:
                hold(profile, starts[i], prompt[i], output[i], -1, block_size)
            starts[removed] = old
            for i in removed:
                hold(profile, starts[i], prompt[i], output[i], 1, block_size)


class BlockSchedules:
    """Schedules of one instance under its memory rule.

    Parameters
    ----------
    instance : Instance
        An instance with any memory rule.
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
        # All requests one after another end by this round.
        self._longest = int(instance.arrival_times.max()) + instance.total_output_length

    @property
    def is_small(self) -> bool:
        """Tell whether the profile is small enough to be held in memory."""
        return self._longest <= LONGEST_PROFILE

    def in_order(self, order: IntArray) -> Schedule:
        """Place requests one by one, each as early as it fits beside the earlier ones."""
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
        """Shift requests left, then remove a few and put them back, keeping what is no worse.

        ``found`` is called with each better schedule. The search ends when ``should_stop`` returns
        True, or after ``patience`` passes without a better schedule.
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
                # Noise from almost none (shortest first) to a full shuffle.
                shuffled = rng.random((len(counts), MOST_REMOVED))
                draws = Draws(pivots, counts, shuffled + rng.choice([0, 1], (len(counts), 1)))
                _recreate(profile, self._requests, self._block_size, order, starts, draws)
            idle += 1
            if int(starts.sum()) < best:
                best, idle = int(starts.sum()), 0
                found(Schedule(self._instance, starts))

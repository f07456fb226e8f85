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
        Requests are put back in order of key times (output length + 1) / weight, smallest first.
    """

    pivots: IntArray
    counts: IntArray
    keys: FloatArray


class _Removed(NamedTuple):
    """Work space: the requests that a move takes out, by key, their starts and their keys."""

    requests: IntArray
    starts: IntArray
    keys: FloatArray


@njit
def _recreate(
    profile: IntArray,
    requests: RequestColumns,
    weights: IntArray,
    block_size: int,
    order: IntArray,
    starts: IntArray,
    draws: Draws,
    work: _Removed,
) -> None:
    """Make moves that remove requests adjacent in ``order`` and put them back."""
    prompt, output, arrival, limit = requests
    pivots, counts, keys = draws
    for move in range(len(pivots)):
        # Take a few out, and sort them by key.
        first, count = pivots[move], counts[move]
        again, old, sorting = work
        before, earliest = 0, starts[order[first]]
        for k in range(count):
            i = order[first + k]
            hold(profile, starts[i], prompt[i], output[i], -1, block_size)
            before, earliest = before + weights[i] * starts[i], min(earliest, starts[i])
            key = keys[move, k] * (1.0 + output[i]) / weights[i]
            p = k
            while p > 0 and sorting[p - 1] > key:
                again[p], old[p], sorting[p] = again[p - 1], old[p - 1], sorting[p - 1]
                p -= 1
            again[p], old[p], sorting[p] = i, starts[i], key
        # Put them back by key, each at its first fit.
        placed, after = 0, 0
        for i in again[:count]:
            # Before the first of them nothing changed: whoever ends by then fits no better.
            begin = max(arrival[i], earliest - output[i])
            starts[i] = earliest_fit(profile, begin, prompt[i], output[i], limit, block_size)
            if starts[i] < 0:
                break
            hold(profile, starts[i], prompt[i], output[i], 1, block_size)
            placed, after = placed + 1, after + weights[i] * starts[i]
        # Undo what did not fit into the profile or is worse.
        if placed < count or after > before:
            for i in again[:placed]:
                hold(profile, starts[i], prompt[i], output[i], -1, block_size)
            for k in range(count):
                i = again[k]
                starts[i] = old[k]
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
        ).read_only()
        # One after another they end by then.
        self._longest = int(instance.arrival_times.max() + instance.output_lengths.sum())

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
        room = np.zeros((2, MOST_REMOVED), dtype=np.int64)
        work = _Removed(room[0], room[1], np.zeros(MOST_REMOVED))
        weights = self._instance.weights
        best, idle = int(weights @ starts), 0
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
                size = self._block_size
                _recreate(profile, self._requests, weights, size, order, starts, draws, work)
            idle += 1
            if int(weights @ starts) < best:
                best, idle = int(weights @ starts), 0
                found(Schedule(self._instance, starts))

"""Every request of a schedule to the earliest start at which it fits, until nothing moves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.runtime.clock import Slices
from hindsight.runtime.compilation import njit
from instances import Instance, Schedule
from instances.arrays import IntArray

from .schedule_decoder import earliest_fit, hold

LONGEST_PROFILE = 50_000_000
"""Rounds up to which schedules are shifted left."""


@njit
def _shift_left(
    first: int,
    last: int,
    order: IntArray,
    starts: IntArray,
    profile: IntArray,
    prompt: IntArray,
    output: IntArray,
    arrival: IntArray,
    limit: int,
) -> None:
    for position in range(first, last):
        i = order[position]
        hold(profile, starts[i], prompt[i], output[i], -1)
        starts[i] = earliest_fit(profile, arrival[i], prompt[i], output[i], limit)
        hold(profile, starts[i], prompt[i], output[i], 1)


def shift_left(
    instance: Instance, start_times: IntArray, should_stop: Callable[[], bool]
) -> IntArray:
    """Move requests, in order of start, to the earliest start at which they fit beside all others.

    Passes go on until nothing moves. Feasible and no worse whenever it is stopped; start times are
    int64, shape (n,), of a feasible schedule.
    """
    starts = np.array(start_times, dtype=np.int64)
    makespan = Schedule(instance, starts).makespan
    if makespan > LONGEST_PROFILE:
        return starts
    profile = np.zeros(makespan + 2, dtype=np.int64)
    profile[: makespan + 1] = Schedule(instance, starts).memory_profile()
    columns = (
        instance.prompt_lengths.copy(),
        instance.output_lengths.copy(),
        instance.arrival_times.copy(),
    )
    n = len(instance)
    slices = Slices()
    while True:
        before = int(starts.sum())
        order = np.argsort(starts, kind="stable")
        first = 0
        while first < n:
            if should_stop():
                return starts
            with slices.next(n - first) as count:
                last = first + count
                _shift_left(first, last, order, starts, profile, *columns, instance.memory_limit)
            first = last
        if int(starts.sum()) == before:
            return starts

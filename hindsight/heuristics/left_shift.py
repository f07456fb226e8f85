"""Every request of a schedule to the earliest start at which it fits, until nothing moves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.runtime.clock import StoppedEarlyError, timed_slices
from hindsight.runtime.compilation import njit
from instances import Instance, Schedule
from instances.arrays import IntArray, RequestColumns

from .schedule_decoder import earliest_fit, hold

LONGEST_PROFILE = 50_000_000
"""Rounds up to which schedules are shifted left."""


@njit
def _shift_left(
    requests: RequestColumns,
    first: int,
    last: int,
    order: IntArray,
    starts: IntArray,
    profile: IntArray,
) -> None:
    prompt, output, arrival, limit = requests
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
    moved = True
    while moved and not should_stop():
        before = int(starts.sum())
        order = np.argsort(starts, kind="stable")
        try:
            for part in timed_slices(len(instance), should_stop):
                _shift_left(instance.columns, part.start, part.stop, order, starts, profile)
        except StoppedEarlyError:
            break
        moved = int(starts.sum()) < before
    return starts

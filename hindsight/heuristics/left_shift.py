"""Every request of a schedule to the earliest start at which it fits, until nothing moves."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from hindsight.runtime.compilation import njit
from instances import Instance, Schedule
from instances.arrays import IntArray, RequestColumns

from .beam_search import SLICE_SECONDS
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
    n = len(instance)
    step = 1
    while True:
        before = int(starts.sum())
        order = np.argsort(starts, kind="stable")
        first = 0
        while first < n:
            if should_stop():
                return starts
            mark = time.perf_counter()
            last = min(n, first + step)
            _shift_left(instance.columns, first, last, order, starts, profile)
            first = last
            spent = time.perf_counter() - mark
            if spent > 2 * SLICE_SECONDS:
                step = max(1, step // 2)
            elif spent < SLICE_SECONDS:
                step *= 2
        if int(starts.sum()) == before:
            return starts

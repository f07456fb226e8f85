"""Feasible schedules of large instances by beam search, around any order of the requests.

The search (Ow and Morton 1988, "Filtered beam search in scheduling") keeps the ``width`` most
promising partial schedules and places one more request in each at a time; what promising means is
said in `hindsight.beam_kernels`. Unlike the prefix rule it may pick, at every start, whichever of
the next requests leaves the least memory unused later. Time and memory grow with n times the
width, and hardly with the horizon.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from instances import Instance
from instances.instance import IntArray

from .beam_kernels import PARENT, FloatArray, grow, reference_fluid

WINDOW = 256
"""Ranks among which a partial schedule may choose, from its first unplaced request on."""

SLICE_SECONDS = 0.05
"""The clock is looked at about this often."""


@dataclass(frozen=True)
class BeamSettings:
    """What one beam search does; any settings give feasible schedules.

    Attributes
    ----------
    width : partial schedules kept, >= 1.
    choices : requests tried next in each of them, >= 1.
    preference : g of `hindsight.beam_kernels`.
    efficiency : share of the memory that the fluid of unplaced requests can use.
    """

    width: int
    choices: int
    preference: float = 1.0
    efficiency: float = 1.0


def memory_moments(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """Volumes v, and rounds from start to the mean round of the memory, sum_j j (s + j) / v.

    Both of shape (n,).
    """
    s = instance.prompt_lengths.astype(np.float64)
    o = instance.output_lengths.astype(np.float64)
    volume = s * o + o * (o + 1.0) / 2.0
    moment = s * o * (o + 1.0) / 2.0 + o * (o + 1.0) * (2.0 * o + 1.0) / 6.0
    return volume, moment / volume


def most_running(instance: Instance, start_times: IntArray) -> int:
    """The largest number of requests that run in one round of a schedule."""
    events = np.concatenate([start_times, start_times + instance.output_lengths])
    changes = np.repeat(np.array([1, -1]), len(instance))
    return int(np.cumsum(changes[np.lexsort((changes, events))]).max())


def beam_schedule(
    instance: Instance,
    order: IntArray,
    settings: BeamSettings,
    room: int,
    should_stop: Callable[[], bool],
) -> IntArray | None:
    """Start times, int64, shape (n,), of a feasible schedule; None when stopped before the end.

    Parameters
    ----------
    order : a permutation of the requests: the ranks. Schedules deviate from it by `WINDOW` ranks.
    room : requests that may run at once; more never do in the result. None is also returned where
        that leaves no way on.
    should_stop : asked about every `SLICE_SECONDS`.
    """
    n = len(instance)
    columns = [
        column[order]
        for column in (instance.prompt_lengths, instance.output_lengths, instance.arrival_times)
    ]
    volume, moment = (column[order] for column in memory_moments(instance))
    capacity = settings.efficiency * instance.memory_limit
    width, window = settings.width, min(WINDOW, n)
    room = min(n, room)
    fluid = reference_fluid(columns[2], volume, capacity)

    def empty_states() -> tuple[np.ndarray, ...]:
        return (
            np.full((width, PARENT + 1), -1, np.int64),
            np.zeros(width),
            np.zeros((width, window), np.uint8),
            np.zeros((width, room), np.int64),
            np.zeros((width, room), np.int64),
        )

    beam, children = empty_states(), empty_states()
    beam[0][0] = (int(columns[2].min()), 0, 0, -1, -1)
    alive = np.array([1, 0], np.int64)
    tree = np.zeros((width * n, 3), np.int64)
    heap, slots = np.zeros(width), np.zeros(width, np.int64)
    depth, step = 0, 1
    while depth < n:
        if should_stop():
            return None
        mark = time.perf_counter()
        last = min(n, depth + step)
        reached = grow(
            *(depth, last, settings.choices, settings.preference, capacity),
            *(instance.memory_limit, *columns, volume, moment, *fluid),
            *(alive, *beam, *children, heap, slots, tree),
        )
        if reached < last:
            return None
        depth = last
        spent = time.perf_counter() - mark
        if spent > 2 * SLICE_SECONDS:
            step = max(1, step // 2)
        elif spent < SLICE_SECONDS:
            step *= 2
    starts = np.zeros(n, dtype=np.int64)
    costs = beam[1][: alive[0]]
    node = int(beam[0][int(np.argmin(costs)), PARENT])
    while node >= 0:
        starts[order[tree[node, 1]]] = tree[node, 2]
        node = int(tree[node, 0])
    return starts

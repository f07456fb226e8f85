"""Feasible schedules of large instances by beam search, around any order of the requests.

The search (Ow and Morton 1988, "Filtered beam search in scheduling") keeps the ``width`` most
promising partial schedules and places one more request in each at a time; what promising means is
said in `hindsight.heuristics.beam_kernels`. Unlike the prefix rule it may pick, at every start,
whichever of the next requests leaves the least memory unused later. Time and memory grow with n
times the width, and hardly with the horizon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hindsight.runtime.clock import Slices
from instances import Instance
from instances.arrays import FloatArray, IntArray
from instances.validation import check_ranges, ranged

from .beam_kernels import PARENT, FlagArray, grow, reference_fluid

WINDOW = 256
"""Ranks among which a partial schedule may choose, from its first unplaced request on."""

MEETING = 64
"""Requests placed between two looks whether a schedule has met the one that it follows."""

States = tuple[IntArray, FloatArray, FlagArray, IntArray, IntArray]
"""Integers, costs, flags of placed ranks, ends and s - t of `hindsight.heuristics.beam_kernels`."""


@dataclass(frozen=True)
class BeamSettings:
    """What one beam search does; any settings give feasible schedules.

    Attributes
    ----------
    width : int
        Partial schedules kept, >= 1.
    choices : int
        Requests tried next in each of them, >= 1.
    preference : float
        g of `hindsight.heuristics.beam_kernels`.
    efficiency : float
        Share of the memory that the fluid of unplaced requests can use.
    """

    width: int = ranged(minimum=1)
    choices: int = ranged(minimum=1)
    preference: float = ranged(1.0, minimum=0)
    efficiency: float = ranged(1.0, above=0)

    def __post_init__(self) -> None:
        check_ranges(self)


def memory_moments(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """Volumes v, and rounds from start to the mean round of the memory, sum_j j (s + j) / v.

    Both of shape (n,).
    """
    s = instance.prompt_lengths.astype(np.float64)
    o = instance.output_lengths.astype(np.float64)
    volume = instance.volumes.astype(np.float64)
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
    kept: IntArray | None = None,
    until: int | None = None,
    follow: IntArray | None = None,
) -> IntArray | None:
    """Start times, int64, shape (n,), of a feasible schedule; None when stopped before the end.

    Parameters
    ----------
    instance : Instance
        The problem.
    order : int64 array
        A permutation of the requests: the ranks. Schedules deviate from it by `WINDOW` ranks.
    settings : BeamSettings
        Width and rules of the beam.
    room : int
        Requests that may run at once; more never do in the result. None is also returned where that
        leaves no way on.
    should_stop : Callable[[], bool]
        Asked about every `hindsight.runtime.clock.SLICE_SECONDS`.
    kept : int64 array or None, default None
        Start times, never falling, of the first requests of ``order``, which stay as they are.
    until : int or None, default None
        Requests placed after which only the best state goes on, taking the next of ``order`` every
        time, as the prefix rule does; None for never.
    follow : int64 array or None, default None
        Start times of all requests, never falling along ``order`` after the first ``until``: once
        that best state runs exactly what this schedule runs, it ends as this schedule does.
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

    def empty_states() -> States:
        return (
            np.full((width, PARENT + 1), -1, np.int64),
            np.zeros(width),
            np.zeros((width, window), np.uint8),
            np.zeros((width, room), np.int64),
            np.zeros((width, room), np.int64),
        )

    beam, children = empty_states(), empty_states()
    depth = 0 if kept is None else len(kept)
    if not _begin(beam, columns, depth, kept):
        return None
    alive = np.array([1, 0], np.int64)
    tree = np.zeros((width * (n - depth), 3), np.int64)
    heap, slots = np.zeros(width), np.zeros(width, np.int64)
    starts = np.zeros(n, dtype=np.int64)
    until = n if until is None else min(n, max(until, depth))
    given: tuple[Any, ...] = (instance.memory_limit, *columns, volume, moment, *fluid)
    slices = Slices()
    while depth < n:
        if should_stop():
            return None
        if depth >= until:
            if alive[0] > 1:
                _keep_only(beam, int(slots[int(np.argmin(heap[: alive[0]]))]))
                alive[0] = 1
            if follow is not None and _has_met(beam, order, columns, depth, follow):
                starts = follow.copy()
                break
        choices = settings.choices if depth < until else 1
        with slices.next(until - depth if depth < until else min(n - depth, MEETING)) as count:
            last = depth + count
            reached = grow(
                depth,
                last,
                choices,
                settings.preference,
                capacity,
                *(*given, alive, *beam, *children, heap, slots, tree),
            )
        if reached < last:
            return None
        depth = last
    if kept is not None:
        starts[order[: len(kept)]] = kept
    costs = beam[1][: alive[0]]
    node = int(beam[0][int(np.argmin(costs)), PARENT])
    while node >= 0:
        starts[order[tree[node, 1]]] = tree[node, 2]
        node = int(tree[node, 0])
    return starts


def _begin(
    beam: States,
    columns: list[IntArray],
    depth: int,
    kept: IntArray | None,
) -> bool:
    """Write the first state, behind the requests that stay; False where it has no room."""
    states, _, _, ends, bases = beam
    if kept is None or depth == 0:
        states[0] = (int(columns[2].min()), 0, 0, -1, -1)
        return True
    now = int(kept[-1])
    all_ends = kept + columns[1][:depth]
    running = np.flatnonzero(all_ends > now)
    running = running[np.argsort(all_ends[running], kind="stable")]
    if len(running) >= ends.shape[1]:
        return False
    states[0] = (now, depth, len(running), depth - 1, -1)
    ends[0, : len(running)] = all_ends[running]
    bases[0, : len(running)] = columns[0][running] - kept[running]
    return True


def _keep_only(beam: States, slot: int) -> None:
    for column in beam:
        column[0] = column[slot]


def _has_met(
    beam: States,
    order: IntArray,
    columns: list[IntArray],
    depth: int,
    follow: IntArray,
) -> bool:
    """Whether the only state, once all before ``depth`` are placed, runs what ``follow`` does."""
    states, _, _, ends, bases = beam
    now, first, running = (int(value) for value in states[0, :3])
    if first != depth or int(follow[order[depth - 1]]) != now:
        return False
    recent = order[:depth]
    followed = follow[recent]
    still = np.flatnonzero(followed + columns[1][:depth] > now)
    if len(still) != running:
        return False
    theirs = np.stack([followed[still] + columns[1][still], columns[0][still] - followed[still]])
    ours = np.stack([ends[0, :running], bases[0, :running]])
    return bool(
        np.array_equal(
            theirs[:, np.lexsort(theirs[::-1])],
            ours[:, np.lexsort(ours[::-1])],
        )
    )

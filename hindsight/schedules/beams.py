"""Feasible schedules of large instances by beam search, around any order of the requests.

The search (Ow and Morton 1988, "Filtered beam search in scheduling") keeps the ``width`` most
promising partial schedules and places one more request in each at a time;
`hindsight.schedules.beam_kernels` defines "promising". Unlike the prefix rule it may pick, at each
start, whichever of the next requests leaves the least memory unused later. Time and memory grow
with n times the width, and hardly with the horizon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hindsight.runtime.clock import Slices
from instances import Instance
from instances.arrays import FloatArray, IntArray

from .beam_kernels import PARENT, Ahead, Beam, Best, RankedRequests, Search, grow, reference_fluid

WINDOW = 256
"""Ranks among which a partial schedule may choose, from its first unplaced request on."""


@dataclass(frozen=True)
class BeamSettings:
    """Settings of a beam search; any settings give feasible schedules.

    Attributes
    ----------
    width : int
        Number of partial schedules kept, >= 1.
    choices : int
        Number of requests tried next in each partial schedule, >= 1.
    preference : float
        The parameter g of `hindsight.schedules.beam_kernels`.
    efficiency : float
        Share of the memory that the fluid of unplaced requests can use.
    """

    width: int
    choices: int
    preference: float = 1.0
    efficiency: float = 1.0


def memory_moments(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """Return volumes v, and rounds from start to the mean round of memory, sum_j j (s + j) / v.

    Both have shape (n,).
    """
    s = instance.prompt_lengths.astype(np.float64)
    o = instance.output_lengths.astype(np.float64)
    volume = instance.volumes.astype(np.float64)
    moment = s * o * (o + 1.0) / 2.0 + o * (o + 1.0) * (2.0 * o + 1.0) / 6.0
    return volume, moment / volume


def most_running(instance: Instance, start_times: IntArray) -> int:
    """Return the largest number of requests that run in one round of a schedule."""
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
) -> IntArray | None:
    """Return the starts of a feasible schedule, int64, shape (n,), or None if stopped early.

    Parameters
    ----------
    instance : Instance
        The problem.
    order : int64 array
        Requests by rank: a permutation. Schedules deviate from it by at most `WINDOW` ranks.
    settings : BeamSettings
        Width and selection rules of the beam.
    room : int
        Most requests that may run at once. The result is None if no schedule is found with so few.
    should_stop : Callable[[], bool]
        Polled about every `hindsight.runtime.clock.SLICE_SECONDS`.
    kept : int64 array or None, default None
        Start times, never falling, that the first requests of ``order`` keep; the others start no
        earlier. None keeps none.
    """
    n, kept = len(instance), np.zeros(0, np.int64) if kept is None else kept
    requests = _ranked(instance, order, settings.efficiency)
    width, window = settings.width, min(WINDOW, n)
    room = min(n, room)

    def empty_states() -> Beam:
        return Beam(
            np.full((width, PARENT + 1), -1, np.int64),
            np.zeros(width),
            np.zeros((width, window), np.uint8),
            np.zeros((width, room), np.int64),
            np.zeros((width, room), np.int64),
        )

    best = Best(np.zeros(width), np.zeros(width, np.int64), np.zeros(1, np.int64))
    depth = len(kept)
    tree = np.zeros((width * (n - depth), 3), np.int64)
    ahead = Ahead(*np.zeros((3, room + 1), np.int64), *np.zeros((2, room + 1)))
    alive = np.array([1, 0], np.int64)
    search = Search(empty_states(), empty_states(), alive, best, tree, ahead)
    beam = search.beam
    beam.states[0] = (int(requests.arrival.min()), 0, 0, -1, -1)
    if depth and not _keep(beam, requests, kept):
        return None
    slices = Slices()
    while depth < n:
        if should_stop():
            return None
        with slices.next(n - depth) as count:
            last = depth + count
            choices, preference = settings.choices, settings.preference
            reached = grow(depth, last, choices, preference, requests, search)
        if reached < last:
            return None
        depth = last
    starts = np.zeros(n, dtype=np.int64)
    starts[order[: len(kept)]] = kept
    node = int(beam.states[int(np.argmin(beam.costs[: search.alive[0]])), PARENT])
    while node >= 0:
        starts[order[tree[node, 1]]] = tree[node, 2]
        node = int(tree[node, 0])
    return starts


def _keep(beam: Beam, requests: RankedRequests, kept: IntArray) -> bool:
    """Let the first state hold what runs at the last start that is kept; False without room."""
    count, now = len(kept), int(kept[-1])
    ends = kept + requests.output[:count]
    running = np.flatnonzero(ends > now)
    running = running[np.argsort(ends[running], kind="stable")]
    if len(running) > beam.ends.shape[1]:
        return False
    beam.states[0] = (now, count, len(running), count - 1, -1)
    beam.ends[0, : len(running)] = ends[running]
    beam.bases[0, : len(running)] = requests.prompt[running] - kept[running]
    return True


def _ranked(instance: Instance, order: IntArray, efficiency: float) -> RankedRequests:
    prompt, output, arrival = (column[order] for column in instance.columns[:3])
    volume, moment = (column[order] for column in memory_moments(instance))
    weight = instance.weights[order].astype(np.float64)
    capacity = efficiency * instance.memory_limit
    lengths = (prompt, output, arrival, volume, moment, weight)
    fluid = reference_fluid(arrival, volume, weight, capacity)
    return RankedRequests(*lengths, instance.memory_limit, capacity, *fluid)

"""Feasible schedules of large instances by beam search, guided by any order of the requests.

The search (Ow and Morton 1988, "Filtered beam search in scheduling") keeps the ``width`` partial
schedules of the least values, which `hindsight.schedules.beam_kernels` defines, and places one more
request in each of them at every step. Unlike a list schedule it need not follow the order:
it may place one of the next requests that leaves less memory unused later. Run time and memory grow
with n times the width, and hardly with the number of rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import Slices
from instances import Instance
from instances.arrays import FloatArray, IntArray

from .beam_kernels import LAST, Ahead, Beam, Kept, RankedRequests, Search, grow

WINDOW = 256
"""Each step places one of the next WINDOW requests of the order, from the first unplaced one on."""


class BeamSettings(NamedTuple):
    """Settings of a beam search. All settings give feasible schedules.

    Attributes
    ----------
    width : int
        Number of partial schedules kept in each step, >= 1.
    choices : int
        Number of requests that are tried as the next request of each partial schedule, >= 1.
    preference : float
        Number g in [0, 1]. The larger it is, the earlier the search places requests that run long:
        the cost of a placed request is its weight times (start + (1 - g) * mean round in which it
        holds memory, counted from the start).
    """

    width: int
    choices: int
    preference: float = 1.0


def memory_moments(instance: Instance) -> tuple[FloatArray, FloatArray]:
    """Return volume v = sum_j (s + j) and moment sum_j j (s + j) / v of each request.

    Both have shape (n,). A request has prompt length s and output length o, and j runs over its
    rounds 1 .. o, in which it holds s + j tokens. The moment is the mean of the numbers j, weighted
    by the tokens held in round j.
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
    """Return the starts of a feasible schedule, int64, shape (n,), or None if none was found.

    Parameters
    ----------
    instance : Instance
        The problem.
    order : int64 array
        Requests by rank: a permutation. Schedules deviate from it by at most `WINDOW` ranks.
    settings : BeamSettings
        Settings of the search.
    room : int
        Largest number of requests that may run at once. The result is None if the search ends
        because every partial schedule would exceed it.
    should_stop : Callable[[], bool]
        Stop callback, called about every `hindsight.runtime.clock.SLICE_SECONDS` seconds. Once it
        returns True, the search ends with result None.
    kept : int64 array or None, default None
        Fixed start times, in ascending order, of the first requests of ``order``. All other
        requests start no earlier than the last of these times. None fixes no start.
    """
    n, kept = len(instance), np.zeros(0, np.int64) if kept is None else kept
    width, room, window = settings.width, min(len(instance), room), min(WINDOW, len(instance))
    states, placed = np.full((2, width, LAST + 1), -1), np.zeros((2, width, window), np.uint8)
    running = np.zeros((2, 2, width, room), np.int64)
    beams = [Beam(states[k], np.zeros(width), placed[k], *running[k]) for k in range(2)]
    rows, used = np.zeros((width, 3), np.int64), np.zeros(1, np.int64)
    children = Kept._make([*np.zeros((2, width)), rows, used])
    ahead = Ahead(*np.zeros((3, room + 1), np.int64), *np.zeros((2, room + 1)))
    tree = np.empty((n, width, 3), np.int64)
    search = Search(_ranked(instance, order, settings), beams[0], beams[1], children, tree, ahead)
    depth, alive = len(kept), 1
    if not _keep(beams[depth % 2], search.requests, kept):
        return None
    slices = Slices()
    while depth < n and alive:
        if should_stop():
            return None
        with slices.next(n - depth) as count:
            alive = grow(depth, depth + count, alive, settings.choices, search)
        depth += count
    if not alive:
        return None
    starts = np.zeros(n, dtype=np.int64)
    starts[order[: len(kept)]] = kept
    slot = int(np.argmin(beams[n % 2].costs[:alive]))
    for row in search.tree[len(kept) :][::-1]:
        slot, rank, start = row[slot].tolist()
        starts[order[rank]] = start
    return starts


def _keep(beam: Beam, requests: RankedRequests, kept: IntArray) -> bool:
    """Write the first partial schedule of a beam search into row 0 of ``beam``.

    In it, the first requests in order of rank are placed at fixed starts. ``kept`` has these
    starts, which are ascending. Return False if the number of these requests that run after the
    last fixed start exceeds the number of columns of ``beam.ends``.
    """
    count = len(kept)
    now = int(kept[-1]) if count else int(requests.arrival.min())
    ends = kept + requests.output[:count]
    running = np.flatnonzero(ends > now)
    running = running[np.argsort(ends[running], kind="stable")]
    if len(running) > beam.ends.shape[1]:
        return False
    beam.states[0] = (now, count, len(running), count - 1)
    beam.ends[0, : len(running)] = ends[running]
    beam.bases[0, : len(running)] = requests.prompt[running] - kept[running]
    return True


def _ranked(instance: Instance, order: IntArray, settings: BeamSettings) -> RankedRequests:
    """Return the requests in order of rank (place in ``order``), and a fluid relaxation of them.

    The fluid relaxation is a single server that serves the volumes of the requests (tokens held,
    summed over rounds) one after another, in this order. Per round it serves as many units of
    volume as the memory limit has tokens.
    """
    prompt, output, arrival = (column[order] for column in instance.columns[:3])
    volume, moment = (column[order] for column in memory_moments(instance))
    weight = instance.weights[order].astype(np.float64)
    length, moment = volume / instance.memory_limit, (1.0 - settings.preference) * moment
    lengths = prompt, output, arrival, length, moment, weight
    # The rows of ``fluid`` describe the service of all requests by one server, in order of rank:
    # ``front``, ``later`` and ``before_idle`` of `RankedRequests`. They are needed only for ranks
    # beyond the `WINDOW` from which a partial schedule chooses its next request. If all requests
    # are in this window, the rows stay 0.
    fluid = np.zeros((3, len(order) + 1))
    if len(order) > WINDOW:
        fluid = _reference(arrival, length, weight)
    return RankedRequests(*lengths, instance.memory_limit, *fluid)


def _reference(arrival: IntArray, length: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the service of all requests by a single server, float64, shape (3, n + 1).

    The server serves the requests one after another, in order of rank. Request i takes
    ``length[i]`` rounds, and its service begins at its arrival or later.

    Row 0 (`RankedRequests.front`), entry i: time, in rounds, at which all requests of rank below i
    have been served. Row 1 (``later``), entry i: sum, over the requests of rank >= i, of weight
    times the round in the middle of the service. Row 2 (``before_idle``), entry i: sum of the
    weights of the requests of rank >= i that are served before the server next waits for an
    arrival.
    """
    # The server serves the request of rank i (place in the order) as soon as it has arrived and
    # rank i - 1 is served. So the service of rank i begins at the maximum, over ranks j <= i, of
    # arrival[j] plus the rounds of service of ranks j .. i - 1. These are before[i] - before[j]
    # rounds, where before[k] is the number of rounds of service of all ranks below k. So the
    # service begins at before[i] plus the maximum, over j <= i, of arrival[j] - before[j].
    before, n, first = np.cumsum(length) - length, len(length), float(arrival.min())
    lag = np.maximum.accumulate(arrival - before)
    begin = before + lag
    later, left = np.zeros((2, n + 1))
    later[:n] = np.cumsum((weight * (begin + 0.5 * length))[::-1])[::-1]
    left[:n] = np.cumsum(weight[::-1])[::-1]
    waits = np.append(np.diff(lag, prepend=first) > 0, True)
    idle = np.minimum.accumulate(np.where(waits, np.arange(n + 1), n)[::-1])[::-1]
    return np.stack([np.append(first, begin + length), later, left - left[idle]])

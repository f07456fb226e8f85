"""Compiled kernels of the beam search: partial schedules grown start by start.

A *state* is a partial schedule whose starts, in the order in which they were decided, never go
back in time. It consists of the time now of its last start, what still runs (ends and s - t,
sorted by end) and which requests are placed. Requests are numbered by *rank* in a priority order;
a state may place only requests among the ``window`` ranks from its first unplaced one on, so that
a window of flags describes it.

A child places one more request, at the first start from now on at which it fits in every round of
its life. Memory grows between completions, so it is enough to look at the completions of what
runs. Children that place requests of equal start in falling rank are not made: the same schedule
has a state in which the ranks rise.

*Value of a state.* The mean round of request i's memory lies at t_i + m_i, where m_i =
sum_j j (s_i + j) / v_i. What is not placed yet is thought of as a fluid that is served in order of
rank, with what memory is left over by the volume R still to be held by what runs: its front stands
at now + R / capacity, and each request moves it on by v / capacity (and to its arrival at least).
The value is the sum of the t_i + (1 - g) m_i of what is placed and of the mean rounds of the fluid.
g = 0 would be an estimate of the total; g > 0 prefers, among states with as many requests placed,
those that have placed the long-running ones, because short ones fill the gaps left at the end.
Beyond the window the fluid runs behind a reference, computed once, by the lag it has at the
window's end, up to the reference's first idle round.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray

FlagArray = npt.NDArray[np.uint8]

NOW, FIRST, RUNNING, LAST, PARENT = 0, 1, 2, 3, 4
"""Columns of a state's integers: last start, first unplaced rank, requests running, rank placed
last (-1 before the first), and the node of the search tree it continues."""


class RankedRequests(NamedTuple):
    """Requests in order of rank, and their fluid.

    Attributes
    ----------
    prompt, output, arrival : int64 array, shape (n,)
        Lengths in tokens, arrivals in rounds.
    volume, moment : float64 array, shape (n,)
        v and m of the module docstring.
    limit : int
        M, tokens.
    capacity : float
        What of it the fluid can use.
    front : float64 array, shape (n + 1,)
        Where the front of the fluid of all requests, the reference, stands before rank i.
    later : float64 array, shape (n + 1,)
        The sum of its mean rounds of ranks i and later.
    before_idle : float64 array, shape (n + 1,)
        How many of these follow before it first waits for an arrival.
    """

    prompt: IntArray
    output: IntArray
    arrival: IntArray
    volume: FloatArray
    moment: FloatArray
    limit: int
    capacity: float
    front: FloatArray
    later: FloatArray
    before_idle: FloatArray


class Beam(NamedTuple):
    """Room for ``width`` states.

    Attributes
    ----------
    states : int64 array, shape (width, 5)
        The columns above.
    costs : float64 array, shape (width,)
        The part of the value that what is placed has.
    placed : uint8 array, shape (width, window)
        1 where the rank, modulo the window, is placed.
    ends, bases : int64 array, shape (width, room)
        Of what runs, sorted by end: ends, and s - t.
    """

    states: IntArray
    costs: FloatArray
    placed: FlagArray
    ends: IntArray
    bases: IntArray


@njit
def take_slot(value: float, heap: FloatArray, slots: IntArray, count: IntArray) -> int:
    """A slot for a state of this value among the best ``len(heap)``; -1 if it is not one of them.

    ``heap``, shape (width,), is a binary heap with the worst value on top, and ``slots`` says which
    slot each value belongs to; ``count[0]`` of them are in use.
    """
    size = count[0]
    width = heap.shape[0]
    if size < width:
        i = size
        count[0] = size + 1
        while i > 0:
            above = (i - 1) // 2
            if heap[above] >= value:
                break
            heap[i] = heap[above]
            slots[i] = slots[above]
            i = above
        heap[i] = value
        slots[i] = size
        return int(size)
    if value >= heap[0]:
        return -1
    slot = slots[0]
    i = 0
    while True:
        below = 2 * i + 1
        if below >= width:
            break
        if below + 1 < width and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= value:
            break
        heap[i] = heap[below]
        slots[i] = slots[below]
        i = below
    heap[i] = value
    slots[i] = slot
    return int(slot)


@njit
def ends_until(ends: IntArray, running: int, round_index: int) -> int:
    """How many of the ``running`` sorted ends are at most ``round_index``."""
    low = 0
    high = running
    while low < high:
        middle = (low + high) // 2
        if ends[middle] <= round_index:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def first_start(
    start: int,
    prompt: int,
    output: int,
    ends: IntArray,
    running: int,
    peaks: IntArray,
    ceilings: IntArray,
    bases: IntArray,
    limit: int,
) -> int:
    """The first start >= ``start`` at which a request fits beside what runs.

    Parameters
    ----------
    start : int
        Where the search begins.
    prompt, output : int
        Lengths of the request.
    ends : int64 array
        Sorted, of what runs; the first ``running`` entries count.
    running : int
        How many run.
    peaks : int64 array
        Memory held at each end (at the first of equal ends; the others may say less).
    ceilings : int64 array
        Running maximum of peaks + ends.
    bases : int64 array
        Sum of s - t over what ends at or after each end; one entry more, 0.
    limit : int
        M, tokens.
    """
    while True:
        own_end = start + output
        covered = ends_until(ends, running, own_end)
        first = covered
        while first > 0 and ends[first - 1] == own_end:
            first -= 1
        excess = bases[first] + (running - first) * own_end + prompt + output - limit
        if excess > 0:
            # An earlier start still covers this round as long as it lies before it.
            start = min(own_end, start + excess)
            continue
        if covered == 0 or ceilings[covered - 1] + prompt - start <= limit:
            return start
        moved = False
        for j in range(covered - 1, -1, -1):
            if ends[j] <= start:
                break
            needed = prompt + ends[j] + peaks[j] - limit
            if needed > start:
                start = min(ends[j], needed)
                moved = True
                break
        if not moved:
            return start


@njit
def reference_fluid(
    arrival: IntArray, volume: FloatArray, capacity: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """``front``, ``later`` and ``before_idle`` of `RankedRequests`."""
    n = arrival.shape[0]
    front = np.zeros(n + 1)
    later = np.zeros(n + 1)
    before_idle = np.zeros(n + 1)
    waits = np.zeros(n, np.uint8)
    mean = np.zeros(n)
    now = float(arrival.min())
    front[0] = now
    for i in range(n):
        if now < arrival[i]:
            waits[i] = 1
            now = float(arrival[i])
        mean[i] = now + 0.5 * volume[i] / capacity
        now += volume[i] / capacity
        front[i + 1] = now
    for i in range(n - 1, -1, -1):
        later[i] = later[i + 1] + mean[i]
        before_idle[i] = 0.0 if waits[i] == 1 else before_idle[i + 1] + 1.0
    return front, later, before_idle


@njit
def grow(
    first_depth: int,
    last_depth: int,
    choices: int,
    preference: float,
    requests: RankedRequests,
    alive: IntArray,
    beam: Beam,
    children: Beam,
    heap: FloatArray,
    slots: IntArray,
    tree: IntArray,
) -> int:
    """Place the requests number first_depth .. last_depth - 1 in every state.

    ``beam`` holds ``alive[0]`` states and is replaced by the best of their ``children``, which are
    work space like ``heap`` and ``slots``. ``alive[1]`` counts the nodes of ``tree``, shape
    (nodes, 3): parent, rank and start.

    Returns the depth reached: less than ``last_depth`` where no child had room for what runs.
    """
    prompt, output, arrival, volume, moment, limit, capacity, front, later, before_idle = requests
    states, costs, placed, ends, bases = beam
    new_states, new_costs, new_placed, new_ends, new_bases = children
    n = prompt.shape[0]
    window = placed.shape[1]
    room = ends.shape[1]
    peaks = np.zeros(room + 1, np.int64)
    ceilings = np.zeros(room + 1, np.int64)
    ahead_bases = np.zeros(room + 1, np.int64)
    held = np.zeros(room + 1)  # volume after now, what holds how much now: of end j and later
    holding = np.zeros(room + 1)
    count = np.zeros(1, np.int64)
    for depth in range(first_depth, last_depth):
        count[0] = 0
        for x in range(alive[0]):
            now = states[x, NOW]
            first = states[x, FIRST]
            running = states[x, RUNNING]
            ahead_bases[running] = 0
            held[running] = 0.0
            holding[running] = 0.0
            for j in range(running - 1, -1, -1):
                left = float(ends[x, j] - now)
                base = float(bases[x, j] + now)
                ahead_bases[j] = ahead_bases[j + 1] + bases[x, j]
                peaks[j] = ahead_bases[j] + (running - j) * ends[x, j]
                held[j] = held[j + 1] + base * left + 0.5 * left * (left + 1.0)
                holding[j] = holding[j + 1] + base
            for j in range(running):
                ceilings[j] = peaks[j] + ends[x, j]
                if j > 0 and ceilings[j - 1] > ceilings[j]:
                    ceilings[j] = ceilings[j - 1]
            # The fluid of what is not placed, were nothing more placed now.
            begin = now + held[0] / capacity
            fluid = begin
            total = 0.0
            affected = 0.0
            busy = True
            stop = min(n, first + window)
            for i in range(first, stop):
                if placed[x, i % window] == 1:
                    continue
                if fluid < arrival[i]:
                    busy = False
                    fluid = float(arrival[i])
                if busy:
                    affected += 1.0
                total += fluid + 0.5 * volume[i] / capacity
                fluid += volume[i] / capacity
            total += later[stop] + before_idle[stop] * (fluid - front[stop])
            if busy:
                affected += before_idle[stop]

            seen = 0
            before = 0.0
            fluid = begin
            like_prompt = -1
            like_output = -1
            like_arrival = -1
            for i in range(first, stop):
                if seen == choices:
                    break
                if placed[x, i % window] == 1:
                    continue
                fluid = max(fluid, float(arrival[i]))
                mean = fluid + 0.5 * volume[i] / capacity
                fluid += volume[i] / capacity
                ahead = before
                before += 1.0
                if (
                    prompt[i] == like_prompt
                    and output[i] == like_output
                    and max(arrival[i], now) == max(like_arrival, now)
                ):
                    continue
                like_prompt = prompt[i]
                like_output = output[i]
                like_arrival = arrival[i]
                seen += 1
                start = max(now, arrival[i])
                if start == now and states[x, LAST] > i:
                    start = now + 1
                start = first_start(
                    start,
                    prompt[i],
                    output[i],
                    ends[x],
                    running,
                    peaks,
                    ceilings,
                    ahead_bases,
                    limit,
                )
                over = ends_until(ends[x], running, start)
                if running - over + 1 > room:
                    continue
                gone = float(start - now)
                still_held = (
                    held[over]
                    - holding[over] * gone
                    - (running - over) * 0.5 * gone * (gone + 1.0)
                    + volume[i]
                )
                shift = start + still_held / capacity - begin
                cost = costs[x] + start + (1.0 - preference) * moment[i]
                value = cost + total - mean
                if ahead < affected:
                    value += (affected - 1.0) * shift
                    value -= (affected - ahead - 1.0) * volume[i] / capacity
                else:
                    value += affected * shift
                slot = take_slot(value, heap, slots, count)
                if slot < 0:
                    continue
                new_states[slot, NOW] = start
                new_states[slot, LAST] = i
                new_states[slot, PARENT] = states[x, PARENT]
                new_costs[slot] = cost
                new_placed[slot, :] = placed[x, :]
                new_placed[slot, i % window] = 1
                rank = first
                while rank < n and new_placed[slot, rank % window] == 1:
                    new_placed[slot, rank % window] = 0
                    rank += 1
                new_states[slot, FIRST] = rank
                end = start + output[i]
                y = 0
                for j in range(over, running):
                    if y == j - over and ends[x, j] >= end:
                        new_ends[slot, y] = end
                        new_bases[slot, y] = prompt[i] - start
                        y += 1
                    new_ends[slot, y] = ends[x, j]
                    new_bases[slot, y] = bases[x, j]
                    y += 1
                if y == running - over:
                    new_ends[slot, y] = end
                    new_bases[slot, y] = prompt[i] - start
                    y += 1
                new_states[slot, RUNNING] = y
        if count[0] == 0:
            return depth
        alive[0] = count[0]
        for slot in range(count[0]):
            node = alive[1] + slot
            tree[node, 0] = new_states[slot, PARENT]
            tree[node, 1] = new_states[slot, LAST]
            tree[node, 2] = new_states[slot, NOW]
            states[slot, :] = new_states[slot, :]
            states[slot, PARENT] = node
            costs[slot] = new_costs[slot]
            placed[slot, :] = new_placed[slot, :]
            for j in range(new_states[slot, RUNNING]):
                ends[slot, j] = new_ends[slot, j]
                bases[slot, j] = new_bases[slot, j]
        alive[1] += count[0]
    return last_depth

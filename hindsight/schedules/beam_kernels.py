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
The value is the sum of the t_i + (1 - g) m_i of what is placed and of the mean rounds of the fluid,
each times its weight. g = 0 would be an estimate of the total; g > 0 prefers, among states with as
many requests placed, those that have placed the long-running ones, because short ones fill the gaps
left at the end.
Beyond the window the fluid runs behind a reference, computed once, by the lag it has at the
window's end, up to the reference's first idle round.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit, step
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
    volume, moment, weight : float64 array, shape (n,)
        v and m of the module docstring, and weights w.
    limit : int
        M, tokens.
    capacity : float
        Share of M that the fluid can use, in tokens.
    front : float64 array, shape (n + 1,)
        Position of the front of the fluid of all requests, the reference, before rank i.
    later : float64 array, shape (n + 1,)
        Sum of w times the mean round of ranks i and later in the reference.
    before_idle : float64 array, shape (n + 1,)
        Sum of w of these ranks that follow before the reference first waits for an arrival.
    """

    prompt: IntArray
    output: IntArray
    arrival: IntArray
    volume: FloatArray
    moment: FloatArray
    weight: FloatArray
    limit: int
    capacity: float
    front: FloatArray
    later: FloatArray
    before_idle: FloatArray


class Beam(NamedTuple):
    """Arrays for ``width`` states.

    Attributes
    ----------
    states : int64 array, shape (width, 5)
        The columns above.
    costs : float64 array, shape (width,)
        Part of the value contributed by the placed requests.
    placed : uint8 array, shape (width, window)
        1 where the rank, modulo the window, is placed.
    ends, bases : int64 array, shape (width, room)
        Ends, and s - t, of the running requests, sorted by end.
    """

    states: IntArray
    costs: FloatArray
    placed: FlagArray
    ends: IntArray
    bases: IntArray


class Best(NamedTuple):
    """The best children so far, as a binary heap with the worst value on top.

    Attributes
    ----------
    heap : float64 array, shape (width,)
        Values.
    slots : int64 array, shape (width,)
        Slot of the state that each value belongs to.
    used : int64 array, shape (1,)
        Number of entries in use.
    """

    heap: FloatArray
    slots: IntArray
    used: IntArray


class Ahead(NamedTuple):
    """What runs in a state, looked at from its last start on: entry j for end j.

    Attributes
    ----------
    peaks : int64 array
        Memory held at the end (correct for the first of equal ends; the others may be lower).
    ceilings : int64 array
        Running maximum of peaks + ends.
    bases : int64 array
        Sum of s - t over requests that end then or later.
    held, holding : float64 array
        Volume held from now on, and tokens held now, by requests that end then or later.
    """

    peaks: IntArray
    ceilings: IntArray
    bases: IntArray
    held: FloatArray
    holding: FloatArray


class Search(NamedTuple):
    """What a beam search works on.

    Attributes
    ----------
    beam, children : Beam
        The states, and room for those that follow.
    alive : int64 array, shape (2,)
        States in the beam, and nodes in the tree.
    best : Best
        The best children.
    tree : int64 array, shape (nodes, 3)
        Parent, rank and start of each node.
    ahead : Ahead
        Work space, one entry more than requests may run at once.
    """

    beam: Beam
    children: Beam
    alive: IntArray
    best: Best
    tree: IntArray
    ahead: Ahead


@step
def take_slot(value: float, best: Best) -> int:
    """Return a slot for a state of this value among the best, or -1 if it is not one of them."""
    heap, slots, used = best
    size = used[0]
    width = heap.shape[0]
    if size < width:
        i = size
        used[0] = size + 1
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


@step
def _ends_until(ends: IntArray, x: int, running: int, round_index: int) -> int:
    """Count those of the sorted ends of state x that are at most ``round_index``."""
    low = 0
    high = running
    while low < high:
        middle = (low + high) // 2
        if ends[x, middle] <= round_index:
            low = middle + 1
        else:
            high = middle
    return low


@step
def _first_start(
    start: int, prompt: int, output: int, limit: int, beam: Beam, x: int, ahead: Ahead
) -> int:
    """Return the first start >= ``start`` at which a request fits beside those of state x."""
    ends, running = beam.ends, beam.states[x, RUNNING]
    peaks, ceilings, bases, _, _ = ahead
    while True:
        # The last round of the request itself.
        own_end = start + output
        covered = _ends_until(ends, x, running, own_end)
        first = covered
        while first > 0 and ends[x, first - 1] == own_end:
            first -= 1
        excess = bases[first] + (running - first) * own_end + prompt + output - limit
        if excess > 0:
            # A start before this round still covers it.
            start = min(own_end, start + excess)
            continue
        # Earlier ends: either none is too high, or the last high one tells how far to go.
        if covered == 0 or ceilings[covered - 1] + prompt - start <= limit:
            return start
        before = start
        for j in range(covered - 1, -1, -1):
            if ends[x, j] <= start:
                break
            needed = prompt + ends[x, j] + peaks[j] - limit
            if needed > start:
                start = min(ends[x, j], needed)
                break
        if start == before:
            return start


@partial(njit, makes_arrays=True)
def reference_fluid(
    arrival: IntArray, volume: FloatArray, weight: FloatArray, capacity: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ``front``, ``later`` and ``before_idle`` of `RankedRequests`."""
    n = arrival.shape[0]
    front, later, before_idle = np.zeros((3, n + 1))
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
        later[i] = later[i + 1] + weight[i] * mean[i]
        before_idle[i] = 0.0 if waits[i] == 1 else before_idle[i + 1] + weight[i]
    return front, later, before_idle


@step
def _look_ahead(beam: Beam, x: int, ahead: Ahead) -> None:
    """Sum up what runs in state x, from the last end to the first."""
    states, _, _, ends, own_bases = beam
    peaks, ceilings, bases, held, holding = ahead
    now, running = states[x, NOW], states[x, RUNNING]
    bases[running] = 0
    held[running] = 0.0
    holding[running] = 0.0
    for j in range(running - 1, -1, -1):
        left = float(ends[x, j] - now)
        base = float(own_bases[x, j] + now)
        bases[j] = bases[j + 1] + own_bases[x, j]
        peaks[j] = bases[j] + (running - j) * ends[x, j]
        held[j] = held[j + 1] + base * left + 0.5 * left * (left + 1.0)
        holding[j] = holding[j + 1] + base
    for j in range(running):
        ceilings[j] = peaks[j] + ends[x, j]
        if j > 0 and ceilings[j - 1] > ceilings[j]:
            ceilings[j] = ceilings[j - 1]


@step
def _fluid_total(
    begin: float, x: int, beam: Beam, requests: RankedRequests, stop: int
) -> tuple[float, float]:
    """Sum w times the mean rounds of the fluid of all unplaced requests, which begins at ``begin``.

    Also sum w of the requests that would move with it: those before the first wait for an arrival.
    """
    _, _, arrival, volume, _, weight, _, capacity, front, later, before_idle = requests
    placed, window = beam.placed, beam.placed.shape[1]
    fluid = begin
    total = 0.0
    affected = 0.0
    busy = True
    for i in range(beam.states[x, FIRST], stop):
        if placed[x, i % window] == 1:
            continue
        if fluid < arrival[i]:
            busy = False
            fluid = float(arrival[i])
        if busy:
            affected += weight[i]
        total += weight[i] * (fluid + 0.5 * volume[i] / capacity)
        fluid += volume[i] / capacity
    # Beyond the window the fluid follows the reference with the lag at the window's end.
    total += later[stop] + before_idle[stop] * (fluid - front[stop])
    if busy:
        affected += before_idle[stop]
    return total, affected


@step
def _write_child(
    beam: Beam, x: int, children: Beam, slot: int, i: int, start: int, requests: RankedRequests
) -> None:
    """Write state x with request i started into a slot; its cost is written separately."""
    states, _, placed, ends, bases = beam
    new_states, _, new_placed, new_ends, new_bases = children
    prompt, output = requests.prompt[i], requests.output[i]
    n, window = requests.prompt.shape[0], placed.shape[1]
    running = states[x, RUNNING]
    new_states[slot, NOW] = start
    new_states[slot, LAST] = i
    new_states[slot, PARENT] = states[x, PARENT]
    # The window moves past the placed requests.
    for k in range(window):
        new_placed[slot, k] = placed[x, k]
    new_placed[slot, i % window] = 1
    rank = states[x, FIRST]
    while rank < n and new_placed[slot, rank % window] == 1:
        new_placed[slot, rank % window] = 0
        rank += 1
    new_states[slot, FIRST] = rank
    # Copy the requests still running, and insert the new one by its end.
    over = _ends_until(ends, x, running, start)
    end = start + output
    y = 0
    for j in range(over, running):
        if y == j - over and ends[x, j] >= end:
            new_ends[slot, y] = end
            new_bases[slot, y] = prompt - start
            y += 1
        new_ends[slot, y] = ends[x, j]
        new_bases[slot, y] = bases[x, j]
        y += 1
    if y == running - over:
        new_ends[slot, y] = end
        new_bases[slot, y] = prompt - start
        y += 1
    new_states[slot, RUNNING] = y


@step
def _are_alike(i: int, j: int, now: int, requests: RankedRequests) -> bool:
    """Tell whether two requests are alike from now on."""
    prompt, output, arrival = requests.prompt, requests.output, requests.arrival
    are_alike: bool = prompt[i] == prompt[j] and output[i] == output[j]
    are_alike = are_alike and requests.weight[i] == requests.weight[j]
    return are_alike and max(arrival[i], now) == max(arrival[j], now)


@step
def _expand(
    x: int,
    choices: int,
    preference: float,
    requests: RankedRequests,
    beam: Beam,
    children: Beam,
    best: Best,
    ahead: Ahead,
) -> None:
    """Try the next requests of state x, up to ``choices`` different ones."""
    prompt, output, arrival, volume, moment, weight, limit, capacity, _, _, _ = requests
    states, costs, placed, ends, _ = beam
    new_costs = children.costs
    _, _, _, held, holding = ahead
    now, first, running = states[x, NOW], states[x, FIRST], states[x, RUNNING]
    window, room = placed.shape[1], ends.shape[1]
    stop = min(prompt.shape[0], first + window)
    # Fluid of all unplaced requests if nothing more were placed now.
    begin = now + held[0] / capacity
    total, affected = _fluid_total(begin, x, beam, requests, stop)
    seen = 0
    before = 0.0
    fluid = begin
    like = -1
    for i in range(first, stop):
        if seen == choices:
            break
        if placed[x, i % window] == 1:
            continue
        fluid = max(fluid, float(arrival[i]))
        mean = fluid + 0.5 * volume[i] / capacity
        fluid += volume[i] / capacity
        before += weight[i]
        # Try only one of several requests alike.
        if like >= 0 and _are_alike(i, like, now, requests):
            continue
        like = i
        seen += 1
        # The start is the first fit from now on; requests of equal start come in rising rank.
        start = max(now, arrival[i])
        if start == now and states[x, LAST] > i:
            start = now + 1
        start = _first_start(start, prompt[i], output[i], limit, beam, x, ahead)
        over = _ends_until(ends, x, running, start)
        if running - over + 1 > room:
            continue
        # Value: the fluid without this request begins behind what then runs.
        gone = float(start - now)
        still_held = (
            held[over]
            - holding[over] * gone
            - (running - over) * 0.5 * gone * (gone + 1.0)
            + volume[i]
        )
        shift = start + still_held / capacity - begin
        cost = costs[x] + weight[i] * start + weight[i] * (1.0 - preference) * moment[i]
        value = cost + total - weight[i] * mean
        if before - weight[i] < affected:
            value += (affected - weight[i]) * shift
            value -= (affected - before) * volume[i] / capacity
        else:
            value += affected * shift
        slot = take_slot(value, best)
        if slot >= 0:
            new_costs[slot] = cost
            _write_child(beam, x, children, slot, i, start, requests)


@step
def _advance(search: Search) -> None:
    """Replace the beam by the best children, which become nodes of the tree."""
    (states, costs, placed, ends, bases), children, alive, best, tree, _ = search
    new_states, new_costs, new_placed, new_ends, new_bases = children
    alive[0] = best.used[0]
    for slot in range(alive[0]):
        node = alive[1] + slot
        tree[node, 0] = new_states[slot, PARENT]
        tree[node, 1] = new_states[slot, LAST]
        tree[node, 2] = new_states[slot, NOW]
        for k in range(PARENT):
            states[slot, k] = new_states[slot, k]
        states[slot, PARENT] = node
        costs[slot] = new_costs[slot]
        for k in range(placed.shape[1]):
            placed[slot, k] = new_placed[slot, k]
        for j in range(new_states[slot, RUNNING]):
            ends[slot, j] = new_ends[slot, j]
            bases[slot, j] = new_bases[slot, j]
    alive[1] += alive[0]


@njit
def grow(
    first_depth: int,
    last_depth: int,
    choices: int,
    preference: float,
    requests: RankedRequests,
    search: Search,
) -> int:
    """Place requests number first_depth .. last_depth - 1 in every state.

    Returns the depth reached, less than ``last_depth`` if no child had room for its requests.
    """
    beam, children, alive, best, _, ahead = search
    for depth in range(first_depth, last_depth):
        best.used[0] = 0
        for x in range(alive[0]):
            _look_ahead(beam, x, ahead)
            _expand(x, choices, preference, requests, beam, children, best, ahead)
        if best.used[0] == 0:
            return depth
        _advance(search)
    return last_depth

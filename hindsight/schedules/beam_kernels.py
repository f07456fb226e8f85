"""Compiled kernels of the beam search: partial schedules extended by one request at a time.

A *state* is a partial schedule whose starts, in the order in which they were decided, never go
back in time. It consists of the start time *now* of the request placed last, the requests that
still run (their ends and s - t, sorted by end) and flags for the placed requests. Requests are
numbered by *rank* in a priority order. A state may place only requests among the next ``window``
ranks, counted from its first unplaced rank, so that ``window`` flags describe it.

A child of a state places one more request, at the first start >= *now* at which it fits in every
round of its run. Memory grows between completions, so it is enough to check memory at the
completions of the running requests. Of several states that place requests of equal start in
different orders, only the one with rising ranks is generated.

*Value of a state.* States are compared by an estimate of the weighted mean rounds in which requests
hold memory. For a placed request i this is t_i + m_i with m_i = sum_j j (s_i + j) / v_i. For the
others a fluid relaxation estimates it. There, requests are served one after another, in order of
rank. The service begins at now + R / capacity, where R is the volume that the running requests will
still hold, and request i takes v_i / capacity rounds, from its arrival or later. The value is the
weighted sum of t_i + (1 - g) m_i over placed requests and of the middle rounds of service over the
others. g = 0 would be an estimate of the total. g > 0 prefers states that have placed long-running
requests, because short ones fill the gaps that are left at the end.

Beyond the window, the fluid relaxation of a state is not computed. It is approximated by a
reference, the relaxation of all requests, which is computed once: the state is assumed to keep the
lag behind the reference that it has at the end of the window, until the reference first is idle.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray

NOW, FIRST, RUNNING, LAST = range(4)
"""Columns of the integers of a state: last start, first unplaced rank, number of running requests,
and the rank placed last (-1 if none is placed)."""


class RankedRequests(NamedTuple):
    """Requests in order of rank, and the fluid relaxation of all of them (the reference).

    Attributes
    ----------
    prompt, output, arrival : int64 array, shape (n,)
        Lengths in tokens, arrivals in rounds.
    length, moment, weight : float64 array, shape (n,)
        Rounds v / capacity of service in the fluid relaxation; m of the module docstring, times
        1 - g; weights w.
    limit : int
        M, tokens.
    capacity : float
        Tokens of M that the fluid relaxation can use.
    front : float64 array, shape (n + 1,)
        Round in which the reference has served all ranks below i.
    later : float64 array, shape (n + 1,)
        Sum, over ranks >= i, of w times the middle round of service in the reference.
    before_idle : float64 array, shape (n + 1,)
        Sum of w over the ranks from i on that the reference serves before it first waits for an
        arrival.
    """

    prompt: IntArray
    output: IntArray
    arrival: IntArray
    length: FloatArray
    moment: FloatArray
    weight: FloatArray
    limit: int
    capacity: float
    front: FloatArray
    later: FloatArray
    before_idle: FloatArray


class Beam(NamedTuple):
    """Arrays that hold ``width`` states, one per row.

    Attributes
    ----------
    states : int64 array, shape (width, 4)
        Columns `NOW`, `FIRST`, `RUNNING` and `LAST`.
    costs : float64 array, shape (width,)
        Part of the value contributed by the placed requests.
    placed : uint8 array, shape (width, window)
        1 where a rank is placed; rank i has column i modulo ``window``.
    ends, bases : int64 array, shape (width, room)
        Ends, and s - t, of the running requests, sorted by end.
    """

    states: IntArray
    costs: FloatArray
    placed: npt.NDArray[np.uint8]
    ends: IntArray
    bases: IntArray


class Ahead(NamedTuple):
    """Sums over the running requests of a state, from its last start on; entry j is for end j.

    Attributes
    ----------
    peaks : int64 array
        Memory held at end j (correct for the first of several equal ends, maybe lower for others).
    ceilings : int64 array
        Running maximum of peaks + ends.
    bases : int64 array
        Sum of s - t over requests that end at end j or later.
    held, holding : float64 array
        Volume held from now on, and tokens held now, by requests that end at end j or later.
    """

    peaks: IntArray
    ceilings: IntArray
    bases: IntArray
    held: FloatArray
    holding: FloatArray


class Kept(NamedTuple):
    """The best children of a beam found so far, in order of value, smallest first.

    Attributes
    ----------
    values, costs : float64 array, shape (width,)
        Values, and the part of each value contributed by the placed requests.
    rows : int64 array, shape (width, 3)
        Parent state, the rank that the child places, and the start of that request.
    used : int64 array, shape (1,)
        Number of children.
    """

    values: FloatArray
    costs: FloatArray
    rows: IntArray
    used: IntArray


class Search(NamedTuple):
    """Data of a beam search.

    Attributes
    ----------
    requests : RankedRequests
        All requests.
    beam, children : Beam
        The states with an even number of placed requests, and those with an odd number.
    kept : Kept
        The best children.
    tree : int64 array, shape (n, width, 3)
        ``rows`` of the best children, by the number of requests that their parents have placed.
    ahead : Ahead
        Workspace, of one entry more than the number of requests that may run at once.
    """

    requests: RankedRequests
    beam: Beam
    children: Beam
    kept: Kept
    tree: IntArray
    ahead: Ahead


@step
def offer(value: float, cost: float, x: int, i: int, start: int, kept: Kept) -> None:
    """Keep a child of state x, which starts request i at ``start``, if it is among the best."""
    values, costs, rows, width = kept.values, kept.costs, kept.rows, len(kept.values)
    y = min(kept.used[0], width - 1)
    if kept.used[0] == width and value >= values[y]:
        return
    while y > 0 and values[y - 1] > value:
        values[y], costs[y] = values[y - 1], costs[y - 1]
        for k in range(3):
            rows[y, k] = rows[y - 1, k]
        y -= 1
    values[y], costs[y] = value, cost
    rows[y, 0], rows[y, 1], rows[y, 2] = x, i, start
    kept.used[0] = min(kept.used[0] + 1, width)


@step
def _ends_until(ends: IntArray, x: int, running: int, round_index: int) -> int:
    """Count the running requests of state x that end by ``round_index``, by bisection."""
    low, high = 0, running
    while low < high:
        middle = (low + high) // 2
        if ends[x, middle] <= round_index:
            low = middle + 1
        else:
            high = middle
    return low


@step
def _first_start(start: int, i: int, beam: Beam, x: int, search: Search) -> int:
    """Return the first start >= ``start`` at which request i fits with those running in state x."""
    ends, running, requests = beam.ends, beam.states[x, RUNNING], search.requests
    prompt, output, limit = requests.prompt[i], requests.output[i], requests.limit
    peaks, ceilings, bases = search.ahead.peaks, search.ahead.ceilings, search.ahead.bases
    while True:
        # The last round of the request itself.
        own_end = start + output
        covered = _ends_until(ends, x, running, own_end)
        first = covered
        while first > 0 and ends[x, first - 1] == own_end:
            first -= 1
        excess = bases[first] + (running - first) * own_end + prompt + output - limit
        if excess > 0:
            # With any start before the last round, the request still runs in that round.
            start = min(own_end, start + excess)
            continue
        # Memory at earlier ends is within the limit, or the last end above it gives the next start.
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


@step
def _look_ahead(beam: Beam, x: int, ahead: Ahead) -> None:
    """Compute the sums ``ahead`` over the running requests of state x, from the last end on."""
    ends, own_bases = beam.ends, beam.bases
    peaks, ceilings, bases, held, holding = ahead
    now, running = beam.states[x, NOW], beam.states[x, RUNNING]
    bases[running] = 0
    held[running] = holding[running] = 0.0
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
    """Sum w times the middle round of service over unplaced requests; service begins at ``begin``.

    Also return the sum of w over the requests that a later begin would delay: those served before
    the service first waits for an arrival. Ranks from ``stop`` on are beyond the window.
    """
    arrival, length, weight = requests.arrival, requests.length, requests.weight
    placed, window = beam.placed, beam.placed.shape[1]
    fluid, total, affected, busy = begin, 0.0, 0.0, True
    for i in range(beam.states[x, FIRST], stop):
        if placed[x, i % window] == 1:
            continue
        if fluid < arrival[i]:
            busy = False
            fluid = float(arrival[i])
        if busy:
            affected += weight[i]
        total += weight[i] * (fluid + 0.5 * length[i])
        fluid += length[i]
    # Beyond the window, service keeps the lag behind the reference of the end of the window.
    total += requests.later[stop] + requests.before_idle[stop] * (fluid - requests.front[stop])
    if busy:
        affected += requests.before_idle[stop]
    return total, affected


@step
def _are_alike(i: int, j: int, now: int, requests: RankedRequests) -> bool:
    """Return whether swapping two requests changes nothing from round ``now`` on."""
    prompt, output, arrival = requests.prompt, requests.output, requests.arrival
    are_alike: bool = prompt[i] == prompt[j] and output[i] == output[j]
    are_alike = are_alike and requests.weight[i] == requests.weight[j]
    return are_alike and max(arrival[i], now) == max(arrival[j], now)


@step
def _start(beam: Beam, x: int, i: int, search: Search) -> tuple[int, float]:
    """Return the start of request i in a child of state x, or -1 if too many requests run.

    It is the first fit from now on; requests of equal start are placed in rising rank. Also return
    the round in which the fluid relaxation begins to serve the other requests in this child.
    """
    requests, ahead, now = search.requests, search.ahead, beam.states[x, NOW]
    start = max(now, requests.arrival[i])
    if start == now and beam.states[x, LAST] > i:
        start = now + 1
    start = _first_start(start, i, beam, x, search)
    over = _ends_until(beam.ends, x, beam.states[x, RUNNING], start)
    running, gone = beam.states[x, RUNNING] - over, float(start - now)
    if running == beam.ends.shape[1]:
        return -1, 0.0
    held = ahead.held[over] - ahead.holding[over] * gone - running * 0.5 * gone * (gone + 1.0)
    return start, start + held / requests.capacity + requests.length[i]


@step
def _expand(beam: Beam, x: int, choices: int, search: Search) -> None:
    """Insert the children of state x that place one of its next ``choices`` different requests."""
    requests, placed, window = search.requests, beam.placed, beam.placed.shape[1]
    arrival, length, weight = requests.arrival, requests.length, requests.weight
    now, first = beam.states[x, NOW], beam.states[x, FIRST]
    stop = min(len(arrival), first + window)
    # Fluid relaxation of all unplaced requests, in which none of them is placed next.
    begin = now + search.ahead.held[0] / requests.capacity
    total, affected = _fluid_total(begin, x, beam, requests, stop)
    seen, before, fluid, like = 0, 0.0, begin, -1
    for i in range(first, stop):
        if seen == choices:
            break
        if placed[x, i % window] == 1:
            continue
        fluid = max(fluid, float(arrival[i]))
        mean = fluid + 0.5 * length[i]
        fluid += length[i]
        before += weight[i]
        # Try only one of several interchangeable requests.
        if like >= 0 and _are_alike(i, like, now, requests):
            continue
        like = i
        seen += 1
        start, begin_after = _start(beam, x, i, search)
        if start < 0:
            continue
        # Value: the fluid relaxation now serves the others, and begins later by ``shift`` rounds.
        shift = begin_after - begin
        cost = beam.costs[x] + weight[i] * (start + requests.moment[i])
        value = cost + total - weight[i] * mean + affected * shift
        if before - weight[i] < affected:
            value -= weight[i] * shift + (affected - before) * length[i]
        offer(value, cost, x, i, start, search.kept)


@step
def _write_child(beam: Beam, children: Beam, slot: int, search: Search) -> None:
    """Write the state of child number ``slot``: its parent with one more request started."""
    requests, kept = search.requests, search.kept
    states, ends, bases = children.states, children.ends, children.bases
    x, i, start = kept.rows[slot, 0], kept.rows[slot, 1], kept.rows[slot, 2]
    window, running = beam.placed.shape[1], beam.states[x, RUNNING]
    children.costs[slot] = kept.costs[slot]
    states[slot, NOW], states[slot, LAST] = start, i
    # Move the window past the placed requests.
    placed = children.placed[slot]
    for k in range(window):
        placed[k] = beam.placed[x, k]
    placed[i % window] = 1
    rank = beam.states[x, FIRST]
    while rank < len(requests.prompt) and placed[rank % window] == 1:
        placed[rank % window] = 0
        rank += 1
    states[slot, FIRST] = rank
    # Copy the requests still running, and insert the new one by its end.
    over = _ends_until(beam.ends, x, running, start)
    y, end = running - over, start + requests.output[i]
    states[slot, RUNNING] = y + 1
    while y > 0 and beam.ends[x, over + y - 1] >= end:
        ends[slot, y], bases[slot, y] = beam.ends[x, over + y - 1], beam.bases[x, over + y - 1]
        y -= 1
    ends[slot, y], bases[slot, y] = end, requests.prompt[i] - start
    for j in range(y):
        ends[slot, j], bases[slot, j] = beam.ends[x, over + j], beam.bases[x, over + j]


@njit
def grow(first_depth: int, last_depth: int, alive: int, choices: int, search: Search) -> int:
    """Extend the states by one request at a time, from first_depth to last_depth placed requests.

    ``alive`` is the number of states at first. Returns the number of states at the end: 0 if in
    every child too many requests would run at once.
    """
    beam, children, kept = search.beam, search.children, search.kept
    if first_depth % 2 == 1:
        beam, children = children, beam
    for depth in range(first_depth, last_depth):
        kept.used[0] = 0
        for x in range(alive):
            _look_ahead(beam, x, search.ahead)
            _expand(beam, x, choices, search)
        alive = kept.used[0]
        for slot in range(alive):
            _write_child(beam, children, slot, search)
            for k in range(3):
                search.tree[depth, slot, k] = kept.rows[slot, k]
        beam, children = children, beam
    return alive

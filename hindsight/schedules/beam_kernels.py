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

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray

NOW, FIRST, RUNNING, LAST = range(4)
"""Columns of a state's integers: last start, first unplaced rank, requests running, and rank placed
last (-1 before the first)."""


class RankedRequests(NamedTuple):
    """Requests in order of rank, and their fluid.

    Attributes
    ----------
    prompt, output, arrival : int64 array, shape (n,)
        Lengths in tokens, arrivals in rounds.
    length, moment, weight : float64 array, shape (n,)
        Rounds v / capacity that the fluid takes; m of the module docstring, times 1 - g; weights w.
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
    length: FloatArray
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
    states : int64 array, shape (width, 4)
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
    placed: npt.NDArray[np.uint8]
    ends: IntArray
    bases: IntArray


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


class Kept(NamedTuple):
    """The best children of a beam so far, least value first.

    Attributes
    ----------
    values, costs : float64 array, shape (width,)
        Values, and their parts by the placed requests.
    rows : int64 array, shape (width, 3)
        Parent, rank placed, and its start.
    used : int64 array, shape (1,)
        Number of children.
    """

    values: FloatArray
    costs: FloatArray
    rows: IntArray
    used: IntArray


class Search(NamedTuple):
    """What a beam search works on.

    Attributes
    ----------
    requests : RankedRequests
        All requests.
    beam, children : Beam
        The states with an even number of requests placed, and with an odd one.
    kept : Kept
        The best children.
    tree : int64 array, shape (n, width, 3)
        Rows of the best children of each depth.
    ahead : Ahead
        Work space, one entry more than requests may run at once.
    """

    requests: RankedRequests
    beam: Beam
    children: Beam
    kept: Kept
    tree: IntArray
    ahead: Ahead


@step
def offer(value: float, cost: float, x: int, i: int, start: int, kept: Kept) -> None:
    """Insert a child of state x, which starts request i, if it is one of the best."""
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
    """Count those of the sorted ends of state x that are at most ``round_index``."""
    low, high = 0, running
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
    peaks, ceilings, bases = ahead.peaks, ahead.ceilings, ahead.bases
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


@step
def _look_ahead(beam: Beam, x: int, ahead: Ahead) -> None:
    """Sum up what runs in state x, from the last end to the first."""
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
    """Sum w times the mean rounds of the fluid of all unplaced requests, which begins at ``begin``.

    Also sum w of the requests that would move with it: those before the first wait for an arrival.
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
    # Beyond the window the fluid follows the reference with the lag at the window's end.
    total += requests.later[stop] + requests.before_idle[stop] * (fluid - requests.front[stop])
    if busy:
        affected += requests.before_idle[stop]
    return total, affected


@step
def _are_alike(i: int, j: int, now: int, requests: RankedRequests) -> bool:
    """Tell whether two requests are alike from now on."""
    prompt, output, arrival = requests.prompt, requests.output, requests.arrival
    are_alike: bool = prompt[i] == prompt[j] and output[i] == output[j]
    are_alike = are_alike and requests.weight[i] == requests.weight[j]
    return are_alike and max(arrival[i], now) == max(arrival[j], now)


@step
def _start(beam: Beam, x: int, i: int, search: Search) -> tuple[int, float]:
    """Return the start of request i in a child of state x, or -1 without room for it.

    It is the first fit from now on; requests of equal start come in rising rank. Also return where
    the fluid of the others would begin behind what then runs.
    """
    requests, ahead, now = search.requests, search.ahead, beam.states[x, NOW]
    start = max(now, requests.arrival[i])
    if start == now and beam.states[x, LAST] > i:
        start = now + 1
    prompt, output = requests.prompt[i], requests.output[i]
    start = _first_start(start, prompt, output, requests.limit, beam, x, ahead)
    over = _ends_until(beam.ends, x, beam.states[x, RUNNING], start)
    running, gone = beam.states[x, RUNNING] - over, float(start - now)
    if running == beam.ends.shape[1]:
        return -1, 0.0
    held = ahead.held[over] - ahead.holding[over] * gone - running * 0.5 * gone * (gone + 1.0)
    return start, start + held / requests.capacity + requests.length[i]


@step
def _expand(beam: Beam, x: int, choices: int, search: Search) -> None:
    """Try the next requests of state x, up to ``choices`` different ones."""
    requests, placed, window = search.requests, beam.placed, beam.placed.shape[1]
    arrival, length, weight = requests.arrival, requests.length, requests.weight
    now, first = beam.states[x, NOW], beam.states[x, FIRST]
    stop = min(len(arrival), first + window)
    # Fluid of all unplaced requests if nothing more were placed now.
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
        # Try only one of several requests alike.
        if like >= 0 and _are_alike(i, like, now, requests):
            continue
        like = i
        seen += 1
        start, begin_after = _start(beam, x, i, search)
        if start < 0:
            continue
        # Value: the fluid without this request begins behind what then runs.
        shift = begin_after - begin
        cost = beam.costs[x] + weight[i] * (start + requests.moment[i])
        value = cost + total - weight[i] * mean + affected * shift
        if before - weight[i] < affected:
            value -= weight[i] * shift + (affected - before) * length[i]
        offer(value, cost, x, i, start, search.kept)


@step
def _write_child(
    beam: Beam, children: Beam, slot: int, requests: RankedRequests, kept: Kept
) -> None:
    """Write the child number ``slot``: its state with its request started."""
    states, ends, bases = children.states, children.ends, children.bases
    x, i, start = kept.rows[slot, 0], kept.rows[slot, 1], kept.rows[slot, 2]
    window, running = beam.placed.shape[1], beam.states[x, RUNNING]
    children.costs[slot] = kept.costs[slot]
    states[slot, NOW], states[slot, LAST] = start, i
    # The window moves past the placed requests.
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
    """Place requests number first_depth .. last_depth - 1 in every state, ``alive`` at first.

    Returns the number of states that follow, 0 where no child had room for its requests.
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
            _write_child(beam, children, slot, search.requests, kept)
            for k in range(3):
                search.tree[depth, slot, k] = kept.rows[slot, k]
        beam, children = children, beam
    return alive

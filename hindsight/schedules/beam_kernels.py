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
hold memory. For a placed request i this is t_i + m_i with m_i = sum_j j (s_i + j) / v_i, where v_i
= sum_j (s_i + j) is its volume. For the unplaced requests a fluid relaxation estimates it. There,
requests are served one after another, in order of rank. The service begins at now + R / M, where M
is the memory limit and R the volume that the running requests will still hold, and request i takes
v_i / M rounds, from its arrival or later. The value is the weighted sum of t_i + (1 - g) m_i over
placed requests and of the middle rounds of service over the others. g = 0 would be an estimate of
the total. g > 0 prefers states that have placed long-running requests, because short ones fill the
gaps that are left at the end.

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
"""Columns of `Beam.states`, whose rows are partial schedules. `NOW`: start of the request placed
last. `FIRST`: least rank (place in the order) of an unplaced request. `RUNNING`: number of running
requests. `LAST`: rank of the request placed last, or -1 if none is placed."""


class RankedRequests(NamedTuple):
    """Requests in order of rank (place in the priority order), and a fluid relaxation of them all.

    The fluid relaxation is a single server without memory limits. It serves the requests one after
    another, in order of rank, and none of them before its arrival.

    Attributes
    ----------
    prompt, output, arrival : int64 array, shape (n,)
        Prompt and output lengths in tokens, arrivals in rounds.
    length : float64 array, shape (n,)
        Rounds for which the fluid relaxation serves each request: its volume (tokens held, summed
        over its rounds) divided by ``limit``.
    moment : float64 array, shape (n,)
        Mean round in which each request holds its memory, times (1 - `BeamSettings.preference`).
        Rounds are counted from the start of the request and weighted by the tokens held in them.
    weight : float64 array, shape (n,)
        Weights w of the requests.
    limit : int
        Memory limit M, tokens.
    front : float64 array, shape (n + 1,)
        Entry i: time, in rounds, at which the server has completed all requests of rank below i.
    later : float64 array, shape (n + 1,)
        Entry i: sum, over all requests of rank >= i, of w times the round in the middle of their
        service.
    before_idle : float64 array, shape (n + 1,)
        Entry i: sum of w over the requests of rank >= i that are served before the server next
        waits for an arrival. If the server began rank i slightly later, exactly these requests
        would be delayed.
    """

    prompt: IntArray
    output: IntArray
    arrival: IntArray
    length: FloatArray
    moment: FloatArray
    weight: FloatArray
    limit: int
    front: FloatArray
    later: FloatArray
    before_idle: FloatArray


class Beam(NamedTuple):
    """Arrays that hold ``width`` states (partial schedules), one per row.

    Attributes
    ----------
    states : int64 array, shape (width, 4)
        Columns `NOW`, `FIRST`, `RUNNING` and `LAST`.
    costs : float64 array, shape (width,)
        Part that the placed requests of each state contribute to its value. The value estimates the
        weighted cost of the complete schedules that extend the state: the sum, over requests, of
        weight times the mean round in which the request holds memory.
    placed : uint8 array, shape (width, window)
        1 for placed requests among the ``window`` ranks (places in the priority order) from the
        first unplaced request on, else 0. The request of rank i has column i modulo ``window``.
    ends, bases : int64 array, shape (width, room)
        Row x has one entry for each running request of state x, sorted by last round. In ``ends``,
        it is the last round of the request. In ``bases``, it is the prompt length minus the start:
        the request holds this number plus r tokens in round r. At most ``room`` requests may run at
        once.
    """

    states: IntArray
    costs: FloatArray
    placed: npt.NDArray[np.uint8]
    ends: IntArray
    bases: IntArray


class Ahead(NamedTuple):
    """Memory that the running requests of one state (partial schedule) hold in later rounds.

    The running requests are sorted by end (last round). Entry j of each array belongs to the j-th
    of them. Each array has one entry more than requests may run at once. A request with prompt
    length s and start t holds s - t + r tokens in each round r in which it runs.

    Attributes
    ----------
    peaks : int64 array
        Tokens that request j and all after it hold in the round in which request j ends. If several
        requests end in that round, only the entry of the first of them counts them all.
    ceilings : int64 array
        Largest value of ``peaks[k]`` plus the last round of request k, over k = 0 .. j. A further
        request with prompt length s and start t fits in the last rounds of the requests 0 .. j if
        this value plus s - t is at most the memory limit M.
    bases : int64 array
        Sum of prompt length minus start, over request j and all after it.
    held : float64 array
        Sum, over the rounds after the start of the state's last placed request, of the tokens that
        request j and all after it hold.
    holding : float64 array
        Tokens that request j and all after it hold in the round in which the state's last placed
        request starts.
    """

    peaks: IntArray
    ceilings: IntArray
    bases: IntArray
    held: FloatArray
    holding: FloatArray


class Kept(NamedTuple):
    """The best children found so far of the states (partial schedules) in a beam.

    A child is a state with one more request placed. Children are sorted by ascending value, which
    estimates the weighted cost of the complete schedules that extend the child.

    Attributes
    ----------
    values, costs : float64 array, shape (width,)
        Value of each child, and the part of it that the placed requests contribute.
    rows : int64 array, shape (width, 3)
        Of each child: row of its parent, rank (place in the priority order) of the request that it
        places, and start of that request.
    used : int64 array, shape (1,)
        Number of children found so far, at most ``width``.
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
        All requests, in order of rank.
    beam, children : Beam
        Two beams, in turn parents and children: ``beam`` holds the states with an even number of
        placed requests, ``children`` the states with an odd number.
    kept : Kept
        The best children (partial schedules with one more request) found in the present step.
    tree : int64 array, shape (n, width, 3)
        Entry (d, c): row of the parent of child c, rank (place in the priority order) of the
        request that it places, and start of that request (`Kept.rows`), in the step from d to d + 1
        placed requests. From these entries, the starts of the final schedule are read backwards.
    ahead : Ahead
        Workspace: memory that the running requests of the state being extended hold later. Each
        array has one entry more than the number of requests that may run at once.
    """

    requests: RankedRequests
    beam: Beam
    children: Beam
    kept: Kept
    tree: IntArray
    ahead: Ahead


@step
def offer(value: float, cost: float, x: int, i: int, start: int, kept: Kept) -> None:
    """Insert a child into ``kept``, which holds the children with the least values so far.

    The child is the partial schedule in row x of the beam with the request of rank i (place in the
    priority order) added at ``start``. Its ``value`` estimates the cost of complete schedules that
    extend it. ``cost`` is the part of the value that the placed requests contribute. If ``kept`` is
    full, the child with the largest value is dropped.
    """
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
    """Count the running requests of a partial schedule that end in round ``round_index`` or before.

    Row x of ``ends`` has the last rounds of its ``running`` running requests, ascending.
    """
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
    """Return the first start >= ``start`` at which request i fits into partial schedule x.

    Partial schedule x is row x of ``beam``, and request i is the one of rank i (place in the
    priority order). It fits if it and the running requests together hold at most M tokens, the
    memory limit, in each round of its run.
    """
    ends, running, requests = beam.ends, beam.states[x, RUNNING], search.requests
    prompt, output, limit = requests.prompt[i], requests.output[i], requests.limit
    peaks, ceilings, bases = search.ahead.peaks, search.ahead.ceilings, search.ahead.bases
    while True:
        # First, check the last round of request i, ``own_end``. Requests that end before it hold no
        # memory in it. ``excess`` is the number of tokens in this round minus the memory limit.
        own_end = start + output
        covered = _ends_until(ends, x, running, own_end)
        first = covered
        while first > 0 and ends[x, first - 1] == own_end:
            first -= 1
        excess = bases[first] + (running - first) * own_end + prompt + output - limit
        if excess > 0:
            # Each round by which request i is delayed lowers its memory in round ``own_end`` by one
            # token. So delay it by ``excess`` rounds, or to ``own_end`` if that is earlier: a
            # request that starts at ``own_end`` holds no memory in round ``own_end``.
            start = min(own_end, start + excess)
            continue
        # Then check the rounds before own_end in which a running request ends. This is enough,
        # because the memory in use grows from round to round until a request ends. If it exceeds
        # the memory limit in some of these rounds, the last of them gives the next start to try.
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
    """Compute the memory that the running requests of partial schedule x hold in later rounds.

    Partial schedule x is row x of ``beam``. Later rounds are those after the start of the request
    placed last. The results are written into the arrays of ``ahead``.
    """
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
    """Return the cost of the unplaced requests of partial schedule x in a fluid relaxation.

    Partial schedule x is row x of ``beam``. In the fluid relaxation, a single server serves the
    unplaced requests one after another, in order of rank (place in the priority order), from round
    ``begin`` on. The cost is the sum, over these requests, of weight times the round in the middle
    of the service.

    Also return the sum of the weights of the requests that are served before the server first waits
    for an arrival. A slightly later ``begin`` would delay exactly these requests.

    Requests of rank ``stop`` or more are all unplaced, and their cost is approximated. It is their
    cost in the fluid relaxation of all requests (`RankedRequests`), corrected for the different
    times at which the server reaches rank ``stop`` in the two relaxations.
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
    # Add the cost of the requests of rank (place in the priority order) >= ``stop``, approximately.
    # In the fluid relaxation of all requests this cost is later[stop], and the server reaches rank
    # ``stop`` at front[stop]. In the relaxation of the unplaced requests, the server reaches it at
    # ``fluid``. By the difference of these two times, the server serves the requests from rank
    # ``stop`` on later or earlier, until it next waits for an arrival. The weights of the requests
    # served until then sum to before_idle[stop].
    total += requests.later[stop] + requests.before_idle[stop] * (fluid - requests.front[stop])
    if busy:
        affected += requests.before_idle[stop]
    return total, affected


@step
def _are_alike(i: int, j: int, now: int, requests: RankedRequests) -> bool:
    """Return whether requests i and j are interchangeable in schedules from round ``now`` on.

    They are interchangeable if they have equal prompt lengths, output lengths and weights, and if
    they have equal arrivals or have both arrived by round ``now``.
    """
    prompt, output, arrival = requests.prompt, requests.output, requests.arrival
    are_alike: bool = prompt[i] == prompt[j] and output[i] == output[j]
    are_alike = are_alike and requests.weight[i] == requests.weight[j]
    return are_alike and max(arrival[i], now) == max(arrival[j], now)


@step
def _start(beam: Beam, x: int, i: int, search: Search) -> tuple[int, float]:
    """Return the start of request i if it is placed next in partial schedule x (row of ``beam``).

    The request takes the first start at which it fits, not before the start of the request placed
    last. Requests with equal starts are placed only in order of rising rank (place in the priority
    order). The start is -1 if more requests would run at once than `Beam.ends` has columns.

    Also return a round of the fluid relaxation of the schedule with request i added. There, one
    server serves volume (tokens times rounds), `RankedRequests.limit` tokens per round. From the
    start of request i on, it first serves the volume of request i and the remaining volume of the
    requests that then run. The returned round is the one in which the server begins with the
    unplaced requests.
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
    return start, start + held / requests.limit + requests.length[i]


@step
def _expand(beam: Beam, x: int, choices: int, search: Search) -> None:
    """Extend the partial schedule x by one request in up to ``choices`` ways (children of x).

    The children with the least values are kept in ``search.kept``. The value of a child estimates
    the weighted cost of the complete schedules that extend it. Each child places one of the first
    ``choices`` unplaced requests, in order of rank (place in the priority order). Of consecutive
    interchangeable requests, only the first one is tried, and the others do not count as choices.
    """
    requests, placed, window = search.requests, beam.placed, beam.placed.shape[1]
    arrival, length, weight = requests.arrival, requests.length, requests.weight
    now, first = beam.states[x, NOW], beam.states[x, FIRST]
    stop = min(len(arrival), first + window)
    # ``total`` is the cost of all unplaced requests of partial schedule x in the fluid relaxation,
    # where a single server serves them in order of rank (place in the priority order). The value of
    # each child follows from it: the server need not serve the request that the child places, and
    # begins later to serve the others.
    begin = now + search.ahead.held[0] / requests.limit
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
        # Skip request i if it is interchangeable with the last request tried, ``like``.
        if like >= 0 and _are_alike(i, like, now, requests):
            continue
        like = i
        seen += 1
        start, begin_after = _start(beam, x, i, search)
        if start < 0:
            continue
        # Value of the child: cost of its placed requests, plus cost of its unplaced requests in the
        # fluid relaxation. There, the server does not serve request i, and begins to serve the
        # others ``shift`` rounds later than for x. This delays only the requests that it serves
        # before it first waits for an arrival. The sum of their weights is ``affected``. If i is
        # one of the delayed requests, two terms must be subtracted. The first is the delay of i
        # itself. The second is length[i] rounds for each delayed request of higher rank (later in
        # the priority order) than i, because the server does not serve i before them. Their weights
        # sum to ``affected - before``.
        shift = begin_after - begin
        cost = beam.costs[x] + weight[i] * (start + requests.moment[i])
        value = cost + total - weight[i] * mean + affected * shift
        if before - weight[i] < affected:
            value -= weight[i] * shift + (affected - before) * length[i]
        offer(value, cost, x, i, start, search.kept)


@step
def _write_child(beam: Beam, children: Beam, slot: int, search: Search) -> None:
    """Write child number ``slot`` of ``search.kept`` into row ``slot`` of ``children``.

    The child is a partial schedule of ``beam`` with one more request placed.
    """
    requests, kept = search.requests, search.kept
    states, ends, bases = children.states, children.ends, children.bases
    x, i, start = kept.rows[slot, 0], kept.rows[slot, 1], kept.rows[slot, 2]
    window, running = beam.placed.shape[1], beam.states[x, RUNNING]
    children.costs[slot] = kept.costs[slot]
    states[slot, NOW], states[slot, LAST] = start, i
    # ``placed`` has a flag for each rank (place in the priority order) in a window of ranks, which
    # is 1 if the request of this rank is placed. Move the window, so that it begins at the first
    # unplaced rank of the child.
    placed = children.placed[slot]
    for k in range(window):
        placed[k] = beam.placed[x, k]
    placed[i % window] = 1
    rank = beam.states[x, FIRST]
    while rank < len(requests.prompt) and placed[rank % window] == 1:
        placed[rank % window] = 0
        rank += 1
    states[slot, FIRST] = rank
    # Copy the requests of the parent (partial schedule x) that still run after round ``start``, the
    # start of request i. They are sorted by end (last round). Insert request i among them.
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
    """Run a beam search from ``first_depth`` placed requests to ``last_depth`` placed requests.

    Each step replaces the states (partial schedules) by their best children, in which one more
    request is placed. ``alive`` is the number of states before the first step. For each state, up
    to ``choices`` requests are tried. Return the number of states after the last step. It is 0 if
    every child had more running requests than `Beam.ends` has columns.
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

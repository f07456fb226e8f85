"""Compiled annealing of the order in which requests are placed, and of their delays.

A schedule is represented by an order of the requests and a delay >= 0 of each. The requests are
placed in this order. Request i takes the first start t0 at which it fits for its whole run with
those placed before. If its delay is above 0, it takes the first such start >= t0 + delay instead.
If delays are used, no request starts before the one placed just before it.

*Every feasible schedule has such an order.* Sort by start time and let the delay of i be t_i - t0.
This is >= 0: t_i is >= a_i and >= the start of the predecessor, and i fits at t_i with those placed
before, a subset of the schedule; t0 is the first such start. And the first such start >= t0 + delay
= t_i is t_i itself. Without delays this does not hold: an earlier start makes a request larger in
every later round.

With ``stops``, requests may stop and resume. Each one runs in the first rounds in which the memory
left by those placed before holds its tokens. Then possibly no order leads to an optimum, because a
request placed early may take rounds that an optimal schedule gives to others.

A move puts a request elsewhere in the order, swaps two requests, or changes a delay. Then it places
all later requests again. It ends early if all requests that it placed keep their starts, or as soon
as it cannot be accepted any more (Kirkpatrick, Gelatt and Vecchi 1983). Successive moves begin at
later and later places of the order, and then again at its front (a sweep). So the memory profile of
the requests before the present place is always known.
"""

from __future__ import annotations

from typing import NamedTuple

from hindsight.runtime.compilation import njit, overwrite, step
from instances.arrays import FloatArray, IntArray

from .timetables import Timetable, fit, hold, next_uniform, threshold

FARTHEST = 200
"""Most places of the order by which a move shifts a request."""

SWAPPED = 0.3
"""Share of swaps of two requests among the moves that change the order."""

EARLIER, SWAP, LATER, DELAY = -1, 0, 1, 2
"""Kinds of moves: put a request at an earlier place, swap two, put one at a later place, or change
a delay. A change of the order is undone by the kind of opposite sign."""

PRESENT, TRIED, BEST = range(3)
"""Rows of ``rounds`` and ``machines``: the present schedule, the tried one, and the best one."""

PLACE, GAINED, MOST_GAINED, PLACED = range(4)
"""Entries of ``counts``: the present place in the order, the reduction in cost from the first
schedule to the present one and to the best one, and the number of requests placed so far."""


class Sequence(NamedTuple):
    """State of an annealing: the order, three schedules, and parameters of the moves.

    Attributes
    ----------
    table : Timetable
        The requests, and the blocks held in each round by those before the present place in the
        order. Its starts and machines are those of row `PRESENT`.
    total : int
        Number of moves of the annealing.
    hot, cold : float
        First and last temperature, in the unit of costs.
    slack : float
        A move is rejected once its increase in cost over the requests placed so far exceeds the
        acceptance threshold by this much, although later requests may still start earlier.
    delayed : float
        Share of moves that change a delay; 0 for schedules without delays.
    longest_delay : int
        Longest delay, rounds.
    stops : bool
        Whether requests may stop and resume.
    shares : float64 array, shape (n,)
        Probability that a drawn request is moved; otherwise another one is drawn.
    order, delay : int64 array, shape (n,)
        Requests in the order in which they are placed, and the delay of each request, rounds.
    offset : int64 array, shape (n,)
        First entry of each request in ``rounds``.
    rounds : int64 array, shape (3, n) or (3, tokens)
        Start of each request, or with ``stops`` the round of each token, in rows `PRESENT`, `TRIED`
        and `BEST`.
    machines : int64 array, shape (3, n)
        Machine of each request, in the same rows.
    counts : int64 array, shape (4,)
        See `PLACE`.
    state : int64 array, shape (1,)
        State of `next_uniform`.
    """

    table: Timetable
    total: int
    hot: float
    cold: float
    slack: float
    delayed: float
    longest_delay: int
    stops: bool
    shares: FloatArray
    order: IntArray
    delay: IntArray
    offset: IntArray
    rounds: IntArray
    machines: IntArray
    counts: IntArray
    state: IntArray


@step
def _find(work: Sequence, i: int, now: int) -> int:
    """Find rounds and a machine for request i, and write them to row `TRIED`.

    ``now`` is the start of the request placed before. Return the start of request i, or with
    ``stops`` its last round, or -1 if the profiles are too short.
    """
    requests, profiles, new = work.table.requests, work.table.profiles, work.rounds[TRIED]
    first, size = work.offset[i], profiles.shape[1]
    if work.stops:
        r = requests.arrival[i]
        for k in range(requests.output[i]):
            tokens = requests.prompt[i] + k + 1
            r += 1
            while r < size and profiles[0, r] + tokens > requests.limit:
                r += 1
            if r >= size:
                return -1
            new[first + k] = r
        return int(r)
    begin, machine = requests.arrival[i], work.machines[PRESENT, i]
    if work.delayed > 0:
        begin = max(begin, now)
    at, k = fit(requests, profiles, i, begin, machine, size)
    if at >= 0 and work.delay[i] > 0:
        at, k = fit(requests, profiles, i, at + work.delay[i], machine, size)
    new[first], work.machines[TRIED, i] = at, k
    return int(at)


@step
def _hold(work: Sequence, row: int, i: int, sign: int) -> None:
    """Add request i, as placed in ``row``, to the profiles; subtract it with ``sign`` -1."""
    table, rounds, first = work.table, work.rounds, work.offset[i]
    if work.stops:
        for k in range(table.requests.output[i]):
            table.profiles[0, rounds[row, first + k]] += sign * (table.requests.prompt[i] + k + 1)
    else:
        hold(table, i, rounds[row, first], work.machines[row, i], sign)


@step
def _entries(work: Sequence, i: int) -> int:
    """Return the number of entries of a request in ``rounds``."""
    return int(work.table.requests.output[i]) if work.stops else 1


@step
def _end(work: Sequence, i: int) -> int:
    """Return the present start of a request, or with ``stops`` its last round."""
    return int(work.rounds[PRESENT, work.offset[i] + _entries(work, i) - 1])


@step
def _keep(work: Sequence, i: int) -> None:
    """Copy the rounds and machine of a request from row `TRIED` to row `PRESENT`."""
    for k in range(work.offset[i], work.offset[i] + _entries(work, i)):
        work.rounds[PRESENT, k] = work.rounds[TRIED, k]
    work.machines[PRESENT, i] = work.machines[TRIED, i]


@njit
def begin_order(work: Sequence, first: int, last: int) -> bool:
    """Place requests first .. last - 1 of the order; return False if the profiles are too short.

    With delays, the requests keep their starts, and the delays that lead to them are computed.
    """
    now = _end(work, work.order[first - 1]) if first > 0 else 0
    for i in work.order[first:last]:
        at = _find(work, i, now)
        if at < 0:
            return False
        if work.delayed > 0:
            work.delay[i] = _end(work, i) - at
        else:
            _keep(work, i)
        _hold(work, PRESENT, i, 1)
        now = _end(work, i)
    return True


@step
def _change(order: IntArray, one: int, two: int, kind: int) -> None:
    """Swap the requests at two places of the order, or move a request from one to the other."""
    if kind == SWAP:
        order[one], order[two] = order[two], order[one]
    elif kind != DELAY:
        place, to = (one, two) if kind == LATER else (two, one)
        i, by = order[place], 1 if to > place else -1
        while place != to:
            order[place] = order[place + by]
            place += by
        order[to] = i


@step
def _advance(work: Sequence, place: int) -> int:
    """Add the request at ``place`` to the profiles, and return the next place of the sweep.

    After the last place, empty the profiles and return 0.
    """
    order = work.order
    _hold(work, PRESENT, order[place], 1)
    if place < len(order) - (1 if work.delayed > 0 else 2):
        return place + 1
    for i in order[: place + 1]:
        _hold(work, PRESENT, i, -1)
    return 0


@step
def _draw(work: Sequence) -> tuple[int, int, int, int]:
    """Draw a move: the first and last place that it changes, its kind, and the moved request."""
    state, order, n = work.state, work.order, len(work.order)
    place, other, kind, i = work.counts[PLACE], 0, 0, 0
    is_drawn = False
    while not is_drawn:
        place = _advance(work, place)
        other = min(n - 1, place + int(float(min(n, FARTHEST)) ** next_uniform(state)))
        kind = LATER if next_uniform(state) < 0.5 else EARLIER
        if next_uniform(state) < work.delayed or other == place:
            kind, other = DELAY, place
        i = order[other if kind == EARLIER else place]
        is_drawn = next_uniform(state) < work.shares[i]
    if kind != DELAY and next_uniform(state) < SWAPPED:
        kind = SWAP
    work.counts[PLACE] = place
    return place, other, kind, i


@step
def _redraw_delay(work: Sequence, i: int, kind: int) -> None:
    """Draw a new delay, often 0, if the move changes a delay; else set it to 0 half of the time."""
    state, delay = work.state, work.delay
    # A delay that is good at one place of the order is rarely good at another.
    if delay[i] > 0 and next_uniform(state) < (0.6 if kind == DELAY else 0.5):
        delay[i] = 0
    elif kind == DELAY:
        delay[i] = 1 + int(next_uniform(state) * work.longest_delay)


@step
def _place(work: Sequence, first: int, last: int, most: float) -> tuple[float, int, bool]:
    """Try a changed order: place its requests from place ``first`` on, in row `TRIED`.

    ``first`` and ``last`` are the first and last place that the move changed. The profiles are the
    same after the call. Return the change in cost, the first place that was not reached, and
    whether the move is feasible and the change is at most ``most``.
    """
    order, weight, n = work.order, work.table.requests.weight, len(work.order)
    in_order = work.delayed > 0
    now = _end(work, order[first - 1]) if first > 0 else 0
    hopeless, left, old = most + work.slack, 0.0, 0.0
    if in_order:
        for i in order[first:]:
            left += weight[i]
            old += weight[i] * _end(work, i)
    j, change, moved, fits = first, 0.0, 0, True
    while j < n and fits:
        i = order[j]
        at = _find(work, i, now)
        if at < 0:
            fits = False
            break
        _hold(work, TRIED, i, 1)
        was = _end(work, i)
        change += weight[i] * (at - was)
        moved += at != was or work.machines[PRESENT, i] != work.machines[TRIED, i]
        now, j = at, j + 1
        if in_order:
            # All later requests start now or later, which bounds their cost from below.
            left -= weight[i]
            old -= weight[i] * was
            fits = change + left * now - old <= most
        if j > last and ((moved == 0 and not work.stops) or change > hopeless):
            break
    for i in order[first:j]:
        _hold(work, TRIED, i, -1)
    return change, j, fits and change <= most


@njit
def anneal(work: Sequence, first_move: int, last_move: int) -> None:
    """Make moves first_move .. last_move - 1 of the annealing, in place."""
    order, counts, state = work.order, work.counts, work.state
    for move in range(first_move, last_move):
        place, other, kind, i = _draw(work)
        _change(order, place, other, kind)
        delay = work.delay[i]
        if work.delayed > 0:
            _redraw_delay(work, i, kind)
        done = move / work.total
        most = threshold(0.0, work.hot, work.cold, done, next_uniform(state))
        change, end, is_accepted = _place(work, place, other, most)
        counts[PLACED] += end - place
        if not is_accepted:
            _change(order, place, other, -kind if kind != DELAY else kind)
            work.delay[i] = delay
            continue
        for k in order[place:end]:
            _keep(work, k)
        counts[GAINED] -= int(change)
        if counts[GAINED] > counts[MOST_GAINED]:
            counts[MOST_GAINED] = counts[GAINED]
            overwrite(work.rounds[BEST], work.rounds[PRESENT])
            overwrite(work.machines[BEST], work.machines[PRESENT])

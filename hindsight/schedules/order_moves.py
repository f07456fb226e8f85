"""Compiled annealing of the order in which requests are placed, and of their delays.

A schedule is an order of the requests and a delay >= 0 of each: request i, in turn, takes the first
start t0 at which it fits for its whole life beside those before it; if its delay is above 0 it
takes the first such start >= t0 + delay instead. With ``in_order`` no request starts before the one
placed before it.

*Every feasible schedule has such an order.* Sort by start time and let the delay of i be t_i - t0.
This is >= 0: t_i is a start that is >= a_i and >= that of the predecessor, and at which i fits
beside those placed before, a subset of the schedule; t0 is the first of these. And the first such
start >= t0 + delay = t_i is t_i itself. Without delays this does not hold: an earlier start makes a
request larger in every later round.

With ``stops`` requests may stop and go on: each takes the earliest rounds, in order of time, in
which the memory left by those before it holds its next token. No order need lead to an optimum
then, because a request inserted early may take rounds that an optimal schedule gives to others.

A move puts a request elsewhere in the order, swaps two, or changes a delay, and places everything
behind anew, because a long request that waits changes what thousands of later rounds can hold.
Moves sweep the order from its front, so that the memory of the requests before the present one is
always at hand, and a move touches only those that it places. It ends early if nothing moved, or as
soon as acceptance is out of reach (Kirkpatrick, Gelatt and Vecchi 1983).
"""

from __future__ import annotations

from typing import NamedTuple

from hindsight.runtime.compilation import njit, overwrite, step
from instances.arrays import FloatArray, IntArray

from .draws import next_uniform, threshold
from .timetables import Requests, fit, hold_start

SWAPPED = 0.3
"""Share of the moves in the order that swap two requests."""

EARLIER, SWAP, LATER, DELAY = -1, 0, 1, 2
"""Kinds of moves; the negative one takes a move in the order back."""

PLACE, GAINED, MOST_GAINED, PLACED = range(4)
"""Entries of ``counts``: the present place, the cost gained since the first schedule, the same of
the best schedule, and how many requests were placed."""


class Sequence(NamedTuple):
    """An order, its schedule, and how far the sweep has come; moves change it in place.

    Attributes
    ----------
    order, delay : int64 array, shape (n,)
        Requests in the order in which they are placed, and the delay of each, rounds.
    offset : int64 array, shape (n,)
        First entry of each request in the following arrays.
    rounds, new, best : int64 array, shape (n,) or (tokens,)
        Start of each request, or with ``stops`` the round of each token; of the present schedule,
        of the one that a move tries, and of the best one.
    machines, new_machines, best_machines : int64 array, shape (n,)
        Machines in these schedules.
    profiles : int64 array, shape (machines, rounds)
        Blocks held by the requests before the present place.
    counts : int64 array, shape (4,)
        See `PLACE`.
    state : int64 array, shape (1,)
        State of `next_uniform`.
    """

    order: IntArray
    delay: IntArray
    offset: IntArray
    rounds: IntArray
    new: IntArray
    best: IntArray
    machines: IntArray
    new_machines: IntArray
    best_machines: IntArray
    profiles: IntArray
    counts: IntArray
    state: IntArray


class Annealing(NamedTuple):
    """Parameters of an annealing.

    Attributes
    ----------
    total : int
        Number of moves.
    hot, cold : float
        First and last temperature, in costs.
    slack : float
        Cost beyond what is accepted at which a move is given up although those behind may gain.
    farthest : float
        Most places by which a move puts a request elsewhere.
    delayed : float
        Share of moves that change a delay; 0 for schedules without delays.
    longest_delay : int
        Most rounds of a delay.
    in_order, stops : int
        1 for schedules in order of start, and for requests that may stop; else 0.
    shares : float64 array, shape (n,)
        Probability with which a drawn request is moved.
    """

    total: int
    hot: float
    cold: float
    slack: float
    farthest: float
    delayed: float
    longest_delay: int
    in_order: int
    stops: int
    shares: FloatArray


@step
def _find(requests: Requests, plan: Annealing, work: Sequence, i: int, now: int) -> int:
    """Write where a request is placed to ``new``; return its start or last round, or -1."""
    arrival, profiles, size = requests.arrival[i], work.profiles, work.profiles.shape[1]
    if plan.stops == 1:
        r = arrival
        for k in range(requests.output[i]):
            tokens = requests.prompt[i] + k + 1
            r += 1
            while r < size and profiles[0, r] + tokens > requests.limit:
                r += 1
            if r >= size:
                return -1
            work.new[work.offset[i] + k] = r
        return int(r)
    begin = max(arrival, now) if plan.in_order == 1 else arrival
    at, k = fit(requests, profiles, i, begin, work.machines[i], size)
    if at >= 0 and work.delay[i] > 0:
        at, k = fit(requests, profiles, i, at + work.delay[i], work.machines[i], size)
    work.new[work.offset[i]] = at
    work.new_machines[i] = k
    return int(at)


@step
def _hold(
    requests: Requests,
    plan: Annealing,
    work: Sequence,
    rounds: IntArray,
    machines: IntArray,
    i: int,
    sign: int,
) -> None:
    """Add a request to the profiles, or subtract it with ``sign`` -1."""
    first = work.offset[i]
    if plan.stops == 1:
        for k in range(requests.output[i]):
            work.profiles[0, rounds[first + k]] += sign * (requests.prompt[i] + k + 1)
    else:
        hold_start(requests, work.profiles, i, rounds[first], machines[i], sign)


@step
def _end(requests: Requests, plan: Annealing, work: Sequence, i: int) -> int:
    """Return the start of a request, or with ``stops`` its last round."""
    return int(work.rounds[work.offset[i] + (requests.output[i] - 1 if plan.stops == 1 else 0)])


@step
def _keep(requests: Requests, plan: Annealing, work: Sequence, i: int) -> int:
    """Take over where a request is placed; return whether it was elsewhere."""
    moved = 0
    for k in range(work.offset[i], work.offset[i] + (requests.output[i] if plan.stops else 1)):
        if work.rounds[k] != work.new[k]:
            moved = 1
            work.rounds[k] = work.new[k]
    work.machines[i] = work.new_machines[i]
    return moved


@njit
def begin_order(requests: Requests, plan: Annealing, work: Sequence, first: int, last: int) -> bool:
    """Place requests first .. last - 1 of the order; False if the profiles are too short.

    With delays the schedule stays as it is: the delays are those that lead to it.
    """
    now = _end(requests, plan, work, work.order[first - 1]) if first > 0 else 0
    for i in work.order[first:last]:
        work.delay[i] = 0
        at = _find(requests, plan, work, i, now)
        if at < 0:
            return False
        if plan.delayed > 0:
            work.delay[i] = work.rounds[work.offset[i]] - at
        else:
            _keep(requests, plan, work, i)
        _hold(requests, plan, work, work.rounds, work.machines, i, 1)
        now = _end(requests, plan, work, i)
    return True


@step
def _change(order: IntArray, one: int, two: int, kind: int) -> None:
    """Swap two places of the order, or put the request at one place at another."""
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
def _advance(requests: Requests, plan: Annealing, work: Sequence, place: int) -> int:
    """Add the request at a place to the profiles; return the next place, at last the first one."""
    order = work.order
    _hold(requests, plan, work, work.rounds, work.machines, order[place], 1)
    if place < len(order) - (1 if plan.delayed > 0 else 2):
        return place + 1
    for i in order[: place + 1]:
        _hold(requests, plan, work, work.rounds, work.machines, i, -1)
    return 0


@step
def _draw(requests: Requests, plan: Annealing, work: Sequence) -> tuple[int, int, int, int]:
    """Draw a move: the first and last place that it changes, its kind, and the request."""
    state, order, n = work.state, work.order, len(work.order)
    place, other, kind, i = work.counts[PLACE], 0, 0, 0
    is_drawn = False
    while not is_drawn:
        place = _advance(requests, plan, work, place)
        other = min(n - 1, place + int(plan.farthest ** next_uniform(state)))
        kind = LATER if next_uniform(state) < 0.5 else EARLIER
        if next_uniform(state) < plan.delayed or other == place:
            kind, other = DELAY, place
        i = order[other if kind == EARLIER else place]
        is_drawn = next_uniform(state) < plan.shares[i]
    if kind != DELAY and next_uniform(state) < SWAPPED:
        kind = SWAP
    work.counts[PLACE] = place
    return place, other, kind, i


@step
def _redraw_delay(plan: Annealing, work: Sequence, i: int, kind: int) -> None:
    """Draw another delay; of a request that moves in the order, drop it half of the time."""
    state, delay = work.state, work.delay
    if kind == DELAY:
        if delay[i] > 0 and next_uniform(state) < 0.6:
            delay[i] = 0
        else:
            delay[i] = 1 + int(next_uniform(state) * plan.longest_delay)
    elif delay[i] > 0 and next_uniform(state) < 0.5:
        # A delay suits only one place.
        delay[i] = 0


@step
def _place(
    requests: Requests, plan: Annealing, work: Sequence, first: int, last: int, most: float
) -> tuple[float, int, bool]:
    """Place the requests from one place of the order on, and take them from the profiles again.

    ``first``, ``last``: the places that the move changed. Returns the change of the cost, the first
    place that was not reached, and whether the move costs at most ``most``.
    """
    order, weight, n = work.order, requests.weight, len(work.order)
    now = work.rounds[work.offset[order[first - 1]]] if first > 0 else 0
    hopeless, left, old = most + plan.slack, 0.0, 0.0
    if plan.in_order == 1:
        for i in order[first:]:
            left += weight[i]
            old += weight[i] * work.rounds[work.offset[i]]
    j, change, moved, fits = first, 0.0, 0, True
    while j < n:
        i = order[j]
        at = _find(requests, plan, work, i, now)
        if at < 0:
            fits = False
            break
        _hold(requests, plan, work, work.new, work.new_machines, i, 1)
        was = _end(requests, plan, work, i)
        change += weight[i] * (at - was)
        moved += at != was or work.machines[i] != work.new_machines[i]
        now, j = at, j + 1
        if plan.in_order == 1:
            # Every later start is at least this one.
            left -= weight[i]
            old -= weight[i] * was
            if change + left * now - old > most:
                fits = False
                break
        if j > last and ((moved == 0 and plan.stops == 0) or change > hopeless):
            break
    for i in order[first:j]:
        _hold(requests, plan, work, work.new, work.new_machines, i, -1)
    return change, j, fits and change <= most


@njit
def anneal(
    requests: Requests, plan: Annealing, work: Sequence, first_move: int, last_move: int
) -> None:
    """Make moves first_move .. last_move - 1, all in place."""
    order, counts, state = work.order, work.counts, work.state
    for move in range(first_move, last_move):
        place, other, kind, i = _draw(requests, plan, work)
        _change(order, place, other, kind)
        delay = work.delay[i]
        if plan.delayed > 0:
            _redraw_delay(plan, work, i, kind)
        done = move / plan.total
        most = threshold(0.0, plan.hot, plan.cold, done, next_uniform(state))
        change, end, is_accepted = _place(requests, plan, work, place, other, most)
        counts[PLACED] += end - place
        if not is_accepted:
            _change(order, place, other, -kind if kind != DELAY else kind)
            work.delay[i] = delay
            continue
        for k in order[place:end]:
            _keep(requests, plan, work, k)
        counts[GAINED] -= int(change)
        if counts[GAINED] > counts[MOST_GAINED]:
            counts[MOST_GAINED] = counts[GAINED]
            overwrite(work.best, work.rounds)
            overwrite(work.best_machines, work.machines)

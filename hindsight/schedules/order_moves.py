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
"""Largest number of places in the order by which a move shifts a request."""

SWAPPED = 0.3
"""Among the moves that change the order, share of those that swap two requests."""

EARLIER, SWAP, LATER, DELAY = -1, 0, 1, 2
"""Kinds of moves: put a request earlier in the order, swap two, put a request later, or change the
delay of one. A move of kind -k between the same places undoes kind k, except for `DELAY`."""

PRESENT, TRIED, BEST = range(3)
"""Schedules in rows of `Sequence.starts`: before the current move, tried by it, and best so far."""

PLACE, GAINED, MOST_GAINED, PLACED = range(4)
"""Entries of `Sequence.counts`. `PLACE`: place in the order at which the last move began. `GAINED`:
cost of the first schedule minus cost of the present one. `MOST_GAINED`: cost of the first schedule
minus cost of the best one. `PLACED`: sum over all moves of the number of requests placed."""


class Sequence(NamedTuple):
    """State of an annealing of the order in which requests are placed, and of their delays.

    Each request, in this order, takes the first start at which it fits with those placed before.
    With a delay of d rounds, it takes the first such start at least d rounds later.

    Attributes
    ----------
    table : Timetable
        The requests, and the memory profiles: tokens or blocks that the requests before the place
        ``counts[PLACE]`` in the order leave free in each round. The starts and machines of the
        timetable are those of the schedule `PRESENT`.
    total : int
        Number of moves of the annealing.
    hot, cold : float
        First and last temperature, in the unit of costs.
    slack : float
        A move is accepted if it changes the cost of the schedule by at most a random threshold. It
        is rejected early once the requests that it has placed so far raise the cost by more than
        the threshold plus ``slack``. ``slack`` is above 0, because requests that the move places
        later might lower the cost again.
    delayed : float
        Share of moves that change a delay. 0 stands for schedules without delays.
    longest_delay : int
        Longest delay, in rounds.
    shares : float64 array, shape (n,)
        Probability, for each request, that a move which has drawn the request changes its place or
        delay. Otherwise the move draws another request.
    order, delay : int64 array, shape (n,)
        Requests in the order in which they are placed, and the delay of each request in rounds.
    starts, machines : int64 array, shape (3, n)
        A row for each of the schedules `PRESENT`, `TRIED` and `BEST`: the start and the machine of
        each request.
    counts : int64 array, shape (4,)
        Entries `PLACE`, `GAINED`, `MOST_GAINED` and `PLACED`.
    state : int64 array, shape (1,)
        State of the random numbers (`next_uniform`).
    """

    table: Timetable
    total: int
    hot: float
    cold: float
    slack: float
    delayed: float
    longest_delay: int
    shares: FloatArray
    order: IntArray
    delay: IntArray
    starts: IntArray
    machines: IntArray
    counts: IntArray
    state: IntArray


@step
def _find(work: Sequence, i: int, now: int) -> int:
    """Place request i: find its start and machine, and write them to the schedule `TRIED`.

    `TRIED` is the schedule that the current move tries. ``now`` is the start, in this schedule, of
    the request just before request i in the order. Return the start of request i. Return -1 if it
    would end after the last round of the memory profiles, the arrays of the free memory in each
    round.
    """
    requests, profiles = work.table.requests, work.table.profiles
    begin, machine = requests.arrival[i], work.machines[PRESENT, i]
    if work.delayed > 0:
        begin = max(begin, now)
    at, k = fit(requests, profiles, i, begin, machine, profiles.shape[1])
    if at >= 0 and work.delay[i] > 0:
        at, k = fit(requests, profiles, i, at + work.delay[i], machine, profiles.shape[1])
    work.starts[TRIED, i], work.machines[TRIED, i] = at, k
    return int(at)


@step
def _hold(work: Sequence, row: int, i: int, sign: int) -> None:
    """Take ``sign`` (1 or -1) times the memory of request i from the memory profiles.

    A memory profile has the free memory of a machine in each round. The request has its start and
    its machine in the schedule ``row``: `PRESENT` (the schedule before the current move) or `TRIED`
    (the one that the move tries).
    """
    hold(work.table, i, work.starts[row, i], work.machines[row, i], sign)


@step
def _keep(work: Sequence, i: int) -> None:
    """Copy the start and the machine of request i from schedule `TRIED` to schedule `PRESENT`.

    `TRIED` is the schedule that the current move tries, `PRESENT` the schedule before the move.
    """
    work.starts[PRESENT, i] = work.starts[TRIED, i]
    work.machines[PRESENT, i] = work.machines[TRIED, i]


@step
def _change(order: IntArray, one: int, two: int, kind: int) -> None:
    """Change the order between its places ``one`` and ``two``, with ``one`` <= ``two``.

    If ``kind`` is `SWAP`, swap the requests at both places. If it is `LATER`, the request at place
    ``one`` goes to place ``two``. If it is `EARLIER`, the request at place ``two`` goes to place
    ``one``. For `LATER` and `EARLIER`, the requests in between shift by one place. If ``kind`` is
    `DELAY`, the order stays the same.
    """
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
    """Take the memory of the request at ``place`` of the order, and return the next place.

    The memory profiles have the memory that the requests before a place of the order leave free in
    each round. The next move may begin at the next place, because the profiles are then without the
    memory of all requests before it. After the last place at which a move may begin, give all
    memory back and return 0, the first place.
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
    """Draw a random move of an annealing; return the two places, the kind and the request.

    The places are the first and the last place of the order that the move changes. The kind is
    `EARLIER`, `SWAP`, `LATER` or `DELAY`. The request is the one that the move shifts or delays.

    Each move begins at a later place of the order than the move before it. After the last place,
    moves begin at the front again. The memory profiles have the memory that all requests before the
    first place of a move leave free in each round. So the memory of the requests from the first
    place of the previous move up to the place before the first place of this move is taken.
    """
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
    """Change the delay of request i, which a move of this ``kind`` shifts or delays.

    The delay of a request is the number of rounds by which it starts later than it could. If the
    kind is `DELAY`, a delay above 0 becomes 0 with probability 0.6. Otherwise a new delay is drawn.
    If the move changes the order, the delay becomes 0 with probability one half: a delay that is
    good at one place of the order is rarely good at another.
    """
    state, delay = work.state, work.delay
    # A delay above 0 becomes 0 with a probability that depends on the kind of the move. If it does
    # not become 0, a move of the kind `DELAY` draws a new delay, and a move of any other kind
    # leaves it unchanged.
    if delay[i] > 0 and next_uniform(state) < (0.6 if kind == DELAY else 0.5):
        delay[i] = 0
    elif kind == DELAY:
        delay[i] = 1 + int(next_uniform(state) * work.longest_delay)


@step
def _place(work: Sequence, first: int, last: int, most: float) -> tuple[float, int, bool]:
    """Try a changed order: place its requests, from place ``first`` on, in the schedule `TRIED`.

    `TRIED` is the schedule that the current move tries. ``first`` and ``last`` are the first and
    the last place of the order that the move changed. Stop early if all further requests would keep
    their starts, or if the move will not be accepted. After the call, the memory profiles (free
    memory in each round) are as they were before it.

    Return three values: the change in cost, the place in the order after the last request placed,
    and whether the move is accepted. It is accepted if a start was found for all requests and the
    cost changes by at most ``most``.
    """
    order, weight, n = work.order, work.table.requests.weight, len(work.order)
    in_order = work.delayed > 0
    now = work.starts[PRESENT, order[first - 1]] if first > 0 else 0
    hopeless, left, old = most + work.slack, 0.0, 0.0
    if in_order:
        for i in order[first:]:
            left += weight[i]
            old += weight[i] * work.starts[PRESENT, i]
    j, change, moved, fits = first, 0.0, 0, True
    while j < n and fits:
        i = order[j]
        at = _find(work, i, now)
        if at < 0:
            fits = False
            break
        _hold(work, TRIED, i, 1)
        was = work.starts[PRESENT, i]
        change += weight[i] * (at - was)
        moved += at != was or work.machines[PRESENT, i] != work.machines[TRIED, i]
        now, j = at, j + 1
        if in_order:
            # ``change`` is the change in cost of the requests placed so far. The requests not
            # placed yet start at ``now`` or later. So they will cost at least ``now`` times
            # ``left``, the sum of their weights. In the schedule before the move, they cost
            # ``old``. So change + left * now - old is a lower bound on the change in cost by the
            # whole move.
            left -= weight[i]
            old -= weight[i] * was
            fits = change + left * now - old <= most
        if j > last and (moved == 0 or change > hopeless):
            break
    for i in order[first:j]:
        _hold(work, TRIED, i, -1)
    return change, j, fits and change <= most


@njit
def anneal(work: Sequence, first_move: int, last_move: int) -> None:
    """Make moves ``first_move`` .. ``last_move`` - 1 of an annealing, and change ``work`` in place.

    A move changes the order or a delay. Then it places the requests again, from the first changed
    place of the order on. It is undone if the new schedule costs more than the present one plus a
    random threshold. The rows `BEST` of `Sequence.starts` and `Sequence.machines` have the best
    schedule so far.
    """
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
            overwrite(work.starts[BEST], work.starts[PRESENT])
            overwrite(work.machines[BEST], work.machines[PRESENT])

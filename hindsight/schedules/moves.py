"""Compiled moves of ruin and recreate, on any number of machines, in tokens or in blocks.

Each machine has an array of the memory held in every round, and buckets of rounds hold requests by
their start. A move picks a request that waits or is left out, and removes it and some that start
near an earlier round of its wait. It puts them back one by one, in a randomly chosen order, each at
the first start at which it fits beside all others for its whole life, on any machine (or,
sometimes, at the cheaper of this and a later one). So the cost of a move does not depend on n, and
every intermediate schedule is feasible.

A request that has no start by its last one is left out, at a penalty. A move is accepted if it
costs less than a threshold (Kirkpatrick, Gelatt and Vecchi 1983), drawn before the requests are put
back so that most moves end early. The cost of a start is its round, times the weight of the
request, plus ``weight`` times the price of its memory. Near the prices of the linear relaxation,
promising schedules have similar costs, and waits move to the requests that should wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray

from .draws import next_uniform, threshold
from .timetables import Requests, Timetable, fit, hold_start, link, unlink

WAITING_DRAWS = 20
"""Requests drawn to find one that waits or is left out."""

LONGEST_STEP = 4
"""Most rounds by which a search passes over a start that fits."""

DRAWS_PER_REQUEST = 4
"""Rounds drawn for each request to be removed; buckets may be empty."""

RANDOM, BY_VOLUME, BY_START, FIRST_WAITING = 0.3, 0.5, 0.7, 0.85
"""Cumulative shares of the orders in which requests are put back: random, by volume, by start, the
waiting one first, the largest peak first."""


class PriceSums(NamedTuple):
    """Running sums of the prices lambda_r of memory and of r lambda_r, shape (rounds,)."""

    sums: FloatArray
    weighted_sums: FloatArray


class Region(NamedTuple):
    """Rounds that belong to one thread, which may move the requests in them.

    Attributes
    ----------
    first, last : int
        Starts from ``first`` on and completions up to ``last`` belong to the region; both are
        multiples of the buckets' width, or the last round of all.
    candidates : int64 array
        Requests that lived within the region, or were left out, when the moves began.
    state : int64 array, shape (1,)
        State of `next_uniform`.
    """

    first: int
    last: int
    candidates: IntArray
    state: IntArray


class Moves(NamedTuple):
    """Parameters of the moves of a cycle.

    Attributes
    ----------
    total : int
        Number of moves of the whole cycle.
    hot, cold : float
        First and last temperature, in costs.
    most : int
        Most requests with a start that are removed at once, >= 2.
    tried : int
        Requests drawn besides to find further ones that are left out.
    reach : float
        Rounds around the chosen earlier round from which requests are removed.
    weight : float
        Initial weight of the memory prices.
    priced_until : float
        Share of the moves after which the weight, falling linearly, is 0.
    blink : float
        Probability that the search for a start passes over one that fits.
    second : float
        Probability that a request is also tried at its next start that fits.
    depth : int
        Requests of a bucket among which one is drawn.
    everywhere : float
        Probability that requests are removed from all machines instead of two.
    """

    total: int
    hot: float
    cold: float
    most: int
    tried: int
    reach: float
    weight: float
    priced_until: float
    blink: float
    second: float
    depth: int
    everywhere: float


class Removed(NamedTuple):
    """Requests that a move removes: the first entries, their places, and the order of return.

    ``is_taken``, shape (n,), is 1 for the requests drawn so far; ``keys`` sorts ``order``.
    """

    taken: IntArray
    old: IntArray
    old_machines: IntArray
    new: IntArray
    new_machines: IntArray
    order: IntArray
    keys: FloatArray
    is_taken: IntArray


def work_space(most: int, count: int) -> Removed:
    """Return work space for so many removed requests of so many."""
    taken, old, old_machines, new, new_machines, order = np.zeros((6, most), np.int64)
    keys, is_taken = np.zeros(most), np.zeros(count, np.int64)
    return Removed(taken, old, old_machines, new, new_machines, order, keys, is_taken)


class Work(NamedTuple):
    """All that moves read and write."""

    requests: Requests
    table: Timetable
    prices: PriceSums
    region: Region
    moves: Moves
    removed: Removed


@step
def _cost(requests: Requests, i: int, at: int) -> float:
    """Return what a start costs, or its lack, without prices."""
    return requests.penalty[i] if at < 0 else float(requests.weight[i] * at)


@step
def _paid(work: Work, weight: float, i: int, at: int) -> float:
    """Return what a start costs, with the weighted price of its memory."""
    requests, (sums, weighted_sums) = work.requests, work.prices
    cost = _cost(requests, i, at)
    if at >= 0 and weight > 0:
        end = at + requests.output[i]
        memory = (requests.prompt[i] - at) * (sums[end] - sums[at])
        cost += weight * (memory + weighted_sums[end] - weighted_sums[at])
    return cost


@step
def _hold(work: Work, i: int, at: int, k: int, sign: int) -> None:
    """Add a request that starts at ``at`` on machine k, or subtract it with ``sign`` -1."""
    hold_start(work.requests, work.table.profiles, i, at, k, sign)


@step
def _earliest(work: Work, i: int, freed: int) -> int:
    """Return the first start worth trying: a sooner one uses no round in which memory was freed."""
    requests = work.requests
    begin = max(requests.arrival[i], freed - requests.output[i] + 1)
    return int(max(work.region.first, begin))


@step
def _draw_waiting(work: Work) -> int:
    """Draw a request that waits or is left out; after many draws, any."""
    starts, arrival = work.table.starts, work.requests.arrival
    candidates, state = work.region.candidates, work.region.state
    i = candidates[int(next_uniform(state) * len(candidates))]
    for _ in range(WAITING_DRAWS):
        if starts[i] < 0 or starts[i] > arrival[i]:
            break
        i = candidates[int(next_uniform(state) * len(candidates))]
    return int(i)


@step
def _take(removed: Removed, count: int, i: int) -> int:
    """Note a request as removed; return how many there are."""
    removed.is_taken[i] = 1
    removed.taken[count] = i
    return count + 1


@step
def _draw(work: Work) -> int:
    """Draw a waiting request and others near an earlier round of its wait; return how many."""
    requests, table, moves, removed = work.requests, work.table, work.moves, work.removed
    first, last, _, state = work.region
    starts, machines, heads, width = table.starts, table.machines, table.heads, table.width
    i = _draw_waiting(work)
    count = _take(removed, 0, i)
    end = starts[i] if starts[i] >= 0 else requests.last[i]
    begin = max(requests.arrival[i], first, end - int(moves.reach))
    moment = begin + int(next_uniform(state) * (end - begin + 1))
    wanted = 2 + int(next_uniform(state) * (moves.most - 1))
    spread = moves.reach * (0.1 + 0.9 * next_uniform(state))
    # Removing from few machines frees memory in one piece.
    total, one, two = table.profiles.shape[0], machines[i], 0
    everywhere = total == 1 or next_uniform(state) < moves.everywhere
    if not everywhere:
        two = int(next_uniform(state) * total)
        if next_uniform(state) < 0.5:
            one = int(next_uniform(state) * total)
    for _ in range(DRAWS_PER_REQUEST * wanted):
        if count == wanted:
            break
        at = int((moment + (2.0 * next_uniform(state) - 1.0) * spread) / width)
        steps = int(next_uniform(state) * moves.depth)
        if at * width < first or (at + 1) * width > last or at >= len(heads):
            continue
        j = heads[at]
        if j < 0:
            continue
        while steps > 0 and table.following[j] >= 0:
            j = table.following[j]
            steps -= 1
        is_near = everywhere or machines[j] == one or machines[j] == two
        if removed.is_taken[j] == 0 and is_near and starts[j] + requests.output[j] <= last:
            count = _take(removed, count, j)
    for _ in range(moves.tried):
        j = int(next_uniform(state) * len(starts))
        if starts[j] < 0 and removed.is_taken[j] == 0:
            count = _take(removed, count, j)
    return count


@step
def _draw_order(work: Work, count: int) -> None:
    """Draw the order in which the ``count`` removed requests are put back."""
    requests, removed, state = work.requests, work.removed, work.region.state
    order, keys, reach = removed.order, removed.keys, work.moves.reach
    kind = next_uniform(state)
    for q in range(count):
        i = removed.taken[q]
        s, o = requests.prompt[i], requests.output[i]
        key = float(removed.old[q] if removed.old[q] >= 0 else requests.arrival[i])
        if kind < RANDOM:
            key = next_uniform(state)
        elif kind < BY_VOLUME:
            key = (s * o + 0.5 * o * (o + 1)) * (0.7 + 0.6 * next_uniform(state))
            key /= max(1, requests.weight[i])
        elif kind < BY_START:
            key += (next_uniform(state) - 0.5) * reach
        elif kind >= FIRST_WAITING:
            key = -1.0 * (s + o)
        elif q == 0:
            key = -1.0
        keys[q] = key
        # Insertion sort, as there are only a handful of entries.
        y = q
        while y > 0 and keys[order[y - 1]] > key:
            order[y] = order[y - 1]
            y -= 1
        order[y] = q


@step
def _take_out(work: Work, weight: float, count: int) -> tuple[float, int]:
    """Subtract the removed requests; return their cost and the first round freed."""
    table, removed = work.table, work.removed
    cost, freed = 0.0, table.profiles.shape[1]
    for q in range(count):
        i = removed.taken[q]
        removed.is_taken[i] = 0
        at, k = table.starts[i], table.machines[i]
        removed.old[q], removed.old_machines[q] = at, k
        cost += _paid(work, weight, i, at)
        freed = min(freed, at if at >= 0 else work.requests.arrival[i])
        _hold(work, i, at, k, -1)
    return cost, freed


@step
def _draw_start(work: Work, weight: float, i: int, begin: int) -> tuple[int, int, float]:
    """Return a start, its machine and its cost: the first fit, or a later one if it is passed."""
    requests, profiles, moves = work.requests, work.table.profiles, work.moves
    state, size, first = work.region.state, work.region.last + 1, 0
    if profiles.shape[0] > 1:
        first = int(next_uniform(state) * profiles.shape[0])
    at, k = fit(requests, profiles, i, begin, first, size)
    while at >= 0 and next_uniform(state) < moves.blink:
        passed = at + 1 + int(next_uniform(state) * LONGEST_STEP)
        at, k = fit(requests, profiles, i, passed, first, size)
    paid = _paid(work, weight, i, at)
    # Sometimes try a later start, where prices make it cheaper.
    if at >= 0 and moves.second > 0 and next_uniform(state) < moves.second:
        passed = at + 1 + int(next_uniform(state) ** 2 * moves.reach)
        later, machine = fit(requests, profiles, i, passed, first, size)
        paid_later = _paid(work, weight, i, later)
        if later >= 0 and paid_later < paid:
            at, k, paid = later, machine, paid_later
    return at, k, paid


@step
def _put_back(work: Work, weight: float, count: int, freed: int, most: float) -> int:
    """Put requests back in order while acceptance is possible; return how many were put.

    ``freed`` is the first round that was freed, and ``most`` the cost not to exceed.
    """
    requests, removed = work.requests, work.removed
    cost, least = 0.0, 0.0
    for q in range(count):
        i = removed.taken[q]
        least += min(requests.penalty[i], requests.weight[i] * _earliest(work, i, freed))
    for x in range(count):
        q = removed.order[x]
        i = removed.taken[q]
        begin = _earliest(work, i, freed)
        least -= min(requests.penalty[i], requests.weight[i] * begin)
        at, k, paid = _draw_start(work, weight, i, begin)
        cost += paid
        if cost + least > most:
            return x
        removed.new[q], removed.new_machines[q] = at, k
        _hold(work, i, at, k, 1)
    return count


@step
def _undo(work: Work, placed: int, count: int) -> None:
    """Put the removed requests back where they were."""
    removed = work.removed
    for x in range(placed):
        q = removed.order[x]
        _hold(work, removed.taken[q], removed.new[q], removed.new_machines[q], -1)
    for q in range(count):
        _hold(work, removed.taken[q], removed.old[q], removed.old_machines[q], 1)


@step
def _accept(work: Work, count: int) -> float:
    """Write the new starts into the timetable; return the change of the cost without prices."""
    requests, table, removed = work.requests, work.table, work.removed
    change = 0.0
    for q in range(count):
        i, old, new = removed.taken[q], removed.old[q], removed.new[q]
        change += _cost(requests, i, new) - _cost(requests, i, old)
        is_moved = old < 0 or new < 0 or old // table.width != new // table.width
        if is_moved and old >= 0:
            unlink(table, i)
        table.starts[i], table.machines[i] = new, removed.new_machines[q]
        if is_moved and new >= 0:
            link(table, i)
    return change


@njit
def ruin_and_recreate(work: Work, first_move: int, last_move: int) -> float:
    """Make moves first_move .. last_move - 1 of a cycle within a region, all in place.

    Returns
    -------
    float
        The change of the cost without prices.
    """
    moves, change = work.moves, 0.0
    for move in range(first_move, last_move):
        done = move / moves.total
        weight = moves.weight * max(0.0, 1.0 - done / moves.priced_until)
        # Ruin.
        count = _draw(work)
        before, freed = _take_out(work, weight, count)
        # Recreate, up to a cost drawn beforehand.
        _draw_order(work, count)
        most = threshold(before, moves.hot, moves.cold, done, next_uniform(work.region.state))
        placed = _put_back(work, weight, count, freed, most)
        if placed < count:
            _undo(work, placed, count)
        else:
            change += _accept(work, count)
    return change

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

from functools import partial
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


class _Removed(NamedTuple):
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


@step
def _cost(requests: Requests, i: int, at: int) -> float:
    """Return what a start costs, or its lack, without prices."""
    return requests.penalty[i] if at < 0 else float(requests.weight[i] * at)


@step
def _paid(requests: Requests, prices: PriceSums, weight: float, i: int, at: int) -> float:
    """Return what a start costs, with the weighted price of its memory."""
    sums, weighted_sums = prices
    cost = _cost(requests, i, at)
    if at >= 0 and weight > 0:
        end = at + requests.output[i]
        memory = (requests.prompt[i] - at) * (sums[end] - sums[at])
        cost += weight * (memory + weighted_sums[end] - weighted_sums[at])
    return cost


@step
def _draw_waiting(requests: Requests, table: Timetable, region: Region) -> int:
    """Draw a request that waits or is left out; after many draws, any."""
    candidates, state = region.candidates, region.state
    i = candidates[int(next_uniform(state) * len(candidates))]
    for _ in range(WAITING_DRAWS):
        if table.starts[i] < 0 or table.starts[i] > requests.arrival[i]:
            break
        i = candidates[int(next_uniform(state) * len(candidates))]
    return int(i)


@step
def _draw_near(
    requests: Requests, table: Timetable, region: Region, moves: Moves, removed: _Removed
) -> int:
    """Draw requests near an earlier round of the first one's wait; return how many there are."""
    first, last, _, state = region
    starts, machines, heads, width = table.starts, table.machines, table.heads, table.width
    i = removed.taken[0]
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
    count = 1
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
            removed.is_taken[j] = 1
            removed.taken[count] = j
            count += 1
    for _ in range(moves.tried):
        j = int(next_uniform(state) * len(starts))
        if starts[j] < 0 and removed.is_taken[j] == 0:
            removed.is_taken[j] = 1
            removed.taken[count] = j
            count += 1
    return count


@step
def _draw_order(
    requests: Requests, count: int, reach: float, removed: _Removed, state: IntArray
) -> None:
    """Draw the order in which the ``count`` removed requests are put back."""
    order, keys = removed.order, removed.keys
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
def _take_out(
    requests: Requests,
    table: Timetable,
    prices: PriceSums,
    weight: float,
    count: int,
    removed: _Removed,
) -> tuple[float, int]:
    """Subtract the first requests of ``removed``; return their cost and the first round freed."""
    cost, freed = 0.0, table.profiles.shape[1]
    for q in range(count):
        i = removed.taken[q]
        removed.is_taken[i] = 0
        at, k = table.starts[i], table.machines[i]
        removed.old[q], removed.old_machines[q] = at, k
        cost += _paid(requests, prices, weight, i, at)
        freed = min(freed, at if at >= 0 else requests.arrival[i])
        hold_start(requests, table.profiles, i, at, k, -1)
    return cost, freed


@step
def _draw_start(
    requests: Requests,
    profiles: IntArray,
    prices: PriceSums,
    region: Region,
    moves: Moves,
    weight: float,
    i: int,
    begin: int,
) -> tuple[int, int, float]:
    """Return a start, its machine and its cost: the first fit, or a later one if it is passed."""
    state, size = region.state, region.last + 1
    first = 0
    if profiles.shape[0] > 1:
        first = int(next_uniform(state) * profiles.shape[0])
    at, k = fit(requests, profiles, i, begin, first, size)
    while at >= 0 and next_uniform(state) < moves.blink:
        passed = at + 1 + int(next_uniform(state) * LONGEST_STEP)
        at, k = fit(requests, profiles, i, passed, first, size)
    paid = _paid(requests, prices, weight, i, at)
    # Sometimes try a later start, where prices make it cheaper.
    if at >= 0 and moves.second > 0 and next_uniform(state) < moves.second:
        passed = at + 1 + int(next_uniform(state) ** 2 * moves.reach)
        later, machine = fit(requests, profiles, i, passed, first, size)
        paid_later = _paid(requests, prices, weight, i, later)
        if later >= 0 and paid_later < paid:
            at, k, paid = later, machine, paid_later
    return at, k, paid


@step
def _put_back(
    requests: Requests,
    profiles: IntArray,
    prices: PriceSums,
    region: Region,
    moves: Moves,
    count: int,
    removed: _Removed,
    bid: tuple[int, float, float],
) -> int:
    """Put requests back in order while acceptance is possible; return how many were put.

    ``bid``: the first round that was freed, the weight of prices, and the cost to stay below.
    """
    freed, weight, most = bid
    # A sooner start uses no round in which memory was freed.
    least = 0.0
    for q in range(count):
        i = removed.taken[q]
        begin = max(region.first, requests.arrival[i], freed - requests.output[i] + 1)
        least += min(requests.penalty[i], requests.weight[i] * begin)
    cost = 0.0
    for x in range(count):
        q = removed.order[x]
        i = removed.taken[q]
        begin = max(region.first, requests.arrival[i], freed - requests.output[i] + 1)
        least -= min(requests.penalty[i], requests.weight[i] * begin)
        at, k, paid = _draw_start(requests, profiles, prices, region, moves, weight, i, begin)
        cost += paid
        if cost + least > most:
            return x
        removed.new[q], removed.new_machines[q] = at, k
        hold_start(requests, profiles, i, at, k, 1)
    return count


@step
def _undo(
    requests: Requests, profiles: IntArray, placed: int, count: int, removed: _Removed
) -> None:
    """Put the removed requests back where they were."""
    for x in range(placed):
        q = removed.order[x]
        hold_start(
            requests, profiles, removed.taken[q], removed.new[q], removed.new_machines[q], -1
        )
    for q in range(count):
        hold_start(requests, profiles, removed.taken[q], removed.old[q], removed.old_machines[q], 1)


@step
def _accept(requests: Requests, table: Timetable, count: int, removed: _Removed) -> float:
    """Write the new starts into the timetable; return the change of the cost without prices."""
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


@partial(njit, makes_arrays=True)
def ruin_and_recreate(
    requests: Requests,
    table: Timetable,
    prices: PriceSums,
    region: Region,
    moves: Moves,
    first_move: int,
    last_move: int,
) -> float:
    """Make moves first_move .. last_move - 1 of a cycle within a region, all in place.

    Parameters
    ----------
    requests : Requests
        The problem.
    table : Timetable
        A feasible schedule.
    prices : PriceSums
        Prices of memory, for all rounds of the profiles.
    region : Region
        The requests that may be moved, and the rounds they may move to.
    moves : Moves
        Parameters of the cycle.
    first_move, last_move : int
        Range of its moves to make.

    Returns
    -------
    float
        The change of the cost without prices.
    """
    taken, old, old_machines, new, new_machines, order = np.zeros(
        (6, moves.most + moves.tried + 1), np.int64
    )
    keys, is_taken = np.zeros(len(taken)), np.zeros(len(table.starts), np.int64)
    removed = _Removed(taken, old, old_machines, new, new_machines, order, keys, is_taken)
    state, change = region.state, 0.0
    for move in range(first_move, last_move):
        done = move / moves.total
        weight = moves.weight * max(0.0, 1.0 - done / moves.priced_until)
        # Ruin.
        taken[0] = _draw_waiting(requests, table, region)
        is_taken[taken[0]] = 1
        count = _draw_near(requests, table, region, moves, removed)
        before, freed = _take_out(requests, table, prices, weight, count, removed)
        # Recreate, up to a cost drawn beforehand.
        _draw_order(requests, count, moves.reach, removed, state)
        most = threshold(before, moves.hot, moves.cold, done, next_uniform(state))
        bid = (freed, weight, most)
        placed = _put_back(requests, table.profiles, prices, region, moves, count, removed, bid)
        if placed < count:
            _undo(requests, table.profiles, placed, count, removed)
        else:
            change += _accept(requests, table, count, removed)
    return change

"""Compiled moves of ruin and recreate; a move costs only the rounds of the requests it touches.

One array holds the memory of every round, and buckets of rounds hold requests by their start. A
move picks a waiting request, and removes it and some that start near an earlier round of its wait.
It puts them back one by one, in a randomly chosen order, each at the first start at which it fits
beside all others for its whole life (or, sometimes, at the cheaper of this and a later one). So the
cost of a move does not depend on n, and every intermediate schedule is feasible.

A move is accepted if it costs less than a threshold (Kirkpatrick, Gelatt and Vecchi 1983), drawn
before the requests are put back so that most moves end early. The cost of a start is its round,
times the weight of the request, plus ``weight`` times the price of its memory. Near the prices of
the linear relaxation, promising schedules have similar costs, and waits move to the requests that
should wait. At weight 0 the cost is the total latency.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray, RequestColumns

from .annealing_kernels import next_uniform, threshold
from .schedule_decoder import earliest_fit, hold

WAITING_DRAWS = 20
"""Requests drawn to find one that waits."""

BUCKET_STEPS = 4
"""Requests of a bucket among which one is drawn."""

DRAWS_PER_REQUEST = 4
"""Rounds drawn for each request to be removed; buckets may be empty."""

RANDOM, BY_VOLUME, BY_START, FIRST_WAITING = 0.3, 0.5, 0.7, 0.85
"""Cumulative shares of the orders in which requests are put back: random, by volume, by start, the
waiting one first, the largest peak first."""


class StartBuckets(NamedTuple):
    """Requests by start, as doubly linked lists, one for every ``width`` rounds.

    Attributes
    ----------
    width : int
        Number of rounds of a bucket.
    heads : int64 array, shape (buckets,)
        First request of each bucket, or -1.
    following, preceding : int64 array, shape (n,)
        Neighbours of each request in its list; -1 at the ends.
    """

    width: int
    heads: IntArray
    following: IntArray
    preceding: IntArray


class Region(NamedTuple):
    """Rounds that belong to one thread, which may move the requests in them.

    Attributes
    ----------
    first, last : int
        Starts from ``first`` on and completions up to ``last`` belong to the region; both are
        multiples of the buckets' width, or the last round of all.
    candidates : int64 array
        Requests that lived within the region when the moves began.
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
        First and last temperature, rounds.
    most : int
        Most requests removed at once, >= 2.
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
    """

    total: int
    hot: float
    cold: float
    most: int
    reach: float
    weight: float
    priced_until: float
    blink: float
    second: float


class Timetable(NamedTuple):
    """A feasible schedule, which moves change in place.

    Attributes
    ----------
    starts : int64 array, shape (n,)
        Start times.
    buckets : StartBuckets
        Requests by start.
    profile : int64 array
        Memory held; entry r for round r.
    """

    starts: IntArray
    buckets: StartBuckets
    profile: IntArray


class Removed(NamedTuple):
    """Requests that a move removes: the first entries.

    Attributes
    ----------
    taken, old, new : int64 array, shape (most,)
        Requests, and their starts before and after the move.
    order : int64 array, shape (most,)
        Entries in the order in which they are put back.
    keys : float64 array, shape (most,)
        Sort keys of the order.
    is_taken : int64 array, shape (n,)
        1 for the requests drawn so far.
    """

    taken: IntArray
    old: IntArray
    new: IntArray
    order: IntArray
    keys: FloatArray
    is_taken: IntArray


class PriceSums(NamedTuple):
    """What starts cost: running sums of the prices lambda_r and of r lambda_r, shape (rounds,).

    And the weight of each request, int64, shape (n,).
    """

    sums: FloatArray
    weighted_sums: FloatArray
    weights: IntArray


@step
def link(buckets: StartBuckets, i: int, start: int) -> None:
    """Insert a request into the bucket of ``start``."""
    width, heads, following, preceding = buckets
    old = heads[start // width]
    following[i] = old
    preceding[i] = -1
    if old >= 0:
        preceding[old] = i
    heads[start // width] = i


@step
def _unlink(buckets: StartBuckets, i: int, start: int) -> None:
    width, heads, following, preceding = buckets
    if preceding[i] >= 0:
        following[preceding[i]] = following[i]
    else:
        heads[start // width] = following[i]
    if following[i] >= 0:
        preceding[following[i]] = preceding[i]


@njit
def fill(requests: RequestColumns, timetable: Timetable) -> None:
    """Write the starts of a timetable into its empty buckets and profile."""
    prompt, output, _, _ = requests
    starts, buckets, profile = timetable
    for i in range(len(starts)):
        hold(profile, starts[i], prompt[i], output[i], 1)
        link(buckets, i, starts[i])


@step
def _paid(start: int, i: int, requests: RequestColumns, weight: float, prices: PriceSums) -> float:
    """Return the cost of a start: its weighted round, and the weighted price of its memory."""
    sums, weighted_sums, weights = prices
    prompt, end = requests.prompt_lengths[i], start + requests.output_lengths[i]
    memory = (prompt - start) * (sums[end] - sums[start]) + (
        weighted_sums[end] - weighted_sums[start]
    )
    paid: float = weights[i] * start + weight * memory
    return paid


@step
def _draw_waiting(
    candidates: IntArray, starts: IntArray, arrival: IntArray, state: IntArray
) -> int:
    """Draw a waiting request; return -1 if a few draws find none."""
    waiting = candidates[int(next_uniform(state) * len(candidates))]
    for _ in range(WAITING_DRAWS):
        if starts[waiting] > arrival[waiting]:
            break
        waiting = candidates[int(next_uniform(state) * len(candidates))]
    return int(waiting)


@step
def _draw_near(
    moment: int,
    moves: Moves,
    output: IntArray,
    region: Region,
    timetable: Timetable,
    removed: Removed,
) -> int:
    """Draw requests that start near ``moment``, after the first one removed; return how many."""
    starts, (width, heads, following, _), _ = timetable
    taken, _, _, _, _, is_taken = removed
    first, last, _, state = region
    wanted = 2 + int(next_uniform(state) * (moves.most - 1))
    spread = moves.reach * (0.1 + 0.9 * next_uniform(state))
    count = 1
    for _ in range(DRAWS_PER_REQUEST * wanted):
        if count == wanted:
            break
        at = int((moment + (2.0 * next_uniform(state) - 1.0) * spread) / width)
        steps = int(next_uniform(state) * BUCKET_STEPS)
        if at * width < first or (at + 1) * width > last or at >= len(heads):
            continue
        j = heads[at]
        if j < 0:
            continue
        while steps > 0 and following[j] >= 0:
            j = following[j]
            steps -= 1
        if is_taken[j] == 0 and starts[j] + output[j] <= last:
            is_taken[j] = 1
            taken[count] = j
            count += 1
    return count


@step
def _draw_order(
    count: int,
    reach: float,
    requests: RequestColumns,
    weights: IntArray,
    removed: Removed,
    state: IntArray,
) -> None:
    """Draw the order in which the ``count`` removed requests are put back."""
    prompt, output, _, _ = requests
    taken, old, _, order, keys, _ = removed
    kind = next_uniform(state)
    for q in range(count):
        i = taken[q]
        keys[q] = old[q]
        if kind < RANDOM:
            keys[q] = next_uniform(state)
        elif kind < BY_VOLUME:
            volume = prompt[i] * output[i] + 0.5 * output[i] * (output[i] + 1)
            keys[q] = volume * (0.7 + 0.6 * next_uniform(state)) / weights[i]
        elif kind < BY_START:
            keys[q] += (next_uniform(state) - 0.5) * reach
        if kind >= FIRST_WAITING:
            keys[q] = -1.0 * (prompt[i] + output[i])
        elif kind >= BY_START and q == 0:
            keys[q] = -1.0
    # Insertion sort, as there are only a handful of entries.
    for q in range(count):
        y = q
        while y > 0 and keys[order[y - 1]] > keys[q]:
            order[y] = order[y - 1]
            y -= 1
        order[y] = q


@step
def _put_back(
    count: int,
    requests: RequestColumns,
    prices: PriceSums,
    region: Region,
    moves: Moves,
    profile: IntArray,
    removed: Removed,
    bid: tuple[int, float, float],
) -> int:
    """Put requests back in order while acceptance is possible; return how many were put.

    ``bid``: the first round that was freed, the weight of prices, and the cost to stay below.
    """
    prompt, output, arrival, limit = requests
    weights = prices.weights
    taken, _, new, order, _, _ = removed
    first, _, _, state = region
    reach, blink, second = moves.reach, moves.blink, moves.second
    freed, weight, most = bid
    # A sooner start uses no round that has gained room.
    least = 0
    for q in range(count):
        i = taken[q]
        least += weights[i] * max(first, arrival[i], freed - output[i] + 1)
    cost = 0.0
    for x in range(count):
        i = taken[order[x]]
        s, o = prompt[i], output[i]
        begin = max(first, arrival[i], freed - o + 1)
        least -= weights[i] * begin
        # Take the first fit, or a later one if it is skipped.
        at = earliest_fit(profile, begin, s, o, limit)
        while at >= 0 and next_uniform(state) < blink:
            at = earliest_fit(
                profile, at + 1 + int(next_uniform(state) * BUCKET_STEPS), s, o, limit
            )
        if at < 0:
            return x
        paid = _paid(at, i, requests, weight, prices)
        # Sometimes try a later start, where prices make it cheaper.
        if next_uniform(state) < second:
            passed = at + 1 + int(next_uniform(state) ** 2 * reach)
            later = earliest_fit(profile, passed, s, o, limit)
            if later >= 0:
                paid_later = _paid(later, i, requests, weight, prices)
                if paid_later < paid:
                    at, paid = later, paid_later
        cost += paid
        if cost + least > most:
            return x
        hold(profile, at, s, o, 1)
        new[order[x]] = at
    return count


@partial(njit, makes_arrays=True)
def ruin_and_recreate(
    requests: RequestColumns,
    prices: PriceSums,
    region: Region,
    moves: Moves,
    first_move: int,
    last_move: int,
    timetable: Timetable,
) -> int:
    """Make moves first_move .. last_move - 1 of a cycle within a region, all in place.

    Parameters
    ----------
    requests : RequestColumns
        The problem.
    prices : PriceSums
        Prices of memory, for all rounds of the profile, and weights.
    region : Region
        The requests that may be moved, and the rounds they may move to.
    moves : Moves
        Parameters of the cycle.
    first_move, last_move : int
        Range of its moves to make.
    timetable : Timetable
        A feasible schedule.

    Returns
    -------
    int
        The change of the total latency.
    """
    prompt, output, arrival, _ = requests
    first, last, candidates, state = region
    starts, buckets, whole_profile = timetable
    taken, old, new, order = np.zeros((4, moves.most), np.int64)
    is_taken = np.zeros(len(starts), np.int64)
    removed = Removed(taken, old, new, order, np.zeros(moves.most), is_taken)
    # Another thread may write beyond ``last``: nothing may depend on it.
    profile = whole_profile[: last + 1]
    change = 0
    for move in range(first_move, last_move):
        done = move / moves.total
        weight = moves.weight * max(0.0, 1.0 - done / moves.priced_until)
        # Ruin: remove a waiting request, and others that start near a round of its wait.
        waiting = _draw_waiting(candidates, starts, arrival, state)
        start = starts[waiting]
        earliest = max(arrival[waiting], first, start - int(moves.reach))
        moment = earliest + int(next_uniform(state) * (start - earliest + 1))
        taken[0] = waiting
        is_taken[waiting] = 1
        count = _draw_near(moment, moves, output, region, timetable, removed)
        freed = last
        before = 0.0
        for q in range(count):
            i = taken[q]
            is_taken[i] = 0
            old[q] = starts[i]
            freed = min(freed, old[q])
            before += _paid(old[q], i, requests, weight, prices)
            hold(profile, old[q], prompt[i], output[i], -1)
        # Recreate, up to a cost drawn beforehand.
        _draw_order(count, moves.reach, requests, prices.weights, removed, state)
        uniform = next_uniform(state) + 1e-300
        most = threshold(before, moves.hot, moves.cold, done, uniform)
        bid = (freed, weight, most)
        placed = _put_back(count, requests, prices, region, moves, profile, removed, bid)
        if placed < count:
            # Undo.
            for x in range(placed):
                i = taken[order[x]]
                hold(profile, new[order[x]], prompt[i], output[i], -1)
            for q in range(count):
                hold(profile, old[q], prompt[taken[q]], output[taken[q]], 1)
            continue
        # Accept.
        for q in range(count):
            i = taken[q]
            change += prices.weights[i] * (new[q] - old[q])
            starts[i] = new[q]
            if new[q] // buckets.width != old[q] // buckets.width:
                _unlink(buckets, i, old[q])
                link(buckets, i, new[q])
    return change

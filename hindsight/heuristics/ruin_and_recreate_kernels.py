"""Compiled moves of ruin and recreate: a few requests taken out and put back, at the cost of these.

The memory held in every round stands in one array, and requests hang in buckets of rounds by their
start. A move picks a request that waits, takes it and some that start near an earlier round of its
wait out of the array, and puts them back one by one, in an order drawn among several, each at the
first start at which it fits beside everything else for the whole of its life (or, sometimes, the
cheaper of this and a later one). So a move costs the rounds of those it touches, whatever n is, and
every schedule on the way is feasible.

Accepted is what costs less than a threshold (Kirkpatrick, Gelatt and Vecchi 1983), drawn before the
requests are put back, so that most moves end early. What a start costs is its round plus ``weight``
times what its memory costs under prices of rounds: near the prices of the linear relaxation the
schedules that may be worth visiting lie level, and waits move to the requests that should wait; at
weight 0 it is the total latency.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray, RequestColumns

from .annealing_kernels import next_uniform
from .schedule_decoder import earliest_fit, hold

WAITING_DRAWS = 20
"""Requests looked at for one that waits."""

BUCKET_STEPS = 4
"""Requests of a bucket among which one is drawn."""

DRAWS_PER_REQUEST = 4
"""Rounds drawn for each request that is to be taken out; buckets may be empty."""

RANDOM, BY_VOLUME, BY_START, FIRST_WAITING = 0.3, 0.5, 0.7, 0.85
"""Shares of the orders, cumulated, in which requests are put back: random, by volume, by their
start, the waiting one first, the largest peak first."""


class StartBuckets(NamedTuple):
    """Requests by start: doubly linked lists, one for every ``width`` rounds.

    Attributes
    ----------
    width : int
        Rounds of a bucket.
    heads : int64 array, shape (buckets,)
        First request of each; -1 for none.
    following, preceding : int64 array, shape (n,)
        In the list of each request; -1 at its ends.
    """

    width: int
    heads: IntArray
    following: IntArray
    preceding: IntArray


class Region(NamedTuple):
    """Rounds that belong to one thread, whose requests it may move.

    Attributes
    ----------
    first, last : int
        Starts from ``first`` on and completions up to ``last``; multiples of the buckets' width, or
        the last round of all.
    candidates : int64 array
        Requests that lived within when the moves began.
    state : int64 array, shape (1,)
        Of `next_uniform`.
    """

    first: int
    last: int
    candidates: IntArray
    state: IntArray


class Moves(NamedTuple):
    """What the moves of a cycle are like.

    Attributes
    ----------
    total : int
        Of the whole cycle.
    hot, cold : float
        First and last temperature, rounds.
    most : int
        Requests taken out at once, >= 2.
    reach : float
        Rounds around the earlier one from which they are taken.
    weight : float
        Of the memory prices at the beginning.
    priced_until : float
        Share of the moves after which the weight, falling linearly, is 0.
    blink : float
        Probability that a start that fits is passed over.
    second : float
        Probability that a second start is tried.
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


class PriceSums(NamedTuple):
    """Running sums of the prices lambda_r and of r lambda_r, both of shape (rounds,)."""

    sums: FloatArray
    weighted_sums: FloatArray


@njit
def link(buckets: StartBuckets, i: int, start: int) -> None:
    """Hang a request into the bucket of ``start``."""
    width, heads, following, preceding = buckets
    old = heads[start // width]
    following[i] = old
    preceding[i] = -1
    if old >= 0:
        preceding[old] = i
    heads[start // width] = i


@njit
def _unlink(buckets: StartBuckets, i: int, start: int) -> None:
    width, heads, following, preceding = buckets
    if preceding[i] >= 0:
        following[preceding[i]] = following[i]
    else:
        heads[start // width] = following[i]
    if following[i] >= 0:
        preceding[following[i]] = preceding[i]


@njit
def fill(
    requests: RequestColumns, starts: IntArray, buckets: StartBuckets, profile: IntArray
) -> None:
    """Write a schedule into empty buckets and an empty profile."""
    prompt, output, _, _ = requests
    for i in range(len(starts)):
        hold(profile, starts[i], prompt[i], output[i], 1)
        link(buckets, i, starts[i])


@njit
def _priced_memory(prices: PriceSums, prompt: int, output: int, start: int) -> float:
    """What the memory of a request that begins at ``start`` costs."""
    sums, weighted_sums = prices
    end = start + output
    cost: float = (prompt - start) * (sums[end] - sums[start]) + (
        weighted_sums[end] - weighted_sums[start]
    )
    return cost


@njit
def _take_near(
    moment: int,
    reach: float,
    wanted: int,
    requests: RequestColumns,
    region: Region,
    starts: IntArray,
    buckets: StartBuckets,
    taken: IntArray,
    is_taken: IntArray,
) -> int:
    """Draw requests that start near ``moment``, behind the first of ``taken``; their number."""
    output = requests.output_lengths
    width, heads, following, _ = buckets
    first, last, _, state = region
    spread = reach * (0.1 + 0.9 * next_uniform(state))
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


@njit
def _put_back_order(
    count: int,
    reach: float,
    requests: RequestColumns,
    taken: IntArray,
    old: IntArray,
    state: IntArray,
    keys: FloatArray,
    order: IntArray,
) -> None:
    """Draw the order, into ``order[:count]``, in which the first of ``taken`` are put back."""
    prompt, output, _, _ = requests
    kind = next_uniform(state)
    for q in range(count):
        i = taken[q]
        if kind < RANDOM:
            keys[q] = next_uniform(state)
        elif kind < BY_VOLUME:
            volume = prompt[i] * output[i] + 0.5 * output[i] * (output[i] + 1)
            keys[q] = volume * (0.7 + 0.6 * next_uniform(state))
        elif kind < BY_START:
            keys[q] = old[q] + (next_uniform(state) - 0.5) * reach
        elif kind < FIRST_WAITING:
            keys[q] = -1.0 if q == 0 else old[q]
        else:
            keys[q] = -1.0 * (prompt[i] + output[i])
    for q in range(count):
        y = q
        while y > 0 and keys[order[y - 1]] > keys[q]:
            order[y] = order[y - 1]
            y -= 1
        order[y] = q


@njit
def ruin_and_recreate(
    requests: RequestColumns,
    prices: PriceSums,
    region: Region,
    moves: Moves,
    first_move: int,
    last_move: int,
    starts: IntArray,
    buckets: StartBuckets,
    profile: IntArray,
) -> int:
    """Moves first_move .. last_move - 1 of a cycle within a region, all in place.

    Parameters
    ----------
    requests : RequestColumns
        The problem.
    prices : PriceSums
        Of memory, for all rounds of ``profile``.
    region : Region
        The requests that may be moved, and where to.
    moves : Moves
        The cycle.
    first_move, last_move : int
        Which of its moves.
    starts : int64 array
        A feasible schedule, shape (n,).
    buckets : StartBuckets
        Its requests by start.
    profile : int64 array
        Its memory, entry r for round r.

    Returns
    -------
    int
        The change of the total latency.
    """
    prompt, output, arrival, limit = requests
    first, last, candidates, state = region
    taken, old, new, order = np.zeros((4, moves.most), np.int64)
    keys = np.zeros(moves.most)
    is_taken = np.zeros(len(starts), np.int64)
    # Beyond ``last`` another thread may be writing: nothing may hang on what is there.
    within = profile[: last + 1]
    change = 0
    for move in range(first_move, last_move):
        done = move / moves.total
        temperature = moves.hot * (moves.cold / moves.hot) ** done
        weight = moves.weight * max(0.0, 1.0 - done / moves.priced_until)
        waiting = candidates[int(next_uniform(state) * len(candidates))]
        for _ in range(WAITING_DRAWS):
            if starts[waiting] > arrival[waiting]:
                break
            waiting = candidates[int(next_uniform(state) * len(candidates))]
        start = starts[waiting]
        earliest = max(arrival[waiting], first, start - int(moves.reach))
        moment = earliest + int(next_uniform(state) * (start - earliest + 1))
        taken[0] = waiting
        is_taken[waiting] = 1
        wanted = 2 + int(next_uniform(state) * (moves.most - 1))
        count = _take_near(
            *(moment, moves.reach, wanted, requests, region, starts, buckets, taken, is_taken)
        )
        freed = last
        before = 0.0
        for q in range(count):
            i = taken[q]
            is_taken[i] = 0
            old[q] = starts[i]
            freed = min(freed, old[q])
            before += old[q] + weight * _priced_memory(prices, prompt[i], output[i], old[q])
            hold(profile, old[q], prompt[i], output[i], -1)
        _put_back_order(count, moves.reach, requests, taken, old, state, keys, order)
        most = before - temperature * np.log(next_uniform(state) + 1e-300)
        least = 0
        for q in range(count):
            i = taken[q]
            # Sooner than this it would hold no round that has room now and had none before.
            least += max(first, arrival[i], freed - output[i] + 1)
        cost = 0.0
        placed = 0
        for x in range(count):
            q = order[x]
            i = taken[q]
            s, o = prompt[i], output[i]
            begin = max(first, arrival[i], freed - o + 1)
            least -= begin
            at = earliest_fit(within, begin, s, o, limit)
            while at >= 0 and next_uniform(state) < moves.blink:
                passed = at + 1 + int(next_uniform(state) * BUCKET_STEPS)
                at = earliest_fit(within, passed, s, o, limit)
            if at < 0:
                break
            paid = at + weight * _priced_memory(prices, s, o, at)
            if next_uniform(state) < moves.second:
                passed = at + 1 + int(next_uniform(state) ** 2 * moves.reach)
                later = earliest_fit(within, passed, s, o, limit)
                if later >= 0:
                    paid_later = later + weight * _priced_memory(prices, s, o, later)
                    if paid_later < paid:
                        at, paid = later, paid_later
            cost += paid
            if cost + least > most:
                break
            hold(profile, at, s, o, 1)
            new[q] = at
            placed += 1
        if placed < count:
            for x in range(placed):
                q = order[x]
                hold(profile, new[q], prompt[taken[q]], output[taken[q]], -1)
            for q in range(count):
                hold(profile, old[q], prompt[taken[q]], output[taken[q]], 1)
            continue
        for q in range(count):
            i = taken[q]
            change += new[q] - old[q]
            starts[i] = new[q]
            if new[q] // buckets.width != old[q] // buckets.width:
                _unlink(buckets, i, old[q])
                link(buckets, i, new[q])
    return change

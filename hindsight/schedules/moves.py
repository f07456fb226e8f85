"""Compiled moves of ruin and recreate, on any number of machines, in tokens or in blocks.

Each machine has an array of the memory held in every round, and the requests are sorted by start
every now and then. A move picks a request that waits or is left out, and removes it and some that
start near an earlier round of its wait. It puts them back one by one, in a randomly chosen order,
each at the first start at which it fits beside all others for its whole life, on any machine (or,
sometimes, at the cheaper of this and a later one). So the cost of a move hardly depends on n, and
every intermediate schedule is feasible.

A request that has no start by its last one is left out, at a penalty. A move is accepted if it
costs less than a threshold (Kirkpatrick, Gelatt and Vecchi 1983), drawn before the requests are put
back so that most moves end early. The cost of a start is its round, times the weight of the
request, plus ``weight`` times the price of its memory. Near the prices of the linear relaxation,
promising schedules have similar costs, and waits move to the requests that should wait.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray

from .draws import next_uniform, threshold
from .timetables import Requests, Timetable, fit, hold_start

WAITING_DRAWS, DRAWS_PER_REQUEST = 20, 4
"""Requests drawn to find one that waits or is left out, and for each further one to be removed."""

TRIED = 8
"""Further requests drawn to find some that are left out, where that is allowed."""

SORTED = 8
"""Times that candidates are sorted in as many moves as there are candidates."""

EVERYWHERE = 0.3
"""Share of moves that remove requests from all machines instead of two."""

BLINK, LONGEST_STEP = 0.01, 4
"""Probability that the search for a start passes over one that fits, and by how many rounds."""

SECOND, PRICED_UNTIL = 0.3, 0.8
"""Probability that a request is also tried at a later start that fits, while prices count; and the
share of the moves after which their weight, falling linearly, is 0."""

RANDOM, BY_VOLUME, BY_START, FIRST_WAITING = 0.3, 0.5, 0.7, 0.85
"""Cumulative shares of the orders in which requests are put back: random, by volume, by start, the
waiting one first, the largest peak first."""


class CycleSettings(NamedTuple):
    """Parameters of one kind of cycle; lengths and temperatures are in mean output lengths.

    Temperatures also scale with the mean weight; where requests may be left out they are in
    requests.

    Attributes
    ----------
    most : int
        Most requests with a start that are removed at once, >= 2.
    reach : float
        Requests are removed that start within this distance of a random moment.
    hot, cold : float
        First and last temperature.
    weight : float
        Initial weight of memory prices. A cycle with a weight above 0 is skipped without prices.
    """

    most: int = 8
    reach: float = 1.0
    hot: float = 0.1
    cold: float = 0.003
    weight: float = 0.0


class Region(NamedTuple):
    """Rounds that belong to one thread, which may move the requests in them.

    Attributes
    ----------
    first, last : int
        Starts from ``first`` on and completions up to ``last`` belong to the region.
    candidates : int64 array
        Requests that lived within the region, or were left out, when the moves began.
    state : int64 array, shape (1,)
        State of `next_uniform`.
    """

    first: int
    last: int
    candidates: IntArray
    state: IntArray


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


class Work(NamedTuple):
    """All that moves read and write.

    ``sums`` and ``weighted_sums`` are running sums of the prices lambda_r of memory and of
    r lambda_r, shape (rounds,); ``total`` is the number of moves of the whole cycle, ``length`` the
    mean output length, and ``unit`` the cost of a temperature of 1.
    """

    requests: Requests
    table: Timetable
    region: Region
    settings: CycleSettings
    removed: Removed
    sums: FloatArray
    weighted_sums: FloatArray
    total: int
    length: float
    unit: float


def work_space(most: int, count: int) -> Removed:
    """Return work space for so many removed requests of so many."""
    taken, old, old_machines, new, new_machines, order = np.zeros((6, most + TRIED + 1), np.int64)
    keys, is_taken = np.zeros(most + TRIED + 1), np.zeros(count, np.int64)
    return Removed(taken, old, old_machines, new, new_machines, order, keys, is_taken)


@step
def _cost(requests: Requests, i: int, at: int) -> float:
    """Return what a start costs, or its lack, without prices."""
    return requests.penalty[i] if at < 0 else float(requests.weight[i] * at)


@step
def _paid(work: Work, weight: float, i: int, at: int) -> float:
    """Return what a start costs, with the weighted price of its memory."""
    requests, sums, weighted_sums = work.requests, work.sums, work.weighted_sums
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
def _sort(work: Work) -> None:
    """Sort the candidates by start, few of which changed much."""
    starts, candidates = work.table.starts, work.region.candidates
    for place in range(1, len(candidates)):
        i, y = candidates[place], place
        while y > 0 and starts[candidates[y - 1]] > starts[i]:
            candidates[y] = candidates[y - 1]
            y -= 1
        candidates[y] = i


@step
def _place_of(work: Work, start: float) -> int:
    """Return the place of the first candidate with a start, about as last sorted."""
    starts, candidates = work.table.starts, work.region.candidates
    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        if starts[candidates[middle]] < start:
            low = middle + 1
        else:
            high = middle
    return low


@step
def _draw(work: Work, reach: float) -> int:
    """Draw a waiting request and others near an earlier round of its wait; return how many."""
    requests, table, settings, removed = work.requests, work.table, work.settings, work.removed
    candidates, state = work.region.candidates, work.region.state
    starts, machines = table.starts, table.machines
    i = _draw_waiting(work)
    count = _take(removed, 0, i)
    end = starts[i] if starts[i] >= 0 else requests.last[i]
    begin = max(requests.arrival[i], work.region.first, end - int(reach))
    moment = begin + int(next_uniform(state) * (end - begin + 1))
    wanted = 2 + int(next_uniform(state) * (settings.most - 1))
    spread = reach * (0.1 + 0.9 * next_uniform(state))
    # Removing from few machines frees memory in one piece.
    total, one, two = table.profiles.shape[0], machines[i], 0
    everywhere = total == 1 or next_uniform(state) < EVERYWHERE
    if not everywhere:
        two = int(next_uniform(state) * total)
        if next_uniform(state) < 0.5:
            one = int(next_uniform(state) * total)
    place = _place_of(work, max(0.0, moment - spread))
    near = _place_of(work, moment + spread + 1.0) - place
    for _ in range(DRAWS_PER_REQUEST * wanted if near > 0 else 0):
        if count == wanted:
            break
        j = candidates[place + int(next_uniform(state) * near)]
        is_near = everywhere or machines[j] == one or machines[j] == two
        if removed.is_taken[j] == 0 and starts[j] >= 0 and is_near:
            count = _take(removed, count, j)
    if requests.penalty[i] < math.inf:
        for _ in range(TRIED):
            j = int(next_uniform(state) * len(starts))
            if starts[j] < 0 and removed.is_taken[j] == 0:
                count = _take(removed, count, j)
    return count


@step
def _draw_order(work: Work, reach: float, count: int) -> None:
    """Draw the order in which the ``count`` removed requests are put back."""
    requests, removed, state = work.requests, work.removed, work.region.state
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
def _draw_start(
    work: Work, reach: float, weight: float, i: int, begin: int
) -> tuple[int, int, float]:
    """Return a start, its machine and its cost: the first fit, or a later one if it is passed."""
    requests, profiles = work.requests, work.table.profiles
    state, size, first = work.region.state, work.region.last + 1, 0
    if profiles.shape[0] > 1:
        first = int(next_uniform(state) * profiles.shape[0])
    at, k = fit(requests, profiles, i, begin, first, size)
    while at >= 0 and next_uniform(state) < BLINK:
        passed = at + 1 + int(next_uniform(state) * LONGEST_STEP)
        at, k = fit(requests, profiles, i, passed, first, size)
    paid = _paid(work, weight, i, at)
    # Sometimes try a later start, where prices make it cheaper.
    if at >= 0 and weight > 0 and next_uniform(state) < SECOND:
        passed = at + 1 + int(next_uniform(state) ** 2 * reach)
        later, machine = fit(requests, profiles, i, passed, first, size)
        paid_later = _paid(work, weight, i, later)
        if later >= 0 and paid_later < paid:
            at, k, paid = later, machine, paid_later
    return at, k, paid


@step
def _put_back(work: Work, reach: float, weight: float, count: int, freed: int, most: float) -> int:
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
        at, k, paid = _draw_start(work, reach, weight, i, begin)
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
        table.starts[i], table.machines[i] = new, removed.new_machines[q]
    return change


@njit
def ruin_and_recreate(work: Work, first_move: int, last_move: int) -> float:
    """Make moves first_move .. last_move - 1 of a cycle within a region, all in place.

    Returns the change of the cost without prices.
    """
    settings, unit, change = work.settings, work.unit, 0.0
    reach, state = max(2.0, settings.reach * work.length), work.region.state
    for move in range(first_move, last_move):
        if move % (len(work.region.candidates) // SORTED + 1) == 0:
            _sort(work)
        done = move / work.total
        weight = settings.weight * max(0.0, 1.0 - done / PRICED_UNTIL)
        # Ruin.
        count = _draw(work, reach)
        before, freed = _take_out(work, weight, count)
        # Recreate, up to a cost drawn beforehand.
        _draw_order(work, reach, count)
        hot, cold = settings.hot * unit, settings.cold * unit
        most = threshold(before, hot, cold, done, next_uniform(state))
        placed = _put_back(work, reach, weight, count, freed, most)
        if placed < count:
            _undo(work, placed, count)
        else:
            change += _accept(work, count)
    return change

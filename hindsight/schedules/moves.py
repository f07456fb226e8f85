"""Compiled moves of ruin and recreate, on any number of machines, in tokens or in blocks.

Each machine has an array of the memory held in every round, and the requests are sorted by start
at regular intervals. A move chooses a request that waits or is left out. It removes this request
and some requests that start near a round during its wait. It puts them back one by one, in a
randomly chosen order, each at the first start at which it fits with all others for its whole life,
on any machine (or, sometimes, at a later start if that is cheaper). So the run time of a move
hardly depends on n, and every schedule between moves is feasible.

Where requests may be left out, one that finds no start by its last allowed start is left out, at a
penalty. A move is accepted if it costs less than a threshold (Kirkpatrick, Gelatt and Vecchi 1983).
The threshold is drawn before the requests are put back, so that most moves end early. The cost of a
start is its round, times the weight of the request, plus ``weight`` times the price of the memory
that the request then holds. Under prices near those of the linear relaxation, promising schedules
have similar costs, and the requests that should wait do wait.
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
"""Most draws to find a request that waits or is left out, and most draws per further request to be
removed."""

TRIED = 8
"""Further draws per move that look for requests left out, where requests may be left out."""

SORTED = 8
"""Number of times that the candidates are sorted by start per as many moves as candidates."""

EVERYWHERE = 0.3
"""Share of moves that remove requests from all machines, instead of at most two."""

BLINK, LONGEST_STEP = 0.01, 4
"""Probability that the search for a start skips a feasible one, and most rounds of that step."""

SECOND, PRICED_UNTIL = 0.3, 0.8
"""Probability that a later feasible start of a request is also tried while prices have a weight;
and share of moves after which this weight, falling linearly, is 0."""

RANDOM, BY_VOLUME, BY_START, FIRST_WAITING = 0.3, 0.5, 0.7, 0.85
"""Cumulative probabilities of the orders in which requests are put back: random, by volume, by
start, the chosen waiting request first, and (the rest) the largest peak memory first."""


class CycleSettings(NamedTuple):
    """Parameters of one kind of cycle. The unit of lengths and temperatures: mean output lengths.

    Temperatures are multiplied by the mean weight. Where requests may be left out, the unit of
    temperatures is one request left out.

    Attributes
    ----------
    most : int
        Most requests with a start that are removed at once, >= 2.
    reach : float
        Removed requests start within this distance of a random moment.
    hot, cold : float
        First and last temperature of the annealing.
    weight : float
        Initial weight of memory prices. Cycles with a weight above 0 are skipped if there are no
        prices.
    """

    most: int = 8
    reach: float = 1.0
    hot: float = 0.1
    cold: float = 0.003
    weight: float = 0.0


class Region(NamedTuple):
    """Rounds of one thread, which may move only requests that run within these rounds.

    Attributes
    ----------
    first, last : int
        Starts from ``first`` on and completions up to ``last`` belong to the region.
    candidates : int64 array
        Requests that ran within the region, or were left out, when the moves began.
    state : int64 array, shape (1,)
        State of `next_uniform`.
    """

    first: int
    last: int
    candidates: IntArray
    state: IntArray


class Removed(NamedTuple):
    """Workspace: requests that a move removes, with old and new starts and machines.

    Only the first entries are used, one per removed request. ``order`` is the order in which the
    requests are put back, sorted by ``keys``; ``is_taken``, shape (n,), is 1 for the requests drawn
    so far.
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
    """Data that moves read and write.

    ``sums`` and ``weighted_sums`` are running sums of the prices lambda_r of memory and of
    r lambda_r, shape (rounds,). ``total`` is the number of moves of the whole cycle, ``length`` the
    mean output length, and ``unit`` the unit of temperatures, as a cost.
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
    """Return the workspace of moves that remove at most ``most`` of ``count`` requests at once."""
    taken, old, old_machines, new, new_machines, order = np.zeros((6, most + TRIED + 1), np.int64)
    keys, is_taken = np.zeros(most + TRIED + 1), np.zeros(count, np.int64)
    return Removed(taken, old, old_machines, new, new_machines, order, keys, is_taken)


@step
def _cost(requests: Requests, i: int, at: int) -> float:
    """Return the cost of a start without prices, or the penalty if the request is left out."""
    return requests.penalty[i] if at < 0 else float(requests.weight[i] * at)


@step
def _paid(work: Work, weight: float, i: int, at: int) -> float:
    """Return the cost of a start, with ``weight`` times the price of the memory then held."""
    requests, sums, weighted_sums = work.requests, work.sums, work.weighted_sums
    cost = _cost(requests, i, at)
    if at >= 0 and weight > 0:
        end = at + requests.output[i]
        memory = (requests.prompt[i] - at) * (sums[end] - sums[at])
        cost += weight * (memory + weighted_sums[end] - weighted_sums[at])
    return cost


@step
def _hold(work: Work, i: int, at: int, k: int, sign: int) -> None:
    """Add request i, started at ``at``, to the profile of machine k; subtract with ``sign`` -1."""
    hold_start(work.requests, work.table.profiles, i, at, k, sign)


@step
def _earliest(work: Work, i: int, freed: int) -> int:
    """Return the first start worth trying: with a sooner one, request i uses no freed memory.

    ``freed`` is the first round in which the move has freed memory.
    """
    requests = work.requests
    begin = max(requests.arrival[i], freed - requests.output[i] + 1)
    return int(max(work.region.first, begin))


@step
def _draw_waiting(work: Work) -> int:
    """Draw a request that waits or is left out; after `WAITING_DRAWS` draws, accept any request."""
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
    """Record request i as removed; return the number of removed requests."""
    removed.is_taken[i] = 1
    removed.taken[count] = i
    return count + 1


@step
def _sort(work: Work) -> None:
    """Sort the candidates by start: insertion sort, as few moved far since the last sort."""
    starts, candidates = work.table.starts, work.region.candidates
    for place in range(1, len(candidates)):
        i, y = candidates[place], place
        while y > 0 and starts[candidates[y - 1]] > starts[i]:
            candidates[y] = candidates[y - 1]
            y -= 1
        candidates[y] = i


@step
def _place_of(work: Work, start: float) -> int:
    """Return the place of the first candidate that starts at ``start`` or later, by bisection.

    Approximate, because candidates may have moved since they were sorted.
    """
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
    """Draw the requests to remove; return their number.

    They are a waiting request and others that start near a random round of its wait.
    """
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
    # Requests of few machines free memory in larger pieces.
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
    """Return a start for request i, its machine and its cost.

    It is the first feasible start, or at random a later one.
    """
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
    """Put requests back in order while acceptance is possible; return the number put back.

    ``freed`` is the first round in which memory was freed. ``most`` is the largest accepted cost.
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
    """Put the removed requests back at their old starts, on their old machines."""
    removed = work.removed
    for x in range(placed):
        q = removed.order[x]
        _hold(work, removed.taken[q], removed.new[q], removed.new_machines[q], -1)
    for q in range(count):
        _hold(work, removed.taken[q], removed.old[q], removed.old_machines[q], 1)


@step
def _accept(work: Work, count: int) -> float:
    """Write the new starts into the timetable; return the change in cost, not counting prices."""
    requests, table, removed = work.requests, work.table, work.removed
    change = 0.0
    for q in range(count):
        i, old, new = removed.taken[q], removed.old[q], removed.new[q]
        change += _cost(requests, i, new) - _cost(requests, i, old)
        table.starts[i], table.machines[i] = new, removed.new_machines[q]
    return change


@njit
def ruin_and_recreate(work: Work, first_move: int, last_move: int) -> float:
    """Make moves first_move .. last_move - 1 of a cycle within a region, in place.

    Returns the change in cost, not counting prices.
    """
    settings, unit, change = work.settings, work.unit, 0.0
    reach, state = max(2.0, settings.reach * work.length), work.region.state
    for move in range(first_move, last_move):
        if move % (len(work.region.candidates) // SORTED + 1) == 0:
            _sort(work)
        done = move / work.total
        weight = settings.weight * max(0.0, 1.0 - done / PRICED_UNTIL)
        # Ruin: remove requests.
        count = _draw(work, reach)
        before, freed = _take_out(work, weight, count)
        # Recreate: put them back while the cost is below a threshold, which is drawn first.
        _draw_order(work, reach, count)
        hot, cold = settings.hot * unit, settings.cold * unit
        most = threshold(before, hot, cold, done, next_uniform(state))
        placed = _put_back(work, reach, weight, count, freed, most)
        if placed < count:
            _undo(work, placed, count)
        else:
            change += _accept(work, count)
    return change

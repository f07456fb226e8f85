"""Compiled moves of ruin and recreate, on any number of machines, in tokens or in blocks.

A move draws a request that starts after its arrival or is left out. It removes this request and
some requests that start near a round during its wait. Then it puts them back one by one, in a
random order. Each takes the first start, on any machine, at which it fits with all others for its
whole run, or sometimes a later start that is cheaper. So every schedule between moves is feasible.

An array per machine holds the memory used in every round, and the requests are sorted by start at
regular intervals. So the run time of a move hardly depends on n.

If requests may be left out, a request that fits at no start up to its last allowed one is left out,
at a penalty. A move is accepted if the cost after it is at most a random threshold (Kirkpatrick,
Gelatt and Vecchi 1983). The threshold is drawn before the requests are put back, so that most moves
end early. The cost of a start is its round times the weight of the request. In some annealings, a
share of the price of the memory that the request then holds is added, by prices of memory per token
and round. With prices near those of the linear relaxation, requests that should wait in an optimal
schedule tend to wait.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray

from .timetables import Requests, Timetable, fit, hold, next_uniform, threshold

WAITING_DRAWS, DRAWS_PER_REQUEST = 20, 4
"""`WAITING_DRAWS`: largest number of draws to find a request that starts after its arrival or is
left out. To remove w requests, a move makes at most w * `DRAWS_PER_REQUEST` more draws."""

TRIED = 8
"""Number of draws with which a move looks for requests left out of the schedule, to add them."""

SORTED = 8
"""Moves choose among n requests, which are sorted by start every n // `SORTED` + 1 moves."""

EVERYWHERE = 0.3
"""Share of moves that remove requests from all machines. Any other move removes its first request
from any machine, and all further requests from only one or two machines."""

BLINK, LONGEST_STEP = 0.01, 4
"""`BLINK`: probability that a move skips a start at which a request fits. `LONGEST_STEP`: the
search for another start of this request begins at most this many rounds after the skipped one."""

SECOND, PRICED_UNTIL = 0.3, 0.8
"""`SECOND`: probability that a move also tries a later start of a request, while the weight of
memory prices is above 0. `PRICED_UNTIL`: share of an annealing in which this weight falls to 0."""

RANDOM, BY_VOLUME, BY_START, FIRST_WAITING = 0.3, 0.5, 0.7, 0.85
"""A random u in [0, 1) decides in which order removed requests are put back. u < `RANDOM`: random.
Else u < `BY_VOLUME`: by volume (memory x rounds). Else u < `BY_START`: by old start with noise.
Else u < `FIRST_WAITING`: the one drawn first, then by old start. Else: largest peak memory."""


class Removed(NamedTuple):
    """Workspace: the requests that a move removes, with old and new starts and machines.

    Except in ``order`` and ``is_taken``, entry q belongs to the q-th removed request, and only as
    many entries are used as requests are removed. ``taken`` has the indices of the requests in the
    instance. ``old`` and ``new`` are their starts before and after the move, ``old_machines`` and
    ``new_machines`` their machines. ``order`` lists the numbers q by ascending ``keys``: requests
    are put back in this order. ``is_taken``, shape (n,), is 1 for the requests that the present
    move has drawn so far, else 0.
    """

    taken: IntArray
    old: IntArray
    old_machines: IntArray
    new: IntArray
    new_machines: IntArray
    order: IntArray
    keys: FloatArray
    is_taken: IntArray


class CycleSettings(NamedTuple):
    """Parameters of one cycle: an annealing with a fixed number of moves.

    Attributes
    ----------
    most : int
        Largest number of scheduled requests that one move removes, >= 2.
    reach : float
        Each move draws a random round, and removes requests that start at most this far from it.
        Unit: the mean output length.
    hot, cold : float
        First and last temperature of the annealing. If the cost is latency, their unit is the mean
        output length times the mean weight. If the cost is the number of requests left out, their
        unit is one request.
    weight : float
        Factor on the price of the memory that a request holds, which is added to the cost of its
        start. This is its value when the cycle begins. During the cycle, it falls to 0.
    """

    most: int = 8
    reach: float = 1.0
    hot: float = 0.1
    cold: float = 0.003
    weight: float = 0.0


class Work(NamedTuple):
    """Data of the moves of one thread in one region (interval of rounds) of a schedule.

    Its moves change only requests that start and end inside the region.

    Attributes
    ----------
    table : Timetable
        The schedule that all threads share, changed in place.
    removed : Removed
        Workspace of a move.
    first, last : int
        The region: requests in it start in round ``first`` or later, and end in round ``last`` or
        before.
    candidates : int64 array
        The requests that moves may change: requests inside the region, and requests that the
        schedule leaves out.
    state : int64 array, shape (1,)
        State of the random numbers (`timetables.next_uniform`).
    sums, weighted_sums : float64 array, shape (rounds,)
        Entry R: sums over the rounds r <= R of lambda_r and of r lambda_r, where lambda_r is the
        price of a token of memory in round r. A request with prompt length s and start t holds
        s - t + r tokens in each round r = t + 1 .. e of its run. With A and B the two arrays, the
        price of its memory in the whole run is (s - t) (A[e] - A[t]) + B[e] - B[t].
    total : int
        Number of moves of the whole cycle (annealing).
    settings : CycleSettings
        Parameters of the cycle. The unit of ``reach`` is a round, and that of the temperatures is
        the unit of costs.
    """

    table: Timetable
    removed: Removed
    first: int
    last: int
    candidates: IntArray
    state: IntArray
    sums: FloatArray
    weighted_sums: FloatArray
    total: int
    settings: CycleSettings


def work_space(most: int, count: int) -> Removed:
    """Return the workspace for moves in an instance of ``count`` requests.

    The workspace has room for ``most`` scheduled requests that a move removes, and for `TRIED`
    requests that are left out of the schedule and that the move tries to add.
    """
    places = most + TRIED + 1
    keys, is_taken = np.zeros(places), np.zeros(count, np.int64)
    return Removed._make([*np.zeros((6, places), np.int64), keys, is_taken])


@step
def _cost(requests: Requests, i: int, at: int) -> float:
    """Return the cost of request i at start ``at``, without prices of memory.

    The cost is weight times start. If ``at`` is -1, the request is left out, and its cost is its
    penalty.
    """
    return requests.penalty[i] if at < 0 else float(requests.weight[i] * at)


@step
def _paid(work: Work, weight: float, i: int, at: int) -> float:
    """Return the cost of request i at start ``at``, with the price of the memory that it holds.

    The price of a token of memory is different in each round (`Work.sums`). ``weight`` times the
    price of the memory that the request holds during its run is added to the cost of `_cost`. A
    start ``at`` of -1 means that the request is left out.
    """
    requests, sums, weighted_sums = work.table.requests, work.sums, work.weighted_sums
    cost = _cost(requests, i, at)
    if at >= 0 and weight > 0:
        end = at + requests.output[i]
        memory = (requests.prompt[i] - at) * (sums[end] - sums[at])
        cost += weight * (memory + weighted_sums[end] - weighted_sums[at])
    return cost


@step
def _earliest(work: Work, i: int, freed: int) -> int:
    """Return the first start worth trying for request i when a move puts it back.

    The move may change the schedule only in an interval of rounds, its region. It has removed
    requests, so it has freed memory, but only after round ``freed``. With an earlier start than the
    returned one, request i would start before its arrival or before the region, or it would end in
    round ``freed`` or before, where the move has freed no memory.
    """
    requests = work.table.requests
    begin = max(requests.arrival[i], freed - requests.output[i] + 1)
    return int(max(work.first, begin))


@step
def _draw_waiting(work: Work) -> int:
    """Draw a request that starts after its arrival or is left out of the schedule.

    It is drawn from `Work.candidates`, the requests that moves may change. If the first
    `WAITING_DRAWS` draws find none, return the request of one more draw.
    """
    starts, arrival = work.table.starts, work.table.requests.arrival
    candidates, state = work.candidates, work.state
    i = -1
    for _ in range(WAITING_DRAWS + 1):
        i = candidates[int(next_uniform(state) * len(candidates))]
        if starts[i] < 0 or starts[i] > arrival[i]:
            break
    return int(i)


@step
def _take(removed: Removed, count: int, i: int) -> int:
    """Add request i to the ``count`` requests that the present move removes so far.

    Return the new number of these requests.
    """
    removed.is_taken[i] = 1
    removed.taken[count] = i
    return count + 1


@step
def _sort(work: Work) -> None:
    """Sort `Work.candidates`, the requests that moves may change, by ascending start.

    Insertion sort is fast here, because few starts have changed since the last sort.
    """
    starts, candidates = work.table.starts, work.candidates
    for place in range(1, len(candidates)):
        i, y = candidates[place], place
        while y > 0 and starts[candidates[y - 1]] > starts[i]:
            candidates[y] = candidates[y - 1]
            y -= 1
        candidates[y] = i


@step
def _place_of(work: Work, start: float) -> int:
    """Return the place in `Work.candidates` of the first request that starts at ``start`` or later.

    `Work.candidates` are the requests that moves may change. The place is approximate, because
    starts may have changed since these requests were sorted by start.
    """
    starts, candidates = work.table.starts, work.candidates
    low, high = 0, len(candidates)
    while low < high:
        middle = (low + high) // 2
        if starts[candidates[middle]] < start:
            low = middle + 1
        else:
            high = middle
    return low


@step
def _draw(work: Work) -> int:
    """Draw the requests that a move removes into `Removed.taken`; return their number.

    The first request starts after its arrival or is left out of the schedule. Each further request
    starts near a random round between the arrival of the first request and its start (or its last
    allowed start, if it is left out). If requests may be left out, a move also draws some requests
    that the schedule leaves out at present.
    """
    table, removed, reach = work.table, work.removed, work.settings.reach
    candidates, state = work.candidates, work.state
    requests, starts, machines = table.requests, table.starts, table.machines
    i = _draw_waiting(work)
    count = _take(removed, 0, i)
    end = starts[i] if starts[i] >= 0 else requests.last[i]
    begin = max(requests.arrival[i], work.first, end - int(reach))
    moment = begin + int(next_uniform(state) * (end - begin + 1))
    wanted = 2 + int(next_uniform(state) * (work.settings.most - 1))
    spread = reach * (0.1 + 0.9 * next_uniform(state))
    # Draw further requests from all machines, or only from the machines ``one`` and ``two``. With
    # only two machines, the move removes more requests from each, and so frees more memory on each.
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
def _draw_order(work: Work, count: int) -> None:
    """Draw the order in which a move puts its ``count`` removed requests back.

    Write it into `Removed.order`, and the keys by which it is sorted into `Removed.keys`.
    """
    requests, removed, state = work.table.requests, work.removed, work.state
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
            key += (next_uniform(state) - 0.5) * work.settings.reach
        elif kind >= FIRST_WAITING:
            key = -1.0 * (s + o)
        elif q == 0:
            key = -1.0
        keys[q] = key
        # Insert the number q of this removed request into ``order``, which is sorted by key. An
        # insertion is fast, because ``order`` has only a few entries.
        y = q
        while y > 0 and keys[order[y - 1]] > key:
            order[y] = order[y - 1]
            y -= 1
        order[y] = q


@step
def _take_out(work: Work, weight: float, count: int) -> tuple[float, int]:
    """Give the memory of the ``count`` requests that a move has drawn back to the memory profiles.

    A memory profile has the number of free memory blocks of a machine in each round. Return two
    numbers. The first is the sum of the costs of these requests. A cost includes ``weight`` times
    the price of the memory that the request holds. The second is their earliest start, where the
    arrival stands for the start of a request that is left out. The removal frees memory only after
    the round of this number.
    """
    table, removed = work.table, work.removed
    cost, freed = 0.0, table.profiles.shape[1]
    for q in range(count):
        i = removed.taken[q]
        removed.is_taken[i] = 0
        at, k = table.starts[i], table.machines[i]
        removed.old[q], removed.old_machines[q] = at, k
        cost += _paid(work, weight, i, at)
        freed = min(freed, at if at >= 0 else work.table.requests.arrival[i])
        hold(work.table, i, at, k, -1)
    return cost, freed


@step
def _draw_start(work: Work, weight: float, i: int, begin: int) -> tuple[int, int, float]:
    """Draw a start >= ``begin`` for request i: mostly the first one at which it fits.

    Return the start, its machine, and its cost with ``weight`` times the price of the memory that
    the request holds. If no start is feasible, the start is -1, and the cost is the penalty for
    leaving the request out.
    """
    requests, profiles = work.table.requests, work.table.profiles
    state, size, first = work.state, work.last + 1, 0
    if profiles.shape[0] > 1:
        first = int(next_uniform(state) * profiles.shape[0])
    at, k = fit(requests, profiles, i, begin, first, size)
    while at >= 0 and next_uniform(state) < BLINK:
        passed = at + 1 + int(next_uniform(state) * LONGEST_STEP)
        at, k = fit(requests, profiles, i, passed, first, size)
    paid = _paid(work, weight, i, at)
    # Sometimes try a later start too. Take it if its cost, with the price of memory, is lower than
    # that of the first one.
    if at >= 0 and weight > 0 and next_uniform(state) < SECOND:
        passed = at + 1 + int(next_uniform(state) ** 2 * work.settings.reach)
        later, machine = fit(requests, profiles, i, passed, first, size)
        paid_later = _paid(work, weight, i, later)
        if later >= 0 and paid_later < paid:
            at, k, paid = later, machine, paid_later
    return at, k, paid


@step
def _put_back(work: Work, weight: float, count: int, freed: int, most: float) -> int:
    """Put the ``count`` removed requests of a move back, one by one, in the order `Removed.order`.

    Stop once the sum of their costs is certain to exceed ``most``, because the costs of the
    requests put back so far, plus a lower bound on the costs of the requests not put back yet,
    exceed it. Costs include ``weight`` times the price of the memory that a request holds. The
    removal of the requests has freed memory only after round ``freed``. Return the number of
    requests that are put back: the memory profiles (free memory blocks of each machine in each
    round) are without their memory again.
    """
    requests, removed = work.table.requests, work.removed
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
        hold(work.table, i, at, k, 1)
    return count


@step
def _undo(work: Work, placed: int, count: int) -> None:
    """Undo a move: put its ``count`` requests back at their old starts, on their old machines.

    The first ``placed`` of them, in the order `Removed.order`, were put back at new starts. Their
    memory at these starts is given back to the memory profiles, the free memory blocks of each
    machine in each round.
    """
    removed = work.removed
    for x in range(placed):
        q = removed.order[x]
        hold(work.table, removed.taken[q], removed.new[q], removed.new_machines[q], -1)
    for q in range(count):
        hold(work.table, removed.taken[q], removed.old[q], removed.old_machines[q], 1)


@step
def _accept(work: Work, count: int) -> float:
    """Accept a move: write the new starts and machines of its requests into the timetable.

    Return the change in cost, without memory prices.
    """
    table, removed = work.table, work.removed
    change = 0.0
    for q in range(count):
        i, old, new = removed.taken[q], removed.old[q], removed.new[q]
        change += _cost(table.requests, i, new) - _cost(table.requests, i, old)
        table.starts[i], table.machines[i] = new, removed.new_machines[q]
    return change


@njit
def ruin_and_recreate(work: Work, first_move: int, last_move: int) -> float:
    """Make moves ``first_move`` .. ``last_move`` - 1 of a cycle, in the region of ``work``.

    A cycle is an annealing, and a region is an interval of rounds. Each move removes requests that
    run inside the region and puts them back. The schedule is changed in place. Return the change in
    its cost, without memory prices.
    """
    settings, change = work.settings, 0.0
    for move in range(first_move, last_move):
        if move % (len(work.candidates) // SORTED + 1) == 0:
            _sort(work)
        done = move / work.total
        weight = settings.weight * max(0.0, 1.0 - done / PRICED_UNTIL)
        # Ruin: remove requests.
        count = _draw(work)
        before, freed = _take_out(work, weight, count)
        # Recreate: put these requests back. Give up once the sum of their costs is certain to
        # exceed ``most``, a random threshold up to which the move is accepted.
        _draw_order(work, count)
        most = threshold(before, settings.hot, settings.cold, done, next_uniform(work.state))
        placed = _put_back(work, weight, count, freed, most)
        if placed < count:
            _undo(work, placed, count)
        else:
            change += _accept(work, count)
    return change

r"""Lower bounds on the values V_i under prices of machine time (`hindsight.prices.round_lengths`).

V_i is the least latency plus payments of request i. The steps of the request, which are the rounds
in which it runs, are cut into blocks of consecutive steps, numbered from 1. Parts (1) to (3) of the
proof are in `hindsight.prices.round_length_tangents`: tangents are lower bounds on what the b steps
of one block pay. They define the number phi*(lambda). Phi is its integral over time. Part (4),
units and rounding, is in `hindsight.prices.round_length_rounding`.

(5) *Recursion.* Let G_k(t) be the least sum of the completion time and the payments of all blocks
after block k, if these begin at t or later. After the last block, G(t) = t. G_{k-1}(t) is the
minimum, over t' >= t and durations E, of the payment of block k in [t', t' + E) plus G_k(t' + E).
Time has a grid of step h, and prices are constant in cells of several steps. The code stores values
at grid points. Their interpolation g_k does not fall, and is nowhere above G_k.

(6) *Step.* Let block k begin in the grid step from m to m + 1, and last from e to e + w steps: this
is a *window* of durations. It ends between the points m + e and m + e + w + 1. For every lambda, it
pays at least a constant plus Phi at its start less Phi at its end. So its payment plus G_k is at
least the constant, plus the least g_k - Phi of these points, plus Phi at its start. The last is
linear in the start: call the sums at m and m + 1 *ends*. Any lambda may be taken. For e >= 1 the
sum of the two ends is concave in lambda, so one with no better neighbour is the best of a list.
Neighbouring steps try the best ones of the first and of the last of them, and up to three between.
Each point takes the lower one of the ends of its two steps, and the least over all windows, so that
the interpolation is a lower bound too. A window is left out if b times the least price of a step
(2), plus g_k at m + e, is not below the two ends for shorter durations.

(7) *Last points.* A block that ends after the last point costs g_k of that point or more. A start
after the last start m costs two numbers or more: the cost of the own time (8), and g_k of the
point after m, or of m if the block may last less than a grid step. The least over all later starts
is a lower bound on G_{k-1}.

(8) *Own time.* G_{k-1}(t) is at least t plus the least duration of the blocks from k on. A point
gets this number if it is not below the found one there and at both neighbours. So the chord to a
neighbour lies below the found chord or below this line.

(9) *Service levels.* If a late request costs 1 and latency nothing, the evaluation is the same with
G(t) = 1 after the deadline (see `Deadlines`) and 0 up to it. Block 1 ends with the first token:
after the deadline of this token G_1 is 1 too. By (8), a request is late if (start of a block) +
(least duration of the blocks from there on) is after the deadline. In each case the first grid
point at the jump or after it keeps the lower value, so that no chord is above the jump.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import inner, njit, step
from instances.arrays import FloatArray, IntArray

from . import round_length_tangents as tangency
from .round_length_rounding import BITS, LATE, NEVER, SAFE, payment
from .round_length_tangents import Block, Grid, Place, Tables, Tangents

WINDOWS, WIDE, SHARE = 16, 64.0, 0.125
"""Durations of a block are tried in ranges of `WINDOWS` equal windows. A window lasts at most
`SHARE` of the time beyond d0 per step, and at most d0 or, if longer, 1 / `WIDE` of that time."""

RUN, STRIDE, MOST_SLOPES, LARGEST_TABLE = 32, 8, 1000, 1 << 20
"""`RUN`: most neighbouring starts that share lambdas. The search for the best lambda takes strides
of `STRIDE` and 1 in their list, of at most `MOST_SLOPES` and `LARGEST_TABLE` / (cells) numbers."""


class Requests(NamedTuple):
    """Arrival times and lengths of requests.

    Attributes
    ----------
    arrival : float64 array, shape (n,)
        Arrival times, in seconds.
    prompt, output : int64 array, shape (n,)
        Prompt and output lengths, in tokens.
    share : int64 array, shape (n, 3)
        Columns first, after and place. In each cell c (time interval with one price) from first to
        after - 1, a request pays entry ``place + c`` of `Grid.levy` for each round in which it
        takes part. `hindsight.prices.round_length_kernels.Model` has other levies.
    """

    arrival: FloatArray
    prompt: IntArray
    output: IntArray
    share: IntArray


class Goals(NamedTuple):
    """Times up to which costs of k requests are computed, and their deadlines; shape (k,) each.

    See parts (7) and (9) of the proof at the head of this module.

    Attributes
    ----------
    allowance : float64 array
        Number of seconds after the arrival of each request. The least remaining cost of the request
        (completion time plus payments to come) is computed at each grid point up to then.
    end, first_token : float64 array
        Deadline of the end of the last round for which the request pays, and deadline of its first
        token, in seconds since time 0. They are infinite if the goal is total latency.
    """

    allowance: FloatArray
    end: FloatArray
    first_token: FloatArray


Run = tuple[int, int, int, int, int]
"""Grid steps of one cell in which a block may begin, and a range of durations: first grid point and
number of steps, least duration of the first window and length of a window in grid steps, and the
payments of the block that do not depend on lambda, in units."""


class _Scratch(NamedTuple):
    """Work arrays of int64.

    Attributes
    ----------
    costs : shape (points,)
        g_k at each grid point of the request, in units.
    cell : shape (points,)
        Cell of each grid point, counted from that of point 0.
    values, known : shape (points,)
        Lower bounds on the cost from block k on, for the durations treated so far, at the points
        from `_Case.low` on. ``known`` has those of shorter ranges of durations.
    rest, left, total : shape (points,)
        For the steps of a run and one window: least g_k - Phi, and of the best lambda the first end
        and the sum of both ends.
    begins : shape (largest output length + 1,)
        Number of steps before each block.
    """

    costs: IntArray
    cell: IntArray
    values: IntArray
    known: IntArray
    rest: IntArray
    left: IntArray
    total: IntArray
    begins: IntArray


class _Case(NamedTuple):
    """Block k of a request, with everything that its costs depend on.

    Attributes
    ----------
    low, high : int
        First and last grid point at which the block may begin, counted from point 0 of the request.
    early, own : int
        Least duration of the block in grid steps, rounded down, and of this block and all later
        ones in units of 2^-BITS steps.
    number : int
        Number of lambdas of the block.
    """

    block: Block
    place: Place
    low: int
    high: int
    early: int
    own: int
    number: int
    tables: Tables
    tangents: Tangents
    scratch: _Scratch


@step
def _alone(point: int, own: int, due: int) -> int:
    """Return the least cost of blocks of ``own`` units that begin at a point: parts (8) and (9)."""
    if due < NEVER:
        return LATE if ((point - 1) << BITS) + own >= due else 0
    return (point << BITS) + own


@inner
def _sum_of_ends(
    index: int, begin: int, first: int, last: int, tangents: Tangents, scratch: _Scratch
) -> int:
    """Return the sum of the two ends of the grid step from ``begin`` on, for one lambda (6).

    The block ends between the grid points ``first`` and ``last``.
    """
    least = NEVER
    for end in range(first, last + 1):
        c = scratch.cell[end]
        phi = tangents.level[index, c] + end * tangents.growth[index, c]
        least = min(least, scratch.costs[end] - phi)
    c = scratch.cell[begin]
    phi = 2 * tangents.level[index, c] + (2 * begin + 1) * tangents.growth[index, c]
    return int(2 * (least + tangents.constant[index]) + phi)


@inner
def _best_slope(index: int, begin: int, first: int, width: int, case: _Case) -> int:
    """Return the index of the best lambda for one grid step and one window (6).

    The search begins with ``index``. The block begins in the step from ``begin`` on, and ends at
    the point ``first`` or later.
    """
    place, tangents, scratch = case.place, case.tangents, case.scratch
    last = min(first + width + 1, place.last)
    tangency.fill_tangent(index, case.block, place, case.tables, tangents)
    best = _sum_of_ends(index, begin, first, last, tangents, scratch)
    for turn in (-STRIDE, STRIDE, -1, 1):
        while 0 <= index + turn < case.number:
            tangency.fill_tangent(index + turn, case.block, place, case.tables, tangents)
            near = _sum_of_ends(index + turn, begin, first, last, tangents, scratch)
            if near <= best:
                break
            best, index = near, index + turn
    return index


@step
def _least_of_windows(values: IntArray, count: int, width: int) -> None:
    """Replace values[x] by the least of values[x] .. values[x + width - 1], for x < count."""
    covered = 1
    while 2 * covered <= width:
        for x in range(count + width - 2 * covered):
            values[x] = min(values[x], values[x + covered])
        covered *= 2
    rest = width - covered
    for x in range(count):
        values[x] = min(values[x], values[x + rest])


@step
def _take_tangent(index: int, run: Run, first: int, case: _Case) -> None:
    """Replace the ends of all steps of a run by those of a lambda where their sum is larger (6).

    A block that begins in the first step ends at the point ``first`` or later.
    """
    begin, count, _, width, _ = run
    tangents, rest, cell = case.tangents, case.scratch.rest, case.scratch.cell
    tangency.fill_tangent(index, case.block, case.place, case.tables, tangents)
    inside = min(count + width + 1, case.place.last + 1 - first)
    for y in range(inside):
        c = cell[first + y]
        phi = tangents.level[index, c] + (first + y) * tangents.growth[index, c]
        rest[y] = case.scratch.costs[first + y] - phi
    for y in range(inside, count + width + 1):
        rest[y] = NEVER
    _least_of_windows(rest, count, width + 2)
    c = cell[begin]
    growth = tangents.growth[index, c]
    fixed = tangents.constant[index] + tangents.level[index, c] + begin * growth
    for x in range(count):
        left = rest[x] + fixed + x * growth
        if 2 * left + growth > case.scratch.total[x]:
            case.scratch.total[x], case.scratch.left[x] = 2 * left + growth, left


@inner
def _lower_run(index: int, run: Run, case: _Case) -> int:
    """Lower the values of a run of starts to their ends, in all windows of a range (6).

    ``index`` is that of a good lambda for the first window. Return that of the best one.
    """
    begin, count, early, width, fees = run
    scratch, values, last = case.scratch, case.scratch.values, case.place.last
    entry, x0, rest = index, begin - case.low, count - 1
    for window in range(WINDOWS):
        first = begin + early + window * width
        if first > last:
            break
        index = other = _best_slope(index, begin, first, width, case)
        entry = index if window == 0 else entry
        if rest and first + rest <= last:
            other = _best_slope(index, begin + rest, first + rest, width, case)
        for x in range(count):
            scratch.total[x] = -NEVER
        least, most = min(index, other), max(index, other)
        stride = max(1, (most - least + 3) // 4)
        for one in range(least, most + stride, stride):
            _take_tangent(min(one, most), run, first, case)
        for x in range(count):
            left, right = scratch.left[x], scratch.total[x] - scratch.left[x]
            values[x0 + x] = min(values[x0 + x], left + fees)
            values[x0 + x + 1] = min(values[x0 + x + 1], right + fees)
    return entry


@inner
def _lower_range(early: int, width: int, case: _Case) -> None:
    """Lower values to the ends of all starts of a block, for a range of durations (6).

    ``early`` is the least duration of the first window, and ``width`` the length of a window.
    """
    block, place, grid, low = case.block, case.place, case.tables.grid, case.low
    known, cell = case.scratch.known, case.scratch.cell
    cells, count = (early + WINDOWS * width + 1) // grid.width + 2, case.high - low + 1
    for x in range(count + 1):
        known[x] = case.scratch.values[x]
    x, index = 0, case.number - 1
    while x < count and not case.tables.stop[0]:
        # The least prices from the start of the block to its latest end, for starts in cell c.
        c, flat, alpha, price = cell[low + x], math.inf, math.inf, math.inf
        for z in range(c, min(c + cells, place.cells)):
            flat, alpha = min(flat, case.tangents.flat[z]), min(alpha, grid.alpha[place.first + z])
            price = min(price, grid.price[place.first + z])
        paid = payment(block.steps * flat, place.unit)
        fees = payment(alpha * block.more_share + price * block.more_work, place.unit)
        run = 0
        while x < count and cell[low + x] == c:
            after = case.scratch.costs[min(low + x + early, place.last)] + paid
            lowers = after < max(known[x], known[x + 1])
            x, run = x + 1, run + lowers
            if run and (not lowers or run == RUN or x == count or cell[low + x] != c):
                begin = low + x - run - (not lowers)
                index = _lower_run(index, (begin, run, early, width, fees), case)
                run = 0


@inner
def _step_back(case: _Case) -> None:
    """Replace g_k in `_Scratch.costs` by g_{k-1} without (8): parts (5) to (7) of the proof."""
    block, place, tables, low, high = case.block, case.place, case.tables, case.low, case.high
    costs, values, d0 = case.scratch.costs, case.scratch.values, tables.machine.d0
    for x in range(high - low + 2):
        values[x] = costs[place.last]
    early = case.early
    while early <= place.last - low and not tables.stop[0]:
        free = max(tables.grid.step * early - block.steps * d0, block.steps * block.work)
        wide = min(SHARE * free, max(free / WIDE, d0))
        width = int(min(max(1.0, wide / tables.grid.step), place.last + 1.0))
        _lower_range(early, width, case)
        early += WINDOWS * width
    after = costs[min(high + min(case.early, 1), place.last)]
    best = max(_alone(high, case.own, place.due), after)
    for m in range(place.last, -1, -1):
        if low <= m <= high:
            best = min(best, values[m - low])
        costs[m] = best


@inner
def _raise_to_own_time(own: int, place: Place, costs: IntArray) -> None:
    """Raise g_{k-1} to the cost of the own time of the blocks from k on: parts (8) and (9)."""
    before, here = True, _alone(0, own, place.due) >= costs[0]
    for m in range(place.last + 1):
        after = m == place.last or _alone(m + 1, own, place.due) >= costs[m + 1]
        if place.due < NEVER or (before and here and after):
            costs[m] = max(costs[m], _alone(m, own, place.due))
        before, here = here, after
    for m in range(place.last - 1, -1, -1):
        costs[m] = min(costs[m], costs[m + 1])


@step
def _place(i: int, requests: Requests, goals: Goals, grid: Grid) -> Place:
    """Return the grid points and cells of request i."""
    place, allowance, end = requests.arrival[i] / grid.step, goals.allowance[i], goals.end[i]
    begin, last = int(place), int(allowance / grid.step) + 2
    cut = int((place - begin + allowance / grid.step) * 2.0**BITS)
    first, shift = min(begin // grid.width, grid.price.size - 1), begin % grid.width
    cells = min((shift + last) // grid.width + 1, grid.price.size - first)
    unit, due = 2.0**BITS / grid.step, NEVER
    if end < math.inf:
        unit, due = float(LATE), math.ceil(min((end / grid.step - begin) * 2.0**BITS, 2.0**58))
    return Place(begin, place - begin, last, first, shift, cells, unit, due, cut)


@step
def _last_start(low: int, own: int, place: Place, costs: IntArray) -> int:
    """Return the last start of a block: later ones cost `Place.cut` or more, or are late."""
    high, most = (max(place.cut - own, 0) >> BITS) + 2, place.cut if place.due == NEVER else LATE
    m = low
    while m < high and m <= place.last and costs[m] < most:
        m += 1
    return min(max(min(high, m + 1), low + 1), place.last - 1)


@step
def _own_units(block: Block, grid: Grid) -> int:
    """Return the least duration of a block in units of 2^-BITS grid steps, rounded down."""
    return int(min(block.own * (1.0 - SAFE) / grid.step, 2.0**29) * 2.0**BITS)


@inner
def _request_value(
    i: int, requests: Requests, goals: Goals, tables: Tables, tangents: Tangents, scratch: _Scratch
) -> float:
    """Return a lower bound on V_i: part (5) of the proof."""
    s, o, first_due = requests.prompt[i], requests.output[i], goals.first_token[i]
    costs, grid, begins = scratch.costs, tables.grid, scratch.begins
    place = _place(i, requests, goals, grid)
    for m in range(place.last + 1):
        costs[m] = _alone(m, 0, place.due)
        scratch.cell[m] = min((place.shift + m) // grid.width, place.cells - 1)
    count = low = done = own = 0
    while done < o:
        block = tangency.next_block(done, s, o, tables)
        begins[count], low = done, low + (_own_units(block, grid) >> BITS)
        done, count = done + block.steps, count + 1
    for k in range(count - 1, -1, -1):
        block = tangency.next_block(begins[k], s, o, tables)
        lasts = _own_units(block, grid)
        low, own = low - (lasts >> BITS), min(own + lasts, NEVER)
        high = _last_start(low, own, place, costs)
        if high > low:
            tangency.fill_prices(block, place, requests.share[i], grid, tangents)
            number = tangency.choose_slopes(block, place, tables, tangents)
            early = lasts >> BITS
            case = _Case(block, place, low, high, early, own, number, tables, tangents, scratch)
            _step_back(case)
        _raise_to_own_time(own, place, costs)
        if k == 1 and first_due < math.inf:
            for m in range(place.last + 1):
                if (place.begin + m - 1) * grid.step >= first_due:
                    costs[m] = LATE
    value = (1.0 - place.part) * costs[0] + place.part * costs[1]
    return float(value / place.unit - (place.part * grid.step if place.due == NEVER else 0.0))


@partial(njit, makes_arrays=True)
def request_values(
    requests: Requests, goals: Goals, tables: Tables, size: int, values: FloatArray
) -> None:
    """Write to values[i] a lower bound on V_i, the least latency plus payments of request i.

    The last roundings, which `PricedValues.of` covers, are not subtracted yet. With deadlines, V_i
    is the least that the request pays if it is on time, but at most 1. If ``tables.stop`` is set
    during the call, the remaining values are 0. ``size`` is the length of the work arrays: the
    largest number of time-grid points at which costs of one request are computed
    (`PricedValues.points`).
    """
    rows, cells = np.empty((7, 2 * size + 8), np.int64), size // tables.grid.width + 3
    begins = np.empty(max(requests.output) + 1, np.int64)
    scratch = _Scratch(rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], begins)
    number = max(min(MOST_SLOPES, LARGEST_TABLE // cells), 3)
    table, prices = np.empty((2, number, cells), np.int64), np.empty((2, cells))
    constant, slope = np.empty(number, np.int64), np.empty(number)
    tangents = Tangents(prices[0], prices[1], slope, constant, table[0], table[1])
    for i in range(values.size):
        value = _request_value(i, requests, goals, tables, tangents, scratch)
        values[i] = 0.0 if tables.stop[0] else value

r"""Lower bounds on the values V_i under prices of machine time (`hindsight.prices.round_lengths`).

V_i is the least latency plus payments of request i. The steps of the request, which are the rounds
in which it runs, are cut into blocks of consecutive steps, numbered from 1. Parts (1) to (3) of the
proof are in `hindsight.prices.round_length_tangents`: tangents are lower bounds on what the b steps
of one block pay. They define the number phi*(lambda) and the least price c of a step.

(4) *Recursion.* Let G_k(t) be the least sum of the completion time and the payments of all blocks
after block k, if these begin at t or later. After the last block, G(t) = t. G_{k-1}(t) is the
minimum, over t' >= t and durations E, of the payment of block k in [t', t' + E) plus G_k(t' + E).
Time has a grid of step h, and prices are constant in cells of several steps. The code stores values
at grid points. Their interpolation g_k does not fall, and is nowhere above G_k.

(5) *Step.* Fix a slope lambda, and let Phi be the integral of phi* over time. It is linear between
grid points, and so is g_k. Durations up to X, a multiple of h, are cut into windows. Let block k
begin at t with m h <= t <= (m + 1) h, and let its duration E be in some window. Then its payment
plus G_k(t + E) is at least the sum of the constants of the tangent, Phi(t), and the least g_k - Phi
at the grid points that surround all t + E. This sum is linear in t: call its values at m h and (m +
1) h *ends*. Each window takes the ends of the best of several lambda, and the least ends of all
windows are kept. Part (2) gives ends too, for all durations from one to another: the least payment
for these durations, plus g_k after the shortest. If these are not below the ends for shorter
durations, these durations need not be examined. A grid point has an end from the step before it and
an end from the step after it, and gets the lower one. So the chord between grid points is a lower
bound, also after a minimum over all later points.

(6) *Long blocks.* Consider the moment of least c in a block that lasts longer than X. If it is in
[t, t + X], the block pays at least b times the least c of that time, and G_k(t + X) or more
follows. A later moment is in [t', t' + X] for a later t', which the minimum over all later points
covers. The prices used are the least for all t within h of a grid point, and g_k(t + X) is linear
between grid points.

(7) *Window.* Later than ``allowance`` seconds after the arrival a_i, only two facts are used:
G_k(t) >= t + (least duration of the blocks after k), and G_k does not fall. The maximum of these
two bounds has a kink, where its chord would be above it. So grid points up to and including the
kink's cell get the last computed value. A start after the last computed grid point m may be in the
cell after m. So its own time counts from m, and the block ends at m + 1 or later if it lasts h or
more.

(8) *Service levels.* If a late request costs 1 and latency nothing, the evaluation is the same with
G(t) = 1 after the deadline (see `Deadlines`) and 0 up to it. Block 1 ends with the first token:
after the deadline of this token G_1 is 1 too. The first grid point at a deadline or after it keeps
the lower value, so that no chord is above the jump. *Window*: a request is late if (start of a
block) + (least duration of this block and all later ones) is at the deadline or after it. The proof
uses nothing else of G_k but that it does not fall.

(9) *Rounding* is `hindsight.prices.round_length_rounding`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import inner, njit, step
from instances.arrays import FloatArray, IntArray

from .round_length_rounding import ROUNDING, tangent_error
from .round_length_tangents import (
    WINDOWS,
    Block,
    Grid,
    Scratch,
    Tables,
    least_payment,
    lower_by_range,
    next_block,
    range_of_durations,
)

SLOWEST, UNHURRIED, LONGEST = 40.0, 80.0, 400.0
"""Factors in X, the longest duration of a block (consecutive steps of a request) with the best
lower bounds on its payments: X is SLOWEST * least or, if longer, least + min(UNHURRIED * best,
LONGEST * least) / steps. ``least`` is the least duration of the block in seconds, ``best`` its
cheapest one at the largest price. A prompt is one step: its X allows for long waits."""

GROUP = 2.0
"""A group is some grid points at which a block (run of steps) may begin. They try the same lower
bounds on its payments (tangents), and span a price cell or, if longer, GROUP * (overhead d0)."""


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
        takes part. `Model` describes what the columns mean for `Model.levies`.
    """

    arrival: FloatArray
    prompt: IntArray
    output: IntArray
    share: IntArray


class Goals(NamedTuple):
    """Times up to which costs of k requests are computed, and their deadlines; shape (k,) each.

    See parts (7) and (8) of the proof at the head of this module.

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


class _Span(NamedTuple):
    """Grid points at which block k of a request may begin, and the durations it may have.

    A block is a run of consecutive steps (rounds in which the request runs).

    Attributes
    ----------
    low, high : int
        First and last grid point at which block k may begin. G_{k-1}, the least cost of the request
        from block k on, is computed at all of these points.
    shortest, longest : int
        Least duration of block k, and longest duration X for which tangents (lower bounds on
        payments) are computed, in grid steps.
    remaining : float
        Least duration of this block and all later ones, in seconds.
    """

    low: int
    high: int
    shortest: int
    longest: int
    remaining: float


class _Values(NamedTuple):
    """Lower bounds on G_k, the cost of a request after its block k, at points of the time grid.

    A block is a run of consecutive steps of the request, which pays prices of machine time for it.
    G_k at a grid point is the least cost if block k + 1 begins there or later. The cost is the
    completion time plus the payments for all blocks after k, in seconds. With deadlines it is only
    these payments, or 1 if the request is late.

    Attributes
    ----------
    at : float64 array
        Lower bounds on G_k at the grid points ``low``, ``low`` + 1 and so on.
    low : int
        Grid point of the first entry of ``at``.
    computed : int
        Number of entries of ``at`` that are computed from prices. The entries after them are weaker
        lower bounds, which `_tail` derives from the following three attributes.
    remaining : float
        Least duration of the blocks after k, in seconds.
    ceiling : float
        The last computed entry of ``at``.
    deadline : float
        Time in seconds after which a request is late and costs 1; infinite without deadlines.
    """

    at: FloatArray
    low: int
    computed: int
    remaining: float
    ceiling: float
    deadline: float


@step
def _least_group(tables: Tables) -> int:
    """Return the least number of grid points in a group of starts of a block. See `GROUP`."""
    return int(GROUP * tables.machine.d0 / tables.grid.step) + 1


@step
def _may_fall(points: int, paid: float, after: FloatArray, values: FloatArray) -> bool:
    """Return whether longer durations of a block may lower an entry of ``values[:points]``.

    A block is a run of consecutive steps of a request. A group is a run of neighbouring grid points
    at which the block may begin. ``values[x]`` is a lower bound on the request's cost from the
    block on, for shorter durations, if the block begins at grid point x of the group. For longer
    durations, ``paid`` is a lower bound on what the block pays, and ``after[x]`` is a lower bound
    on the cost after the block.
    """
    x = 0
    while x < points and paid + after[x] >= values[x]:
        x += 1
    return x < points


@inner
def _lower_by_steps(
    block: Block,
    span: _Span,
    following: _Values,
    tables: Tables,
    scratch: Scratch,
    values: FloatArray,
) -> float:
    """Write lower bounds on a request's cost from block k on, if this block lasts X or less.

    Block k is a run of consecutive steps (rounds) of a request. The cost is its completion time
    plus its payments, and its least value is called G_{k-1}. X is ``span.longest``. There is one
    bound for each grid point at which the block may begin. Neighbouring grid points form groups.
    The points of a group try the same tangents, which are lower bounds on what the block pays.
    Returns a bound on rounding errors (`tangent_error`). See part (5) of the proof at the head of
    this module.
    """
    grid, d0 = tables.grid, tables.machine.d0
    width, longest = grid.width, span.longest
    for x in range(span.high - span.low + 2):
        values[x] = math.inf
    group = _least_group(tables)
    known = following.at, following.low
    begin, largest, latest = span.low, 0.0, 0
    while begin <= span.high and not tables.stop[0]:
        count = min(max(width - begin % width, group), span.high + 1 - begin)
        early, own = span.shortest, values[begin - span.low :]
        while early < longest and not tables.stop[0]:
            after = following.at[begin + early - following.low :]
            part = range_of_durations(block, begin, count, early, longest, tables)
            paid = least_payment(block, begin, begin + count + part.late, grid, scratch.linear)
            if _may_fall(count + 1, paid, after, own):
                rate = lower_by_range(block, part, known, tables, scratch, own)
                largest, latest = max(largest, rate), max(latest, part.late)
            early = part.late
        begin += count
    points = max(width, group) + latest + 8
    seconds = grid.step * (span.high + 2 * points) + span.remaining
    if following.deadline < math.inf:
        seconds = 1.0
    return tangent_error(points, largest, block.steps + grid.step * points / d0, seconds)


@inner
def _fill_linear(
    block: Block, span: _Span, grid: Grid, share: IntArray, linear: FloatArray
) -> None:
    """Write a number c to ``linear`` for each time cell in which a block may run.

    A block is a run of consecutive steps of a request, and a cell a time interval with one price.
    The number c is a factor in the payment of the first
    step of the block: at a rate of x steps per second, this step pays c x per second, plus what it
    pays at the price beta for its work (the seconds that its tokens add to a round). See part (1)
    of the proof in `hindsight.prices.round_length_tangents`.
    """
    cells, width = grid.price.size - 1, grid.width
    last = (span.high + 2 * span.longest + 8) // width
    for c in range(min(max(span.low - 1, 0) // width, cells), min(last, cells) + 1):
        linear[c] = grid.alpha[c] * block.share + (grid.price[c] - grid.beta[c]) * block.work
        if share[0] <= c < share[1]:
            linear[c] += grid.levy[share[2] + c]


@step
def _tail(point: int, step: float, following: _Values) -> float:
    """Return a lower bound on a request's cost after block k, at a late grid point.

    Block k is a run of consecutive steps of the request. The point is after the last grid point at
    which this cost, called G_k, was computed. The bound is the larger of two numbers: the last
    computed value of G_k, and the completion time if the request runs alone from this point on.
    With deadlines, it is 1 if the request is late even alone, else the last computed value. See
    part (7) of the proof at the head of this module.
    """
    remaining, ceiling, deadline = following.remaining, following.ceiling, following.deadline
    if deadline < math.inf:
        return 1.0 if (point - 1) * step + remaining >= deadline else ceiling
    if (point - 1) * step + remaining >= ceiling:
        return point * step + remaining
    return ceiling


@step
def _beyond_window(span: _Span, following: _Values, step: float) -> float:
    """Return a lower bound on a request's cost if block k begins after all grid points of ``span``.

    Block k is a run of consecutive steps of the request. The cost is that of this block and all
    later ones. ``following`` has lower bounds on the cost after this block. See part (7) of the
    proof at the head of this module.
    """
    best = span.high * step + span.remaining
    if following.deadline < math.inf:
        best = 1.0 if best >= following.deadline else 0.0
    after = span.high + min(span.shortest, 1)
    if after >= following.low:
        best = max(best, following.at[after - following.low])
    return best


@inner
def _take_later(
    block: Block,
    span: _Span,
    following: _Values,
    tables: Tables,
    scratch: Scratch,
    error: float,
    values: FloatArray,
) -> None:
    """Complete lower bounds on a request's cost that so far cover durations of block k up to X.

    Block k is a run of consecutive steps of the request. The cost is that of this block and all
    later ones, and X is ``span.longest``. There is one bound for each grid point, the earliest time
    at which the block may begin. First, ``error`` is subtracted from it, for rounding. Then it
    becomes the least of itself, the bound for durations longer than X, and the bounds at all later
    grid points, where the block may begin too. See parts (5) and (6) of the proof at the head of
    this module.
    """
    grid, longest = tables.grid, span.longest
    cells, width = grid.price.size - 1, grid.width
    best = _beyond_window(span, following, grid.step)
    first, last, paid = 0, -1, math.inf
    for m in range(span.high, span.low - 1, -1):
        # Suppose that the block (run of consecutive steps) begins within one grid step of grid
        # point m and lasts for more than ``longest`` grid steps. Then its first ``longest`` grid
        # steps lie in the cells (intervals with one price) ``since`` to ``until``, and it pays at
        # least ``paid``.
        since, until = min(max(m - 1, 0) // width, cells), min((m + 1 + longest) // width, cells)
        if (since != first or until != last) and not tables.stop[0]:
            first, last = since, until
            paid = least_payment(block, m - 1, m + 1 + longest, grid, scratch.linear)
        best = min(best, paid + following.at[m + longest - following.low])
        best = min(best, values[m - span.low] - error)
        values[m - span.low] = best


@step
def _window(block: Block, low: int, cut: float, following: _Values, grid: Grid, d0: float) -> _Span:
    """Choose grid points at which block k may begin, and the longest duration with tangents.

    Block k is a run of consecutive steps of a request. Tangents are lower bounds on what the block
    pays. If it lasts longer than the duration chosen here, a simpler bound is used. The first grid
    point is ``low``. Later points and longer durations are left out if the request costs more than
    ``cut`` seconds from there on, or is late: such costs need not be exact. ``cut`` is the arrival
    time plus `Goals.allowance`. ``following`` has lower bounds on G_k, the cost of the request
    after block k. See parts (6) and (7) of the proof at the head of this module.
    """
    step = grid.step
    remaining = following.remaining + block.own
    # ``shortest`` is the least duration of the block (run of consecutive steps) in whole grid
    # steps, as the larger result of two computations that may differ by one through rounding.
    # Neither result exceeds the exact number, because `block.own` is the least duration times
    # SHRINK, which is slightly below 1.
    shortest = max(int(block.own / step), following.low - low)
    # ``best`` is the duration of the block (run of consecutive steps) in rounds of the cheapest
    # length. A step of work w adds w seconds to a round of overhead d0. At a constant price beta of
    # work, the cheapest length is d0 + sqrt(beta w d0).
    best = block.steps * (d0 + math.sqrt(grid.dearest * block.work * d0))
    spare = min(UNHURRIED * best, LONGEST * block.own) / block.steps
    slowest = max(SLOWEST * block.own, block.own + spare)
    high = max(int((cut - remaining) / step) + 1, low + 1)
    # ``high`` is the last grid point at which the block (run of consecutive steps) may begin. Lower
    # it while the cost after the block exceeds ``cut`` at grid point ``high`` - 1, or is 1 there
    # because the request is late. Costs above ``cut`` need not be exact.
    most = cut if following.deadline == math.inf else 1.0 - ROUNDING
    while (
        high > low + 1
        and 0 <= high - 1 - following.low < following.computed
        and following.at[high - 1 - following.low] > most
    ):
        high -= 1
    # A block (run of consecutive steps) that begins at ``low`` or later and lasts for more than
    # ``high`` - ``low`` + ``shortest`` grid steps ends where costs need not be exact.
    longest = max(min(int(slowest / step), high - low + shortest), shortest) + 1
    return _Span(low, high, shortest, longest, remaining)


@inner
def _step_back(
    block: Block,
    span: _Span,
    share: IntArray,
    following: _Values,
    tables: Tables,
    scratch: Scratch,
    values: FloatArray,
) -> None:
    """Write lower bounds on the cost of a request from block k on to ``values``.

    There is one bound for each grid point at which block k, a run of consecutive steps, may begin.
    The cost is the completion time plus all payments from then on. ``following`` has lower bounds
    on the cost after this block. They are first extended to the last grid point at which the block
    may end. See part (4) of the proof at the head of this module.
    """
    for x in range(following.computed, span.high + 2 * span.longest + 8 - following.low):
        following.at[x] = _tail(x + following.low, tables.grid.step, following)
    _fill_linear(block, span, tables.grid, share, scratch.linear)
    error = _lower_by_steps(block, span, following, tables, scratch, values)
    _take_later(block, span, following, tables, scratch, error, values)


@step
def _divide(
    begin: int, prompt: int, output: int, tables: Tables, begins: IntArray
) -> tuple[int, int]:
    """Cut a request's steps into blocks of consecutive steps.

    ``begins`` receives the number of steps before each block. ``begin`` is the grid point of the
    request's arrival. Returns the number of blocks, and the earliest grid point at which the last
    block may end.
    """
    count = done = 0
    low = begin
    while done < output:
        block = next_block(done, prompt, output, tables)
        begins[count] = done
        low += int(block.own / tables.grid.step)
        done += block.steps
        count += 1
    return count, low


@step
def _first_token_late(low: int, computed: int, due: float, step: float, values: FloatArray) -> None:
    """Set values after the first token's deadline ``due`` to 1, the cost of a late request.

    values[x] is the least cost of a request after its first token, if this token is complete at
    grid point ``low + x``. ``due`` is in seconds. See part (8) of the proof at the head of this
    module.
    """
    if due < math.inf:
        for x in range(computed):
            if (low + x - 1) * step >= due:
                values[x] = 1.0


@partial(njit, makes_arrays=True)
def request_values(
    requests: Requests, goals: Goals, tables: Tables, size: int, values: FloatArray
) -> None:
    """Write to values[i] a lower bound on V_i, the least latency plus payments of request i.

    The rounding errors that `lowered` covers are not subtracted yet. With deadlines, V_i is the
    least that the request pays if it is on time, but at most 1. If ``tables.stop`` is set during
    the call, the remaining values are 0. ``size`` is the length of the work arrays: the largest
    number of time-grid points at which costs of one request are computed (`PricedValues.points`).
    """
    step, d0 = tables.grid.step, tables.machine.d0
    by_point = np.empty((5, size))
    group = max(tables.grid.width, _least_group(tables))
    left, right = np.empty((WINDOWS, group)), np.empty((WINDOWS, group))
    linear = np.empty(tables.grid.price.size)
    scratch = Scratch(by_point[0], by_point[1], left, right, by_point[2], linear)
    at, spare = by_point[3], by_point[4]
    begins = np.empty(max(requests.output) + 1, np.int64)
    for i in range(values.size):
        a, s, o = requests.arrival[i], requests.prompt[i], requests.output[i]
        begin = int(a / step)
        count, low = _divide(begin, s, o, tables, begins)
        # ``following`` is the cost after the last block (run of consecutive steps): the completion
        # time, or with deadlines 1 if the request is late, else 0. No entry is computed yet:
        # `_step_back` fills all of them by `_tail`, which returns this cost.
        end, cut = goals.end[i], a + goals.allowance[i]
        following = _Values(at, low, 0, 0.0, 0.0, end)
        for k in range(count - 1, -1, -1):
            if tables.stop[0]:
                break
            block = next_block(begins[k], s, o, tables)
            low -= int(block.own / step)
            span = _window(block, low, cut, following, tables.grid, d0)
            _step_back(block, span, requests.share[i], following, tables, scratch, spare)
            computed = span.high - span.low + 1
            if k == 1:
                _first_token_late(low, computed, goals.first_token[i], step, spare)
            free = following.at
            following = _Values(spare, low, computed, span.remaining, spare[computed - 1], end)
            spare = free
        part = a / step - begin
        if tables.stop[0]:
            values[i] = 0.0
            continue
        values[i] = (1 - part) * following.at[0] + part * following.at[1]
        if end == math.inf:
            values[i] -= a
        at, spare = following.at, spare

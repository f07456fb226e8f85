r"""Lower bounds on payments of a request's steps, by tangents (`hindsight.prices.round_lengths`).

Symbols are those of `hindsight.prices.round_lengths`: alpha, beta, eta are prices of a second of
machine time, mu_i is what request i pays per round for taking part, and w_j = d1 tok + d2 kv_j is
the work of step j.

(1) *Tangents.* Let b consecutive steps of request i begin at t or later and end at t + E. A round
of length D makes 1 / D of a step per second. With share_j = d0 kv_j / M and c_j = alpha share_j +
(alpha + eta) w_j + mu_i, step j at x steps per second pays c_j x + beta w_j x / (1 - d0 x) per
second. Let phi*(lambda) be the largest of lambda x less what step 1 pays per second at rate x, over
x between 0 and 1 / (d0 + w_1). Let alpha', pi' be the least alpha and the least pi = alpha + beta +
eta between t and t + E. For every lambda the steps pay at least

    lambda b + alpha' sum_j (share_j - share_1) + pi' sum_j (w_j - w_1) - integral of phi*(lambda)

from t to t + E. *Proof.* Step j at rate x pays at least lambda_j x less the largest of lambda_j y
less its payment at rate y, per second. Take lambda_j = lambda + alpha' (share_j - share_1) + pi'
(w_j - w_1). As x / (1 - d0 x) >= x, and w_j, share_j do not fall, step j pays at least (lambda_j -
lambda) x more than step 1: that largest is at most phi*(lambda). Rates integrate to 1 per step.
Where i pauses it pays 0 >= -phi*. [] It is the dual of a convex program, in which steps may take
any rates: the best lambda loses only what changes of w_j and share_j within a block are worth.

(2) *Least price.* If c is the least of c_1 + beta w_1 between t and t + E, the steps pay at least
b c, since c_j and w_j do not fall and 1 - d0 x <= 1.

(3) *Prompts.* A prompt of s >= 2 tokens is a step like that with w = (d1 + d2) s and kv = s in its
share, in one round or in chunks. *Proof.* A round of length D with a chunk of q tokens does x = q /
(s D) of it per second and pays c x + beta w x D / (D - d0) or more, where mu_i / D >= mu_i x and
D <= 1 / x, as q <= s. And x is at most 1 / (d0 + w), which one round reaches. [] Chunks last longer
in all, so its own time is that of one round.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

from hindsight.runtime.compilation import inner, njit, step
from instances.arrays import FloatArray, IntArray

from .round_length_rounding import SHRINK

WINDOWS, WIDE, SLOPES, FLATTEST = 8, 64.0, 12, 4096.0
"""A range of durations of a block (run of steps) has up to `WINDOWS` windows. Each lasts up to the
overhead d0, or (duration - d0 * steps) / `WIDE` if that is more, or one grid step. Three to about
`SLOPES` tangents (lower bounds on payments) are tried, with the slopes that are best at the ends of
the range and some between. Those between are at least 1 / `FLATTEST` of the largest."""

HALVINGS = 7
"""Number of bisection steps for the slope lambda of a tangent (lower bound on payments)."""

SLACKEST = 0.02
"""Least value of (D - d0) / D, for the shortest round length D, that is used for the upper end of
the bisection for the slope lambda of a tangent (lower bound on payments)."""

GROWTH = 2
"""Least ratio (tokens that a request holds before a block) / (steps of the block, one token each).
So the request's memory grows by at most a half within a block (run of consecutive steps)."""

NOTHING = -1e300
"""Initial value of lower bounds on costs, which tangents then raise. It is finite because loops
compiled with fastmath assume finite numbers."""

_SUMS = {"nnan", "ninf", "nsz", "contract", "reassoc"}


class Machine(NamedTuple):
    """Memory limit M in tokens, and the lower bound d0 + d1 tok + d2 kv on a round's length in s.

    Here tok is the number of tokens that the round processes, and kv the number of tokens in
    memory. The fields d0, d1 and d2 are in seconds: per round, per processed token and per token in
    memory.
    """

    memory: float
    d0: float
    d1: float
    d2: float


class Grid(NamedTuple):
    """The time grid, and prices of machine time that are constant in cells of several grid steps.

    A cell is a time interval with one price.

    Attributes
    ----------
    step : float
        Step h of the grid, in seconds.
    width : int
        Number of grid steps per cell.
    price, alpha, beta : float64 array, shape (cells + 1,)
        Prices of a second of machine time in each cell: ``price`` is pi, the sum of all parts.
        ``alpha`` is the part charged for memory and work (seconds that tokens add to a round),
        ``beta`` the part for work alone. They are 0 in the last cell, which has no end.
    levy : float64 array
        Payments mu_i of each request per round for taking part, in seconds. Entry ``place + c`` is
        that of request i in cell c, where ``place`` is the last column of row i of
        `Requests.share`.
    dearest : float
        Largest price beta of work alone in any cell.
    """

    step: float
    width: int
    price: FloatArray
    alpha: FloatArray
    beta: FloatArray
    levy: FloatArray
    dearest: float


class Tables(NamedTuple):
    """Inputs of `request_values` that are the same for all requests, and a flag that ends it.

    Attributes
    ----------
    machine : Machine
        Memory limit M, and the coefficients of the lower bound on round lengths.
    grid : Grid
        Time grid and prices of machine time.
    size : int
        Largest number of consecutive steps of a request that form a block.
    spread : float
        Ratio, above 1, of the slopes of two neighbouring tangents, from which each lower bound on
        payments is chosen. It is changed if there would be more than `SLOPES` or less than three.
    stop : int64 array, shape (1,)
        Another thread sets it to 1 to end the computation, whose results are then not used.
    """

    machine: Machine
    grid: Grid
    size: int
    spread: float
    stop: IntArray


class Block(NamedTuple):
    """A block: consecutive steps of a request, whose payments are bounded together.

    A step is a round that processes the prompt or one output token. M, d0, d1 and d2 are those of
    `Machine`. Step j processes tok tokens, and the request holds kv_j tokens in it. The symbols are
    those of part (1) of the proof at the head of this module.

    Attributes
    ----------
    steps : int
        Number b of steps of the request in the block.
    share, work : float
        ``share`` is share_1 = d0 kv_1 / M, ``work`` is w_1 = d1 tok + d2 kv_1: both of the first
        step, in seconds.
    more_share, more_work : float
        Sum over the steps j of share_j - share_1, and sum of w_j - w_1, in seconds.
    own : float
        Least duration of the block, in seconds.
    """

    steps: int
    share: float
    work: float
    more_share: float
    more_work: float
    own: float


class Range(NamedTuple):
    """Starts and durations of a block (consecutive rounds of a request) that try the same tangents.

    A tangent is a lower bound on what the block pays for machine time. The block begins at one of
    the grid points ``begin`` .. ``begin + points - 1``. It lasts for ``early`` to ``late`` steps of
    the time grid. These durations are cut into windows of ``width`` steps. In each window, the
    tangent that gives the best bound is used.
    """

    begin: int
    points: int
    early: int
    late: int
    width: int


class Scratch(NamedTuple):
    """Workspace for a group of neighbouring grid points at which a block may begin.

    A block is a run of consecutive steps of a request. These points try the same tangents. One is a
    lower bound on what the request pays for the block: a fixed term, minus the integral over the
    duration of the block of a number phi* that depends on the price (`_conjugate`). The slope of a
    tangent is the factor of the number of steps of the block in the fixed term. See part (1) of the
    proof at the head of this module.

    Attributes
    ----------
    phi, least : float64 array
        At each grid point, ``phi`` is the integral of phi* over time up to this point. ``least`` is
        the sliding minimum of g_k - ``phi``, where g_k is a lower bound on the cost after the block
        if this ends at the grid point.
    left, right : float64 array, shape (WINDOWS, points of the largest group)
        Lower bounds on the cost from the block on, at the start and at the end of each grid step,
        if the duration of the block is in each window of a `Range`.
    fixed : float64 array
        The fixed term of a tangent for a block that begins at each grid point.
    linear : float64 array, shape (cells + 1,)
        c_1 at the prices of each cell (interval with one price): if x steps are made per second,
        the first step of the block pays c_1 x per second, plus what it pays at the price beta of
        work.
    """

    phi: FloatArray
    least: FloatArray
    left: FloatArray
    right: FloatArray
    fixed: FloatArray
    linear: FloatArray


@step
def next_block(done: int, prompt: int, output: int, tables: Tables) -> Block:
    """Return the block (consecutive steps of a request) that begins after ``done`` steps.

    A step is a round that processes the prompt or one output token. The prompt is a block by
    itself. Later blocks have up to ``tables.size`` steps. See parts (1) and (3) of the proof at the
    head of this module.
    """
    M, d0, d1, d2 = tables.machine
    if done == 0 and prompt > 1:
        work = (d1 + d2) * prompt
        own = d0 + d1 * prompt + d2 * (prompt + 1.0)
        return Block(1, d0 * prompt / M, work, 0.0, 0.0, own * SHRINK)
    steps = 1
    if done > 0:
        steps = min(max(1, (prompt + done) // GROWTH), tables.size, output - done)
    kv = prompt + done + 1.0
    work = d1 * (prompt if done == 0 else 1.0) + d2 * kv
    more = 0.5 * steps * (steps - 1)
    own = steps * (d0 + work) + d2 * more
    return Block(steps, d0 * kv / M, work, d0 / M * more, d2 * more, own * SHRINK)


@step
def _conjugate(
    work: float, rate: float, linear: float, beta: float, d0: float
) -> tuple[float, float]:
    """Return phi* of the slope lambda = ``rate``, and the rate x that attains it.

    phi* is the largest value of lambda x - payment(x) over 0 <= x <= 1 / (d0 + w), where x is the
    number of steps made per second. A step whose work is w = ``work`` seconds pays payment(x) = c x
    + beta w x / (1 - d0 x) per second at this rate. c is ``linear``, and d0 is the overhead of a
    round in seconds.
    """
    rest = rate - linear
    priced = beta * work
    if rest <= priced:
        return 0.0, 0.0
    # payment(x) is what a step of work w pays per second at rate x. The derivative of lambda x -
    # payment(x) is rest - priced / (1 - d0 x)^2. At the best rate x it is 0, or x is the largest
    # rate allowed, 1 / (d0 + w). ``slack`` is 1 - d0 x.
    slack = max(math.sqrt(priced / rest), work / (d0 + work))
    x = (1.0 - slack) / d0
    return x * (rest - priced / slack if slack > 0.0 else rest), x


@inner
def _best_rate(
    block: Block, begin: int, lasts: float, grid: Grid, linear: FloatArray, d0: float
) -> float:
    """Approximate the slope lambda whose tangent is the best lower bound on a block's payments.

    A block is a run of consecutive steps of a request. It begins at grid point ``begin`` and takes
    ``lasts`` seconds. ``linear`` is `Scratch.linear`. A tangent of slope lambda bounds the payments
    by lambda * (number of steps) plus terms that depend on the prices. `_conjugate` gives a rate x
    (steps per second) for lambda and the prices of a cell (interval with one price). At the best
    lambda, these rates let the block make all its steps in exactly ``lasts`` seconds. Any lambda
    gives a valid lower bound, so a bisection of a few steps suffices.
    """
    cells, width = grid.alpha.size - 1, grid.width
    ends = begin + lasts / grid.step
    first, last = min(begin // width, cells), min(int(ends) // width, cells)
    slack = max(block.work / (d0 + block.work), SLACKEST)
    low, high = math.inf, 0.0
    for c in range(first, last + 1):
        worked = grid.beta[c] * block.work
        low = min(low, linear[c] + worked)
        high = max(high, linear[c] + worked / (slack * slack))
    best, most = low, low * block.steps
    for _ in range(HALVINGS):
        rate = math.sqrt(low * high) if low > 0.0 else 0.5 * high
        made, paid = 0.0, rate * block.steps
        for c in range(first, last + 1):
            until = ends if c == cells else min(ends, (c + 1.0) * width)
            seconds = grid.step * (until - max(begin, c * width))
            phi, x = _conjugate(block.work, rate, linear[c], grid.beta[c], d0)
            made += seconds * x
            paid -= seconds * phi
        if paid > most:
            best, most = rate, paid
        if made < block.steps:
            low = rate
        else:
            high = rate
    return best


@inner
def least_payment(block: Block, first: int, last: int, grid: Grid, linear: FloatArray) -> float:
    """Return a lower bound on what a block pays if it runs between two grid points.

    The grid points are ``first`` and ``last``. A block is a run of consecutive steps of a request,
    and a cell a time interval with one price. The bound is (number of steps) * (least price of a
    step in the cells between the two points). The price of a step in cell c is ``linear[c]`` + beta
    * ``block.work``, where ``linear`` is `Scratch.linear`. See part (2) of the proof at the head of
    this module.
    """
    cells, width, least = grid.alpha.size - 1, grid.width, math.inf
    for c in range(min(max(first, 0) // width, cells), min(last // width, cells) + 1):
        least = min(least, linear[c] + grid.beta[c] * block.work)
    return block.steps * least


@inner
def _fill_tangent(block: Block, rate: float, part: Range, tables: Tables, scratch: Scratch) -> None:
    """Write the tangent of slope lambda = ``rate`` for all starts and durations of ``part``.

    The tangent is a lower bound on what a request pays for a block of consecutive steps, see part
    (1) of the proof at the head of this module. ``scratch.phi`` receives Phi, the integral of phi*
    (`_conjugate`) over time from the first grid point on. ``scratch.fixed`` receives the other
    terms, which do not depend on the block's end.
    """
    grid, d0 = tables.grid, tables.machine.d0
    cells, width, begin = grid.alpha.size - 1, grid.width, part.begin
    points = part.points + part.late + 2
    x, phi = 0, 0.0
    while x < points:
        c = min((begin + x) // width, cells)
        end = points if c == cells else min(points, (c + 1) * width - begin)
        density, _ = _conjugate(block.work, rate, scratch.linear[c], grid.beta[c], d0)
        growth = grid.step * density
        # Only starts and ends of the block (run of consecutive steps) need an entry.
        for y in range(x if x <= part.points else max(x, part.early), end):
            scratch.phi[y] = phi + growth * (y - x)
        phi += growth * (end - x)
        if x < part.points:
            # ``alpha`` and ``price`` are running minima, over cells (intervals with one price), of
            # the price of memory and work and of the total price. The cells are those from c to the
            # latest end of a block (run of consecutive steps) that begins in cell c.
            alpha, price = grid.alpha[c], grid.price[c]
            for z in range(c, min((begin + end + part.late + 1) // width, cells) + 1):
                alpha, price = min(alpha, grid.alpha[z]), min(price, grid.price[z])
            constant = rate * block.steps + alpha * block.more_share + price * block.more_work
            for y in range(x, min(end, part.points)):
                scratch.fixed[y] = constant
        x = end


@partial(njit, fastmath=_SUMS)
def _window_minima(values: FloatArray, count: int, width: int) -> None:
    """Replace values[x] by the least of values[x] .. values[x + width - 1], for x < count."""
    covered = 1
    while 2 * covered <= width:
        for x in range(count + width - 2 * covered):
            values[x] = min(values[x], values[x + covered])
        covered *= 2
    rest = width - covered
    for x in range(count):
        values[x] = min(values[x], values[x + rest])


@partial(njit, fastmath=_SUMS)
def _take_better(part: Range, scratch: Scratch) -> None:
    """Replace lower bounds for steps of the time grid by those of the latest tangent, if larger.

    A tangent is a lower bound on what a request pays for a block of consecutive steps. The bounds
    are on the cost of a request from the block on, if the block begins in the grid step and its
    duration is in a window of ``part``. ``scratch.left`` has the bound for a block that begins at
    the start of each grid step, ``scratch.right`` that for the end of the step. For each window and
    step, both are replaced if their sum increases. See part (5) of the proof in
    `hindsight.prices.round_length_values`.
    """
    phi, least, fixed = scratch.phi, scratch.least, scratch.fixed
    for window in range((part.late - part.early) // part.width):
        left, right, after = scratch.left[window], scratch.right[window], window * part.width
        for x in range(part.points):
            begin = fixed[x] + phi[x] + least[after + x]
            end = fixed[x] + phi[x + 1] + least[after + x]
            if begin + end > left[x] + right[x]:
                left[x] = begin
                right[x] = end


@step
def range_of_durations(
    block: Block, begin: int, points: int, early: int, longest: int, tables: Tables
) -> Range:
    """Return the `Range` of durations that begins with ``early``, for a group of starts of a block.

    A block is a run of consecutive steps of a request. The group has ``points`` grid points from
    ``begin`` on. All durations are in steps of the time grid. ``longest`` is the last duration that
    must be in some range. The later the range, the wider are its windows. See `WINDOWS`.
    """
    step, d0 = tables.grid.step, tables.machine.d0
    free = max(step * early - block.steps * d0, block.steps * block.work)
    share = min(1.0 / WINDOWS, tables.spread - 1.0)
    width = max(1, int(min(share * free, max(free / WIDE, d0)) / step))
    windows = min(WINDOWS, (longest - early - 1) // width + 1)
    return Range(begin, points, early, early + windows * width, width)


@step
def _slopes(block: Block, part: Range, tables: Tables, linear: FloatArray) -> tuple[float, float]:
    """Return the least and the largest slope that is the best for a corner of ``part``.

    A block is a run of consecutive steps of a request. A corner is the first or the last start of
    the block, with its shortest or its longest duration. ``linear`` is `Scratch.linear`.
    """
    grid, low, high = tables.grid, math.inf, 0.0
    for corner in range(4):
        begin = part.begin + part.points * (corner % 2)
        lasts = grid.step * (part.early if corner < 2 else part.late)
        rate = _best_rate(block, begin, lasts, grid, linear, tables.machine.d0)
        low, high = min(low, rate), max(high, rate)
    return low, high


@inner
def lower_by_range(
    block: Block,
    part: Range,
    following: tuple[FloatArray, int],
    tables: Tables,
    scratch: Scratch,
    values: FloatArray,
) -> float:
    """Compute bounds for the starts and durations of ``part``, and lower ``values`` to them.

    A block is a run of consecutive steps of a request. ``values`` are lower bounds on the cost of
    the request from the block on, for the durations treated so far, if it begins at the grid points
    from ``part.begin`` on. Each becomes the smaller of itself and the bound for the durations in
    ``part``. ``following`` has g_k, the lower bounds on the cost after the block, and the first
    grid point of g_k. Returns the largest slope lambda that is used, from which the caller bounds
    rounding errors. See part (5) of the proof in `hindsight.prices.round_length_values`.
    """
    begin, count, early, late, width = part
    at, shift = following[0], begin - following[1]
    rate, high = _slopes(block, part, tables, scratch.linear)
    least = max(rate, high / FLATTEST)
    most = high / least if high > 0.0 else 1.0
    ratio = max(min(tables.spread, math.sqrt(most)), most ** (1.0 / SLOPES))
    for window in range((late - early) // width):
        for x in range(count):
            scratch.left[window, x] = scratch.right[window, x] = NOTHING
    while True:
        _fill_tangent(block, rate, part, tables, scratch)
        for y in range(early, count + late + 2):
            scratch.least[y - early] = at[shift + y] - scratch.phi[y]
        # If the block (run of consecutive steps) begins within one grid step and its duration is in
        # one window of ``part``, then it ends within a span of ``width + 2`` grid points. The
        # entries of ``least`` are lower bounds on the cost after the block, minus ``phi``, the term
        # of the tangent that depends on the end of the block. Replace each entry by the minimum
        # over such a span.
        _window_minima(scratch.least, count + late - early - width, width + 2)
        _take_better(part, scratch)
        if rate >= high or tables.stop[0]:
            break
        rate = min(high, ratio * max(rate, least))
    for window in range((late - early) // width):
        for x in range(count):
            values[x] = min(values[x], scratch.left[window, x])
            values[x + 1] = min(values[x + 1], scratch.right[window, x])
    return high

r"""Lower bounds on payments of a request's steps, by tangents (`hindsight.prices.round_lengths`).

Symbols are those of `hindsight.prices.round_lengths`: alpha, beta, eta are prices of a second of
machine time, mu_i is what request i pays per round for taking part, and w_j = d1 tok + d2 kv_j is
the work of step j.

(1) *Tangents.* Let b consecutive steps of request i begin at t or later and end at t + E. A round
of length D makes 1 / D of a step per second. With share_j = d0 kv_j / M and c_j = alpha share_j +
(alpha + eta) w_j + mu_i, step j at x steps per second pays c_j x + beta w_j x / (1 - d0 x) per
second. Let phi*(lambda) be the largest of lambda x less what step 1 pays per second at rate x, over
x between 0 and 1 / (least length of step 1). Let alpha', pi' be the least alpha and the least pi =
alpha + beta + eta between t and t + E. For every lambda the steps pay at least

    lambda b + alpha' sum_j (share_j - share_1) + pi' sum_j (w_j - w_1) - integral of phi*(lambda)

from t to t + E. *Proof.* Step j at rate x pays at least lambda_j x less the largest of lambda_j y
less its payment at rate y, per second. Take lambda_j = lambda + alpha' (share_j - share_1) + pi'
(w_j - w_1). As x / (1 - d0 x) >= x, and w_j, share_j do not fall, step j pays at least (lambda_j -
lambda) x more than step 1: that largest is at most phi*(lambda). Rates integrate to 1 per step.
Where i pauses it pays 0 >= -phi*. [] It is the dual of a convex program, in which steps may take
any rates: the best lambda loses only what changes of w_j and share_j within a block are worth.

(2) *Least price.* If c is the least of c_1 + beta w_1 between t and t + E, the steps pay at least
b c, since c_j and w_j do not fall and 1 - d0 x <= 1.

(3) *Prompts.* A prompt of s >= 2 tokens is a step like that with w = F(s) and kv = s in its share,
in one round or in chunks. Here F(y) = (d1 + d2) y + c y^2, with c = `AffineMinorant.square`.
*Proof.* A chunk of tokens y to y + q is the share f = (F(y + q) - F(y)) / F(s) of the prompt, so a
round of length D with it does x = f / D of the prompt per second. Its work is f F(s) or more, as it
holds y + q >= q tokens. And y + q >= f s: for c = 0, f s = q (also if F = 0); for d1 = d2 = 0, f s
= (2 y + q) q / s <= (y + q)^2 / s <= y + q; otherwise f is between these. So it pays c_1 x + beta w
x D / (D - d0) or more, where mu_i / D >= mu_i x and D <= 1 / x, as f <= 1. And x is at most 1 /
(length of one round with the whole prompt): as f <= 1, the chunk's round lasts at least f times as
long. [] Chunks last longer in all, so the own time of the prompt is that of one round.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hindsight.runtime.compilation import inner, step
from instances.arrays import FloatArray, IntArray

from .round_length_rounding import PAYMENT, growth, payment

RATIO, FLATTEST, SLACKEST = 1.01, 4096.0, 0.02
"""A block has a list of numbers lambda, of which neighbours have a ratio of up to `RATIO`, down to
1 / `FLATTEST` of the largest one. That is the best one for rounds in which others have the share
`SLACKEST` of the time, and the block the rest."""

GROWTH = 2
"""Least ratio (tokens that a request holds before a block) / (steps of the block, one token each).
So the request's memory grows by at most a half within a block (run of consecutive steps)."""


class Machine(NamedTuple):
    """Memory limit M in tokens, and the lower bounds on a round's length.

    A round lasts d0 + d1 tok + d2 kv seconds or more, and ``least`` + d2 kv seconds or more. Here
    tok is the number of tokens that the round processes, and kv the number of tokens in memory. The
    fields are in seconds: d1 per processed token, d2 per token in memory, ``square`` per square of
    a prompt length (`AffineMinorant`), the others per round.
    """

    memory: float
    d0: float
    d1: float
    d2: float
    least: float
    square: float


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
    """

    step: float
    width: int
    price: FloatArray
    alpha: FloatArray
    beta: FloatArray
    levy: FloatArray


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
    stop : int64 array, shape (1,)
        Another thread sets it to 1 to end the computation, whose results are then not used.
    """

    machine: Machine
    grid: Grid
    size: int
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
    floor : float
        Least share of the first step's length that is not the overhead d0.
    """

    steps: int
    share: float
    work: float
    more_share: float
    more_work: float
    own: float
    floor: float


class Place(NamedTuple):
    """The grid points and cells of one request, which are counted from its own first ones.

    Attributes
    ----------
    begin : int
        The last grid point up to the arrival: point 0 of the request.
    part : float
        Part of a grid step from point 0 to the arrival.
    last : int
        Last grid point at which costs are computed.
    first : int
        Cell of point 0, counted from time 0: cell 0 of the request.
    shift : int
        Number of grid steps from the start of cell 0 to point 0.
    cells : int
        Number of cells up to that of point ``last``.
    unit : float
        Number of units in a cost of 1.
    due : int
        Deadline of the last token, in units of 2^-BITS steps after point 0, or NEVER.
    cut : int
        The allowance, in such units. Costs above it need not be exact.
    """

    begin: int
    part: float
    last: int
    first: int
    shift: int
    cells: int
    unit: float
    due: int
    cut: int


class Tangents(NamedTuple):
    """Tangents of a block: lower bounds on its payments, one for each of some numbers lambda.

    Attributes
    ----------
    flat, dear : float64 array, shape (cells,)
        ``flat`` is c_1 + beta w_1 in each cell, the least payment of the first step over all rates,
        and ``dear`` its part beta w_1, in seconds.
    slope : float64 array, shape (r,)
        The numbers lambda, which increase.
    constant : int64 array, shape (r,)
        lambda b in units, or -1 if the tangent is not computed yet.
    growth, level : int64 array, shape (r, cells)
        Phi, the integral of phi*(lambda), at grid point m in cell c is ``level[:, c]`` + m *
        ``growth[:, c]``, in units.
    """

    flat: FloatArray
    dear: FloatArray
    slope: FloatArray
    constant: IntArray
    growth: IntArray
    level: IntArray


@step
def next_block(done: int, prompt: int, output: int, tables: Tables) -> Block:
    """Return the block (consecutive steps of a request) that begins after ``done`` steps.

    A step is a round that processes the prompt or one output token. The prompt is a block by
    itself. Later blocks have up to ``tables.size`` steps. See parts (1) and (3) of the proof at the
    head of this module.
    """
    M, d0, d1, d2, least, square = tables.machine
    if done == 0 and prompt > 1:
        tokens, held = (d1 + square * prompt) * prompt, d2 * prompt
        beyond = max(tokens, least - d0) + held
        share, floor = d0 * prompt / M, beyond / (d0 + beyond)
        return Block(1, share, tokens + held, 0.0, 0.0, d0 + beyond + d2, floor)
    steps = 1
    if done > 0:
        steps = min(max(1, (prompt + done) // GROWTH), tables.size, output - done)
    kv = prompt + done + 1.0
    work = d1 + (square if done == 0 else 0.0) + d2 * kv
    more = 0.5 * steps * (steps - 1)
    beyond = work + max(least - d0 - d1, 0.0)
    own, floor = steps * (d0 + beyond) + d2 * more, beyond / (d0 + beyond)
    return Block(steps, d0 * kv / M, work, d0 / M * more, d2 * more, own, floor)


@inner
def fill_prices(
    block: Block, place: Place, share: IntArray, grid: Grid, tangents: Tangents
) -> None:
    """Write `Tangents.flat` and `Tangents.dear` for a block of a request.

    ``share`` is the row of `Requests.share` of the request.
    """
    for c in range(place.cells):
        z = place.first + c
        tangents.dear[c] = grid.beta[z] * block.work
        flat = grid.alpha[z] * block.share + grid.price[z] * block.work
        if share[0] <= z < share[1]:
            flat += grid.levy[share[2] + z]
        tangents.flat[c] = flat


@inner
def choose_slopes(block: Block, place: Place, tables: Tables, tangents: Tangents) -> int:
    """Write the numbers lambda of a block to `Tangents.slope`, and return how many there are.

    The first one is the least price of a step, whose tangent is part (2) of the proof.
    """
    d0 = tables.machine.d0
    floor = max(block.floor, SLACKEST)
    lowest, most = math.inf, 0.0
    for c in range(place.cells):
        lowest = min(lowest, tangents.flat[c])
        most = max(most, tangents.flat[c] + tangents.dear[c] * (1.0 / (floor * floor) - 1.0))
    rounds = (place.last + 1) * tables.grid.step / (d0 + block.work)
    most = min(most, PAYMENT / place.unit / (block.steps + rounds))
    lowest = min(lowest, most)
    least, number = max(lowest, most / FLATTEST), 0
    if 0.0 < least < most:
        number = int(math.log(most / least) / math.log(RATIO)) + 1
        number = min(number, len(tangents.slope) - 2)
    tangents.slope[0], count = lowest, 1
    for k in range(number + 1):
        slope = most if k == number else least * (most / least) ** (k / number)
        if slope > tangents.slope[count - 1]:
            tangents.slope[count] = slope
            count += 1
    for k in range(count):
        tangents.constant[k] = -1
    return count


@inner
def fill_tangent(
    index: int, block: Block, place: Place, tables: Tables, tangents: Tangents
) -> None:
    """Compute the tangent of one lambda, unless it is known: part (1) of the proof.

    At rate x, a step pays ``linear`` x + ``dear`` x / (1 - d0 x) per second, where ``linear`` is
    ``flat`` - ``dear``. So lambda x less this payment is largest where 1 - d0 x is the root of
    ``dear`` / (lambda - ``linear``), or at the largest rate.
    """
    if tangents.constant[index] >= 0:
        return
    d0, width, slope = tables.machine.d0, tables.grid.width, tangents.slope[index]
    per_step = place.unit * tables.grid.step / d0
    before = level = 0
    for c in range(place.cells):
        flat, dear = tangents.flat[c], tangents.dear[c]
        density = 0.0
        if flat < slope:
            rest = slope - flat + dear
            slack = max(math.sqrt(dear / rest), block.floor)
            density = (1.0 - slack) * (rest - dear / slack if slack > 0.0 else rest)
        more = growth(max(density, 0.0), slope, per_step) if flat < 2.0 * slope else 0
        # Phi is continuous at the start of the cell.
        level -= (more - before) * max(c * width - place.shift, 0)
        tangents.growth[index, c], tangents.level[index, c], before = more, level, more
    tangents.constant[index] = payment(slope * block.steps, place.unit)

"""The checker's evaluation of prices of machine time: lower bounds on the values V_i.

Prices and V_i, the least latency plus payments of request i, are those of
`hindsight.prices.round_lengths`, whose proof says why sum_i V_i less the integral of the prices is
a lower bound on total latency. The solver computes the V_i by the compiled loops of
`hindsight.prices.round_length_values`. This module proves them by the same numbered proof, (1) to
(8), but shares no code with the solver: it computes g_k at all starts of a block at once, by arrays
in numpy, and only (6) is a compiled loop. For each grid step it takes the best lambda, where the
solver lets neighbouring steps share some. The least durations of blocks are exact fractions,
rounded down to units. Payments are floats, rounded by part (4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.ndimage import minimum_filter1d

from hindsight.prices.minorants import AffineMinorant
from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray
from instances.validation import decimal

from . import limits

BITS = 26
"""A grid step has 2^BITS units, in which all costs are counted."""

NEVER, PAYMENT, COEFFICIENT = 1 << 59, 2.0**57, 1 << 100
"""NEVER: cost of an end after the last grid point, and largest own time, in units. PAYMENT: largest
payment in units. COEFFICIENT: largest work or share of a step, in seconds. Larger numbers count as
these."""

SAFE = 4e-12
"""Share that covers the rounding of floats, by part (4) of the proof."""

WINDOWS, WIDE, SHARE = 16, 64, 0.125
"""Durations of a block are tried in ranges of `WINDOWS` equal windows. A window lasts at most
`SHARE` of the time beyond d0 per step, and at most d0 or, if longer, 1 / `WIDE` of that time."""

RATIO, FLATTEST, SLACKEST, LARGEST_TABLE = 1.01, 4096.0, 0.02, 1 << 20
"""The list of numbers lambda has ratios of up to `RATIO`, down to 1 / `FLATTEST` of the largest
one. That is the best one for rounds in which others have the share `SLACKEST` of the time.
(Numbers) * (cells) is at most `LARGEST_TABLE`."""


class Grid(NamedTuple):
    """A time grid and prices of machine time, with the choices that decide how close bounds are.

    Attributes
    ----------
    minorant : AffineMinorant
        Affine lower bound on the length of a round.
    memory : int
        Memory limit M, in tokens.
    step : float
        Step of the time grid in seconds, a power of two.
    width : int
        Number of grid steps in a cell, the time interval with one price.
    prices : float64 array, shape (3, cells + 1)
        Prices pi, alpha and beta of a second of machine time in each cell. The last column is 0.
    size : int
        Largest number of steps of a request in a block.
    spend : Callable[[float], None]
        Called with the work of each part, in array entries: before it is done, but after it for the
        compiled loop, which counts its own work. It may raise.
    """

    minorant: AffineMinorant
    memory: int
    step: float
    width: int
    prices: FloatArray
    size: int
    spend: Callable[[float], None]


class Block(NamedTuple):
    """A run of ``steps`` consecutive steps of a request.

    ``own`` is its least duration, in units. ``work`` and ``share`` are w and d0 kv / M of its first
    step, in seconds. ``more_work`` and ``more_share`` are the sums over its steps of what they have
    more than the first one. ``floor`` is the least share of its length that is not d0.
    """

    own: int
    steps: int
    work: float
    share: float
    more_work: float
    more_share: float
    floor: float


class Case(NamedTuple):
    """Costs after a block, and its tangents for r increasing numbers lambda, both in units.

    ``costs`` is g_k at the grid points, and ``cell`` the cell of each. ``constant``, shape (r,),
    has lambda b. Phi at grid point m in cell c is ``level[:, c]`` + m * ``growth[:, c]``; both have
    shape (r, cells).
    """

    costs: IntArray
    cell: IntArray
    constant: IntArray
    growth: IntArray
    level: IntArray


def least_cost(
    grid: Grid, request: tuple[float, int, int], levy: FloatArray, allowance: float
) -> Fraction:
    """Return a lower bound on the value V of a request: its least latency plus payments.

    Parameters
    ----------
    grid : Grid
        Time grid and prices.
    request : tuple[float, int, int]
        Arrival time in seconds, prompt length and output length in tokens.
    levy : float64 array, shape (cells + 1,)
        Payment of the request for each round in which it takes part, in seconds, by cell.
    allowance : float
        Seconds after the arrival up to which costs are computed. Any number gives a valid bound.
    """
    arrival, prompt, output = request
    place = decimal(arrival) / Fraction(grid.step)
    begin, points = int(place), int(allowance / grid.step) + 3
    first = min(begin // grid.width, len(levy) - 1)
    cell = (begin % grid.width + np.arange(points)) // grid.width
    cell = np.minimum(cell, len(levy) - 1 - first)
    prices = np.vstack([grid.prices, levy])[:, first : first + int(cell[-1]) + 1]
    blocks = [*_blocks(grid, prompt, output)]
    low, own = sum(one.own >> BITS for one in blocks), 0
    cut = int((place - begin + Fraction(allowance) / Fraction(grid.step)) * 2**BITS)
    costs = np.arange(points) << BITS
    for block in reversed(blocks):
        low, own = low - (block.own >> BITS), min(own + block.own, NEVER)
        # The last start of the block. Later starts cost ``cut`` or more.
        latest = min((max(cut - own, 0) >> BITS) + 2, int(np.searchsorted(costs, cut)) + 1)
        high = min(max(latest, low + 1), points - 2)
        if high > low:
            costs = _before(grid, block, (low, high), costs, (cell, prices), own)
        costs = _with_own_time(costs, own)
    part = place - begin
    value: Fraction = (1 - part) * int(costs[0]) + part * int(costs[1])
    return Fraction(max(value / 2**BITS - part, Fraction(own, 2**BITS)) * Fraction(grid.step))


def _blocks(grid: Grid, prompt: int, output: int) -> Iterator[Block]:
    """Cut the steps of a request into blocks, in which its tokens grow by at most a half."""
    (d0, d1, d2, least, square), done = grid.minorant, 0
    while done < output:
        steps = 1 if not done else min(max(1, (prompt + done) // 2), grid.size, output - done)
        processed = d1 * prompt + square * prompt**2 if not done else d1
        later = Fraction(steps * (steps - 1), 2)
        length = max(d0 + processed, least)
        own = steps * (length + d2 * (prompt + done + 1)) + d2 * later
        # A prompt may come in chunks, which hold no more than the prompt.
        held = prompt if not done and prompt > 1 else prompt + done + 1
        first = processed + d2 * held, d0 * held / grid.memory
        rest = later * d2, later * d0 / grid.memory
        most = Fraction(COEFFICIENT)
        numbers = [float(min(one, most)) for one in (*first, *rest, 1 - d0 / (length + d2 * held))]
        yield Block(int(own / Fraction(grid.step) * 2**BITS), steps, *numbers)
        done += steps


def _with_own_time(costs: IntArray, own: int) -> IntArray:
    """Raise costs at grid points to the time plus ``own`` units, by part (8) of the proof."""
    alone = (np.arange(len(costs)) << BITS) + own
    is_above = np.pad(alone >= costs, 1, mode="edge")
    chosen = is_above[:-2] & is_above[1:-1] & is_above[2:]
    return np.minimum.accumulate(np.where(chosen, alone, costs)[::-1])[::-1].copy()


def _case(
    grid: Grid, block: Block, prices: tuple[FloatArray, FloatArray], costs: IntArray, cell: IntArray
) -> Case:
    """Return the tangents of a block, rounded as part (4) of the proof says.

    ``prices`` has the least payment of a step in each cell, over all rates, and its part beta w, in
    seconds. ``costs`` and ``cell`` are those of `Case`.
    """
    flat, dear = prices
    d0 = float(grid.minorant.d0)
    # At most ``most``, no tangent exceeds PAYMENT.
    most = PAYMENT / 2**BITS / (block.steps / grid.step + len(cell) / (d0 + block.work))
    most = min(float((flat + dear * (max(block.floor, SLACKEST) ** -2 - 1)).max()), most)
    lowest = min(float(flat.min()), most)
    least = max(lowest, most / FLATTEST)
    number = math.log(most / least) / math.log(RATIO) if 0 < least < most else 0
    number = min(math.ceil(number), LARGEST_TABLE // len(flat)) + 1
    slope = np.unique([lowest, most, *np.geomspace(max(least, 1e-300), most or 1, number)[:-1]])
    slope = slope[slope <= most][:, None]
    grid.spend(limits.CALL + 40 * slope.size * flat.size)
    rest = slope - flat + dear
    ratio = np.divide(dear, rest, out=np.ones_like(rest), where=rest > dear)
    slack = np.maximum(np.sqrt(ratio), block.floor)
    share = np.divide(dear, slack, out=np.zeros_like(rest), where=slack > 0)
    density = np.maximum((1 - slack) * (rest - share), 0) + SAFE * slope
    density[flat >= 2 * slope] = 0
    growth = (np.ceil(density / d0 * 2**BITS) + 1).astype(np.int64)
    # Phi is continuous where a cell begins.
    begins = np.searchsorted(cell, np.arange(flat.size))
    level = -np.cumsum(np.diff(growth, axis=1, prepend=0) * begins, axis=1)
    constant = slope[:, 0] * (block.steps * 2**BITS / grid.step * (1 - SAFE))
    return Case(costs, cell, constant.astype(np.int64), growth, level)


def _before(
    grid: Grid,
    block: Block,
    starts: tuple[int, int],
    costs: IntArray,
    cells: tuple[IntArray, FloatArray],
    own: int,
) -> IntArray:
    """Return g_{k-1} at all grid points, in units, without part (8) of the proof.

    ``starts`` has the first and the last start of block k, ``costs`` is g_k. ``cells`` has the cell
    of each grid point, and the rows pi, alpha, beta and levy of all cells. ``own`` is the least
    duration of the blocks from k on, in units.
    """
    (low, high), points, d0 = starts, len(costs), float(grid.minorant.d0)
    cell, (price, alpha, beta, levy) = cells
    flat = alpha * block.share + price * block.work + levy
    case = _case(grid, block, (flat, beta * block.work), costs, cell)
    rows, scale = np.stack([flat, alpha, price]), 2**BITS / grid.step * (1 - SAFE)
    begin, values = np.arange(low, high + 1), np.full(high - low + 2, costs[-1])
    early = block.own >> BITS
    while early < points - low:
        free = max(grid.step * early - block.steps * d0, block.steps * block.work)
        wide = min(SHARE * free, max(free / WIDE, d0))
        width = int(min(max(1, wide / grid.step), points))
        late = early + WINDOWS * width
        grid.spend(limits.CALL + 20 * len(begin) + 8 * (len(alpha) + late // grid.width))
        # The least prices from the start of a block to its latest end.
        size = (late + 1) // grid.width + 2
        filtered = minimum_filter1d(rows, size, 1, mode="nearest", origin=-(size // 2))
        least = filtered[:, cell[begin]]
        more = least[1] * block.more_share + least[2] * block.more_work
        paid, fixed = np.minimum([block.steps * least[0] * scale, more * scale], PAYMENT)
        after = costs[np.minimum(begin + early, points - 1)] + paid.astype(np.int64)
        chosen = np.flatnonzero(after < np.maximum(values[:-1], values[1:]))
        ends, fees = np.full((2, len(chosen)), NEVER), fixed[chosen].astype(np.int64)
        grid.spend(lower_ends(case, begin[chosen], early, width, ends[0], ends[1]))
        values[chosen] = np.minimum(values[chosen], ends[0] + fees)
        values[chosen + 1] = np.minimum(values[chosen + 1], ends[1] + fees)
        early = late
    later = max((high << BITS) + own, int(costs[min(high + min(block.own >> BITS, 1), points - 1)]))
    # The least of each value and all later ones.
    found = np.pad(values[:-1], (low, points - high - 1), constant_values=later)
    return np.minimum.accumulate(found[::-1])[::-1]


@step
def _both_ends(case: Case, index: int, begin: int, first: int, until: int) -> tuple[int, int]:
    """Return the two ends of the grid step from ``begin`` on, for one lambda.

    The block ends between the grid points ``first`` and ``until``. See part (6) of the proof.
    """
    costs, cell, constant, growth, level = case
    least = NEVER
    for end in range(first, until + 1):
        c = cell[end]
        least = min(least, costs[end] - level[index, c] - end * growth[index, c])
    c = cell[begin]
    left = least + constant[index] + level[index, c] + begin * growth[index, c]
    return left, left + growth[index, c]


@njit
def lower_ends(
    case: Case, begin: IntArray, early: int, width: int, left: IntArray, right: IntArray
) -> int:
    """Lower ``left`` and ``right`` to the two ends of each grid step, by part (6) of the proof.

    The steps begin at the points ``begin``. ``early`` is the least duration in the first window,
    and ``width`` the length of a window. The search for lambda begins with that of the window
    before. Payments that do not depend on lambda are left out. Return the work done, in the time of
    numpy for one array entry, in which this loop visits about four points.
    """
    number, last = len(case.constant), len(case.costs) - 1
    entry, work = number - 1, len(begin) * WINDOWS * (width // 4 + 1)
    for x in range(len(begin)):
        index = entry
        for window in range(WINDOWS):
            first = begin[x] + early + window * width
            until = min(first + width + 1, last)
            one, other = _both_ends(case, index, begin[x], first, until)
            for turn in (-1, 1):
                while 0 <= index + turn < number:
                    work += width // 4 + 1
                    near = _both_ends(case, index + turn, begin[x], first, until)
                    if near[0] + near[1] <= one + other:
                        break
                    one, other, index = near[0], near[1], index + turn
            entry = index if window == 0 else entry
            left[x], right[x] = min(left[x], one), min(right[x], other)
    return work

"""Gibbs weights over starts, from memory prices per round, at any size.

`hindsight.bounds.cheapest_starts` defines the price P(t) of a start. The weights exp(-P(t) /
temperature), normalised over t, are the gradient of a smooth approximation of min P. They are a
fractional solution of the relaxation except for its memory rows.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.bounds.cheapest_starts import (
    BLOCK,
    PricedRounds,
    RequestClasses,
    block_floor,
    start_cost,
)
from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray

SPREAD = 18.0
"""Weights below exp(-18) of the largest are dropped: the rest of the mass moves together."""

vectorised = partial(njit, fastmath=("reassoc", "contract", "nnan", "nsz"))
"""Allow reordering of sums and minima: weights prove nothing, and are the same in every run."""


class StartWindows(NamedTuple):
    """Gibbs weights of each class, all of shape (classes,).

    Attributes
    ----------
    hints : int64 array
        A cheapest start.
    cheapest : float64 array
        Least priced cost.
    mass : float64 array
        Sum of the weights, the largest of which is 1.
    mean_starts : float64 array
        Mean start under the weights.
    """

    hints: IntArray
    cheapest: FloatArray
    mass: FloatArray
    mean_starts: FloatArray


@vectorised
def _price(
    prices: PricedRounds,
    request: tuple[int, int, int, int],
    begin: int,
    end: int,
    costs: FloatArray,
) -> float:
    """Write the priced costs of starts begin .. end - 1 to ``costs``; return the least."""
    sums, weighted, _, _ = prices
    a, s, o, w = request
    unit = prices.unit * w
    least = np.inf
    if unit == 1.0:
        # Compiled with a constant, so that results without weights stay bit-identical.
        for k in range(end - begin):
            t = begin + k
            cost = start_cost(sums, weighted, 1.0, a, s, o, t)
            costs[k] = cost
            least = min(least, cost)
        return least
    for k in range(end - begin):
        t = begin + k
        cost = start_cost(sums, weighted, unit, a, s, o, t)
        costs[k] = cost
        least = min(least, cost)
    return least


@vectorised
def _weigh(costs: FloatArray, cheapest: float, temperature: float) -> tuple[float, float]:
    """Turn costs into weights; return their sum, and the sum of weight times position."""
    # Compilers can vectorise (1 + x / 64 + ...)^64 but not exp.
    unit = -1 / (64 * temperature)
    total, moment = 0.0, 0.0
    for k in range(len(costs)):
        x = max((costs[k] - cheapest) * unit, -SPREAD / 64 - 1)
        root = 1 + x * (
            1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6 * (1 + x / 7)))))
        )
        root *= root
        root *= root
        root *= root
        root *= root
        root *= root
        root *= root
        weight = root if x >= -SPREAD / 64 else 0.0
        costs[k] = weight
        total += weight
        moment += weight * k
    return total, moment


@vectorised
def _hold(
    weights: FloatArray, begin: int, s: int, o: int, entering: FloatArray, running: FloatArray
) -> None:
    """Add the memory of requests that start from ``begin`` on, with a mass for each round."""
    count = len(weights)
    enter, leave = entering[begin + 1 :], entering[begin + 1 + o :]
    start, end = running[begin + 1 :], running[begin + 1 + o :]
    for k in range(count):
        enter[k] += s * weights[k]
    for k in range(count):
        leave[k] -= (s + o) * weights[k]
    for k in range(count):
        start[k] += weights[k]
    for k in range(count):
        end[k] -= weights[k]


class _Blocks(NamedTuple):
    """Blocks of starts of a class that may have weights.

    Attributes
    ----------
    costs : float64 array
        Priced costs, then weights, `BLOCK` places for each block.
    begins : int64 array
        First start of each block.
    leasts : float64 array
        Least cost of each block.
    """

    costs: FloatArray
    begins: IntArray
    leasts: FloatArray


@njit
def _price_blocks(
    prices: PricedRounds,
    request: tuple[int, int, int, int],
    end: int,
    where: int,
    reach: float,
    blocks: _Blocks,
    late: float,
) -> tuple[int, float, int]:
    """Price the blocks of starts before ``end`` that may have weights beside a cost of ``late``.

    Returns the number of blocks, the least cost, and a start that attains it.
    """
    sums, weighted_sums, minima, _ = prices
    a, s, o, w = request
    unit = prices.unit * w
    volume = s * o + o * (o + 1) // 2
    best = min(late, start_cost(sums, weighted_sums, unit, a, s, o, where))
    count, at = 0, a
    while at < end and unit * (at + o - a) <= best + reach:
        stop = min(end, (at // BLOCK + 1) * BLOCK)
        if unit * (at + o - a) + volume * block_floor(minima, at, stop, o) <= best + reach:
            costs = blocks.costs[count * BLOCK : count * BLOCK + stop - at]
            least = _price(prices, request, at, stop, costs)
            if least <= best + reach:
                blocks.begins[count], blocks.leasts[count] = at, least
                count += 1
                if least < best:
                    best = least
                    where = at + int(costs.argmin())
        at = stop
    return count, best, where


@partial(njit, makes_arrays=True)
def soft_starts(
    prices: PricedRounds,
    classes: RequestClasses,
    part: tuple[int, int],
    final: IntArray,
    temperature: float,
    memory: tuple[FloatArray, FloatArray],
    windows: StartWindows,
    late: FloatArray,
) -> None:
    """Compute the Gibbs weights of classes part[0] .. part[1] - 1, and their memory.

    A request may also never start, at the cost ``late`` of its class and without any memory.

    ``memory`` is (entering, running): memory in round r is the running sum to r of ``entering``
    plus that of the running sum of ``running``; this function adds to both. It also reads the hints
    of ``windows``.
    """
    a, s, o, w, counts, _ = classes
    hints, cheapest, mass, mean_starts = windows
    reach = SPREAD * temperature
    most = len(prices.sums) // BLOCK + 2
    blocks = _Blocks(np.empty(most * BLOCK), np.empty(most, np.int64), np.empty(most))
    kept, begins, leasts = blocks
    for i in range(part[0], part[1]):
        end = final[i] + 1
        where = min(max(hints[i], a[i]), end - 1)
        request = a[i], s[i], o[i], w[i]
        count, best, where = _price_blocks(prices, request, end, where, reach, blocks, late[i])
        # Blocks priced before the least cost was known may have no weights after all.
        total, moment = 0.0, 0.0
        for j in range(count):
            if leasts[j] <= best + reach:
                width = min(end, (begins[j] // BLOCK + 1) * BLOCK) - begins[j]
                of_block, shift = _weigh(kept[j * BLOCK : j * BLOCK + width], best, temperature)
                total += of_block
                moment += shift + of_block * begins[j]
        if late[i] <= best + reach:
            total += np.exp((best - late[i]) / temperature)
        for j in range(count):
            if leasts[j] <= best + reach:
                begin = begins[j]
                width = min(end, (begin // BLOCK + 1) * BLOCK) - begin
                weights = kept[j * BLOCK : j * BLOCK + width]
                weights *= counts[i] / total
                _hold(weights, begin, s[i], o[i], memory[0], memory[1])
        hints[i], cheapest[i], mass[i], mean_starts[i] = where, best, total, moment / total

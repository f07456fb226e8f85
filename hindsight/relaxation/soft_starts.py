"""Gibbs weights over starts, from memory prices per round, at any size.

What a request pays for its start is told in `hindsight.bounds.cheapest_starts`. The weights
exp(-P(t) / temperature), normalised over t, are the gradient of a smooth stand-in for min P and a
fractional solution of the relaxation but for its memory rows.
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
"""Weights below exp(-18) of the largest are left out: the rest of the mass moves together."""

vectorised = partial(njit, fastmath=("reassoc", "contract", "nnan", "nsz"))
"""Sums and minima in any order: weights are never evidence, and are the same in every run."""


class StartWindows(NamedTuple):
    """The Gibbs weights of each class, all of shape (classes,).

    Attributes
    ----------
    first, last : int64 array
        Starts with weights are among first .. last - 1, and these two have some.
    hints : int64 array
        A cheapest start.
    cheapest : float64 array
        Least priced cost.
    mass : float64 array
        Sum of the weights, the largest of which is 1.
    mean_starts : float64 array
        Under the weights.
    """

    first: IntArray
    last: IntArray
    hints: IntArray
    cheapest: FloatArray
    mass: FloatArray
    mean_starts: FloatArray


@vectorised
def _price(
    prices: PricedRounds, a: int, s: int, o: int, begin: int, end: int, costs: FloatArray
) -> float:
    """Write the priced costs of begin .. end - 1 to ``costs`` from 0 on; returns the least."""
    sums, weighted, _, _ = prices
    least = np.inf
    for k in range(end - begin):
        t = begin + k
        cost = start_cost(sums, weighted, 1.0, a, s, o, t)
        costs[k] = cost
        least = min(least, cost)
    return least


@vectorised
def _weigh(costs: FloatArray, cheapest: float, temperature: float) -> tuple[float, float]:
    """Turn costs into weights; returns their sum, and that of weight times position."""
    # Of (1 + x / 64 + ...)^64, which compilers make vector code of, unlike of exp.
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
    """Add the memory of requests that start from ``begin`` on, so many each round."""
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
    """Blocks of starts of a class that may hold weights.

    Attributes
    ----------
    costs : float64 array
        Priced costs, then weights, `BLOCK` places for each block.
    begins : int64 array
        Where each begins.
    leasts : float64 array
        Its least cost.
    """

    costs: FloatArray
    begins: IntArray
    leasts: FloatArray


@njit
def _price_blocks(
    prices: PricedRounds,
    request: tuple[int, int, int],
    end: int,
    where: int,
    reach: float,
    blocks: _Blocks,
) -> tuple[int, float, int]:
    """Price the blocks of starts before ``end`` that may hold weights.

    Returns how many blocks there are, the least cost, and a start that has it.
    """
    sums, weighted_sums, minima, _ = prices
    a, s, o = request
    volume = s * o + o * (o + 1) // 2
    best = start_cost(sums, weighted_sums, 1.0, a, s, o, where)
    count, at = 0, a
    while at < end and at + o - a <= best + reach:
        stop = min(end, (at // BLOCK + 1) * BLOCK)
        if at + o - a + volume * block_floor(minima, at, stop, o) <= best + reach:
            costs = blocks.costs[count * BLOCK : count * BLOCK + stop - at]
            least = _price(prices, a, s, o, at, stop, costs)
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
) -> None:
    """Find the Gibbs weights of classes part[0] .. part[1] - 1, and their memory.

    ``memory`` is (entering, running): memory in round r is the running sum to r of ``entering``
    plus that of the running sum of ``running``, to which this adds. Of ``windows`` the hints are
    read too.
    """
    a, s, o, counts, _ = classes
    first, last, hints, cheapest, mass, mean_starts = windows
    reach = SPREAD * temperature
    most = len(prices.sums) // BLOCK + 2
    blocks = _Blocks(np.empty(most * BLOCK), np.empty(most, np.int64), np.empty(most))
    kept, begins, leasts = blocks
    for i in range(part[0], part[1]):
        end = final[i] + 1
        where = min(max(hints[i], a[i]), end - 1)
        count, best, where = _price_blocks(prices, (a[i], s[i], o[i]), end, where, reach, blocks)
        # Blocks priced before the least cost was known may hold no weights after all.
        total, moment = 0.0, 0.0
        for j in range(count):
            if leasts[j] <= best + reach:
                width = min(end, (begins[j] // BLOCK + 1) * BLOCK) - begins[j]
                of_block, shift = _weigh(kept[j * BLOCK : j * BLOCK + width], best, temperature)
                total += of_block
                moment += shift + of_block * begins[j]
        lo, hi = end, 0
        for j in range(count):
            if leasts[j] <= best + reach:
                begin = begins[j]
                width = min(end, (begin // BLOCK + 1) * BLOCK) - begin
                weights = kept[j * BLOCK : j * BLOCK + width]
                used = np.flatnonzero(weights)
                if len(used):
                    lo, hi = min(lo, begin + used[0]), begin + used[-1] + 1
                weights *= counts[i] / total
                _hold(weights, begin, s[i], o[i], memory[0], memory[1])
        hints[i], cheapest[i], mass[i] = where, best, total
        first[i], last[i], mean_starts[i] = lo, hi, moment / total


@partial(njit, makes_arrays=True)
def add_weights(
    prices: PricedRounds,
    classes: RequestClasses,
    part: tuple[int, int],
    temperature: float,
    windows: StartWindows,
    share: float,
    origins: IntArray,
    masses: FloatArray,
) -> None:
    """Add the weights of classes part[0] .. part[1] - 1 to ``masses``, one by one.

    Those of a class sum to ``share`` times its count; start 0 of it has entry origins[k], k from 0
    for the first of these classes.
    """
    a, s, o, counts, _ = classes
    first, last, _, cheapest, mass, _ = windows
    for i in range(part[0], part[1]):
        costs = np.empty(last[i] - first[i])
        _price(prices, a[i], s[i], o[i], first[i], last[i], costs)
        _weigh(costs, cheapest[i], temperature)
        weight, origin = share * counts[i] / mass[i], origins[i - part[0]] + first[i]
        for k in range(len(costs)):
            masses[origin + k] += weight * costs[k]

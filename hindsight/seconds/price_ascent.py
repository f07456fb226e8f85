"""Prices for `round_length_prices`, by ascent on an approximation of the bound.

Prices prove nothing by themselves: whatever comes out here is a bound only by `priced_bound`. So
the values V_i are approximated freely: steps of a request run in blocks of about fifteen alike,
lengths of rounds are those of a few classes, time has a coarse grid. The recursion's adjoint is a
subgradient: seconds of each cell a request pays for, by memory and by work.

Time beyond the horizon T has no price, here as in the bound: a last cell that went on for ever
would make late requests look dear at no cost to the integral.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hindsight.runtime.clock import Clock
from hindsight.runtime.compilation import njit
from instances import Workload
from instances.arrays import FloatArray, IntArray

from .machine_bounds import SecondsBound, machine_bounds, mean_busy_prices
from .minorants import AffineMinorant
from .round_length_prices import RoundLengthPrices, priced_bound, round_down

BLOCK = 15
"""Steps of a request that run alike; with many more, long requests come out too dear."""

BLOCKS = 40
"""Blocks of a request at most."""

CLASSES = np.concatenate([np.geomspace(0.04, 2, 17), [2.6, 3.6, 6, 12]])
"""Work a round offers, in units of d0; the longest possible round comes on top."""


@njit
def _approximate(
    a: FloatArray,
    s: IntArray,
    o: IntArray,
    M: float,
    d0: float,
    d1: float,
    d2: float,
    h: float,
    lengths: FloatArray,
    price: FloatArray,
    gamma: FloatArray,
    row: IntArray,
    block: int,
    blocks: int,
    window: FloatArray,
    values: FloatArray,
    by_price: FloatArray,
    by_gamma: FloatArray,
) -> None:
    """Fill ``values``; add to ``by_price`` and ``by_gamma`` the derivatives of their sum."""
    cells = price.size
    widest = int(window.max() / h) + 3
    least = np.empty((blocks + 2, widest + 1))
    choice = np.empty((blocks + 1, widest + 1), np.int64)
    flow = np.empty((blocks + 2, widest + 1))
    size = np.empty(blocks + 1)
    shared = np.empty(blocks + 1)
    work = np.empty(blocks + 1)
    own = np.empty(blocks + 2)
    for i in range(a.size):
        begin = int(a[i] / h)
        width = int(window[i] / h) + 2
        size[0] = 1.0
        work[0] = d1 * s[i] + d2 * (s[i] + 1.0)
        shared[0] = work[0] + d0 * (s[i] + 1.0) / M
        left = o[i] - 1
        parts = min(left, max(6, min(blocks, left // block)))
        done = 1
        for g in range(parts):
            steps = left * (g + 1) // parts - left * g // parts
            kv = s[i] + done + (steps + 1) * 0.5
            size[g + 1] = steps
            work[g + 1] = d1 + d2 * kv
            shared[g + 1] = work[g + 1] + d0 * kv / M
            done += steps
        count = parts + 1
        own[count] = 0.0
        for g in range(count - 1, -1, -1):
            own[g] = own[g + 1] + size[g] * (d0 + work[g])
        for m in range(width + 1):
            least[count, m] = (begin + m) * h
        for g in range(count - 1, -1, -1):
            shortest = d0 + work[g]
            best = 1e300
            for m in range(width, -1, -1):
                now = (begin + m) * h
                choice[g, m] = -1
                for j in range(lengths.size):
                    if j + 1 < lengths.size and lengths[j + 1] <= shortest:
                        continue
                    length = max(lengths[j], shortest)
                    lasts = length * size[g]
                    cell = min(int((now + 0.5 * lasts) / h), cells - 1)
                    part = gamma[row[cell]]
                    free = work[g] / (length - d0) if work[g] > 0.0 else 0.0
                    cost = price[cell] * lasts * (part * shared[g] / length + (1.0 - part) * free)
                    if cost >= best:
                        continue
                    place = m + lasts / h
                    k = int(place)
                    if k >= width:
                        cost += now + lasts + own[g + 1]
                    else:
                        f = place - k
                        cost += (1.0 - f) * least[g + 1, k] + f * least[g + 1, k + 1]
                    if cost < best:
                        best = cost
                        choice[g, m] = j
                least[g, m] = best
        f = a[i] / h - begin
        values[i] = (1.0 - f) * least[0, 0] + f * least[0, 1] - a[i]
        flow[: count + 1, : width + 1] = 0.0
        flow[0, 0] = 1.0 - f
        flow[0, 1] = f
        for g in range(count):
            shortest = d0 + work[g]
            for m in range(width + 1):
                r = flow[g, m]
                if r < 1e-9:
                    continue
                j = choice[g, m]
                if j < 0:
                    if m < width:
                        flow[g, m + 1] += r
                    continue
                length = max(lengths[j], shortest)
                lasts = length * size[g]
                cell = min(int(((begin + m) * h + 0.5 * lasts) / h), cells - 1)
                part = gamma[row[cell]]
                free = work[g] / (length - d0) if work[g] > 0.0 else 0.0
                by_price[cell] += r * lasts * (part * shared[g] / length + (1.0 - part) * free)
                by_gamma[row[cell]] += r * lasts * price[cell] * (shared[g] / length - free)
                place = m + lasts / h
                k = int(place)
                if k < width:
                    flow[g + 1, k] += r * (1.0 - (place - k))
                    flow[g + 1, k + 1] += r * (place - k)


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where an ascent ended.

    Attributes
    ----------
    prices : RoundLengthPrices
        For `priced_bound`, on a grid a power of two.
    values : float64 array
        Approximations of V_i, seconds, shape (n,): for its ``allowance``.
    estimate : float
        The bound on the mean latency they would give. Not certified.
    """

    prices: RoundLengthPrices
    values: FloatArray
    estimate: float


def ascend(
    workload: Workload,
    minorant: AffineMinorant,
    *,
    horizon: float,
    step: float,
    cell: float,
    iterations: int = 100,
    time_limit: float = math.inf,
) -> Ascent:
    """Prices by Adam on log pi and logit gamma, from `mean_busy_prices`.

    Parameters
    ----------
    workload, minorant : Workload, AffineMinorant
        As `priced_bound` takes them.
    horizon : float
        Seconds from 0 on that have prices; beyond the end of a good schedule.
    step : float
        Grid of the prices returned, seconds, a power of two.
    cell : float
        Seconds with one price; gamma changes every eight.
    iterations : int, default 100
        Evaluations at most.
    time_limit : float, default inf
        Seconds after which no evaluation is begun.
    """
    clock = Clock(time_limit)
    d0, d1, d2 = map(float, minorant)
    M = float(workload.memory_limit)
    n = len(workload)
    a = workload.arrival_times
    s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
    cells = math.ceil(horizon / cell) + 1
    row = np.arange(cells, dtype=np.int64) // 8
    longest = d0 + (d1 + d2) * M
    lengths = np.unique(np.minimum(d0 * (1 + np.append(CLASSES, np.inf)), longest))
    times, worth = mean_busy_prices(workload, minorant)
    log_price = np.log(0.6 * np.interp((np.arange(cells) + 0.5) * cell, times, worth) + 0.01)
    logit = np.zeros(int(row[-1]) + 1)
    momentum = [np.zeros(cells), np.zeros_like(logit)]
    square = [np.zeros(cells), np.zeros_like(logit)]
    own = o * d0 + d1 * (s + o) + d2 * o * (s + o)
    window = horizon + own
    best: tuple[float, FloatArray, FloatArray, FloatArray] | None = None
    for turn in range(iterations):
        if best is not None and clock.must_stop():
            break
        price = np.exp(log_price)
        price[-1] = 0.0
        gamma = 1 / (1 + np.exp(-logit))
        values, by_price, by_gamma = np.empty(n), np.zeros(cells), np.zeros(logit.size)
        _approximate(
            a, s, o, M, d0, d1, d2, cell, lengths, price, gamma, row, BLOCK, BLOCKS, window,
            values, by_price, by_gamma,
        )  # fmt: skip
        estimate = float(values.sum() - cell * price.sum()) / n
        if best is None or estimate > best[0]:
            best = estimate, price, gamma, values
        window = np.minimum(horizon + own, values * 1.2 + 3 * own)
        rate = 0.08 / (1 + 3 * turn / iterations) ** 2
        gradients = ((by_price - cell) * price / n, by_gamma * gamma * (1 - gamma) / n)
        moves = []
        for index, gradient in enumerate(gradients):
            momentum[index] = 0.8 * momentum[index] + 0.2 * gradient
            square[index] = 0.98 * square[index] + 0.02 * gradient**2
            size = np.sqrt(square[index] / (1 - 0.98 ** (turn + 1))) + 1e-9
            moves.append(rate * momentum[index] / (1 - 0.8 ** (turn + 1)) / size)
        log_price = np.maximum(log_price + moves[0], -7.0)
        logit = np.clip(logit + 3 * moves[1], -7.0, 7.0)
    assert best is not None
    estimate, price, gamma, values = best
    middles = (np.arange(math.ceil(horizon / step)) + 0.5) * step
    where = np.minimum((middles / cell).astype(np.int64), cells - 1)
    prices = RoundLengthPrices(step, round_down(price[where] * step), row[where], gamma)
    return Ascent(prices, values, estimate)


def best_bound(
    workload: Workload,
    batch_time: object,
    *,
    horizon: float,
    step: float | None = None,
    cell: float = 0.5,
    iterations: int = 100,
) -> SecondsBound:
    """The largest certified lower bound on the total latency in seconds; its name says which.

    The three of `machine_bounds`, in fractions, and `priced_bound` with ascended prices, in floats
    with outward rounding, for the minorant with which the best of the three was got.

    Parameters
    ----------
    workload : Workload
        Requests at their arrival times.
    batch_time : BatchTime
        One that `affine_minorants` knows.
    horizon : float
        Seconds that may have a price: the end of a good schedule and some more.
    step : float or None, default None
        Grid of the evaluation, a power of two; None takes about an eighth of d0.
    cell : float, default 0.5
        Seconds with one price.
    iterations : int, default 100
        Of the ascent.
    """
    best = max(machine_bounds(workload, batch_time).values(), key=lambda bound: bound.total)
    minorant = best.minorant
    if step is None:
        step = 2.0 ** math.floor(math.log2(float(minorant.d0 / 8)))
    found = ascend(workload, minorant, horizon=horizon, step=step, cell=cell, iterations=iterations)
    allowance = found.values * 1.02 + 4 * float(minorant.d0)
    priced, _ = priced_bound(workload, minorant, found.prices, allowance)
    return max(best, priced, key=lambda bound: bound.total)

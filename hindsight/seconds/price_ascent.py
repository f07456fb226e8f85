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
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from hindsight.runtime.adam import Adam
from hindsight.runtime.compilation import njit
from instances import SecondsSchedule
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed

from .machine_bounds import mean_busy_prices
from .minorants import AffineMinorant
from .round_length_prices import RoundLengthPrices

BLOCK = 15
"""Steps of a request that run alike; with many more, long requests come out too dear."""

BLOCKS = 40
"""Blocks of a request at most."""

SLICES = 8
"""Parts of the requests that threads share; fixed, so that sums do not depend on their number."""

DENSITY_UNIT = 2.0**-12
"""Prices of a second are multiples of it: they are then the same on every grid."""

ROW_CELLS = 8
"""Cells with one gamma."""

BUSY_SHARE, PRESENT_SHARE = 0.6, 0.35
"""Of the machine's worth and of the requests present, where prices start."""

FULL = 0.8
"""Of the memory: a round that holds more starts with a part of its price shared by memory."""

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


class PriceAscent:
    """Prices by Adam on log pi and logit gamma.

    They start where `mean_busy_prices` or the requests present in a schedule put them: what delays
    a moment delays all of those.

    Parameters
    ----------
    schedule : SecondsSchedule
        A good one of the workload.
    minorant : AffineMinorant
        As `priced_bound` takes it.
    horizon : float
        Seconds from 0 on that have prices; beyond the end of the schedule.
    cell : float
        Seconds with one price, a power of two.
    iterations : int, default 150
        After which steps are smallest.

    Attributes
    ----------
    cell : float
        As given.
    estimate : float
        The bound on the mean latency that the best prices would give. Not certified.
    horizon : float
        As given.
    values : float64 array
        Approximations of V_i, seconds, shape (n,): for the allowance of `priced_bound`.
    turns : int
        Evaluations so far.
    """

    def __init__(
        self,
        schedule: SecondsSchedule,
        minorant: AffineMinorant,
        *,
        horizon: float,
        cell: float,
        iterations: int = 150,
    ) -> None:
        d0, d1, d2 = map(float, minorant)
        workload = relaxed(schedule.workload)
        M = float(workload.memory_limit)
        n = len(workload)
        a = workload.arrival_times
        s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
        cells = math.ceil(horizon / cell) + 1
        self._row = np.arange(cells, dtype=np.int64) // ROW_CELLS
        longest = d0 + (d1 + d2) * M
        self._lengths = np.unique(np.minimum(d0 * (1 + np.append(CLASSES, np.inf)), longest))
        middles = (np.arange(cells) + 0.5) * cell
        times, worth = mean_busy_prices(workload, minorant)
        ends = np.sort(schedule.completion_times)
        present = np.searchsorted(a, middles) - np.searchsorted(ends, middles)
        start = np.maximum(BUSY_SHARE * np.interp(middles, times, worth), PRESENT_SHARE * present)
        rows = int(self._row[-1]) + 1
        running = np.searchsorted(schedule.round_starts, middles[::ROW_CELLS][:rows]) - 1
        full = schedule.memory_profile()[np.maximum(running, 0)] > FULL * M
        self._log_price, self._logit = np.log(start + 0.1), np.where(full, 0.0, -3.0)
        settings: dict[str, Any] = {"gains": (0.2, 0.02), "damping": 1e-9, "lowest": -7.0}
        self._price_steps = Adam(self._log_price, **settings)
        self._logit_steps = Adam(self._logit, **settings, highest=7.0)
        self._model = M, d0, d1, d2, cell
        self._own = o * d0 + d1 * (s + o) + d2 * o * (s + o)
        self._latest = np.maximum(horizon - a, 0.0) + 2 * self._own
        self._window = self._latest
        # Dealt out, so that slices are alike.
        self._slices = [np.arange(n)[part::SLICES] for part in range(min(n, SLICES))]
        self._requests = [(a[one], s[one], o[one]) for one in self._slices]
        self.cell = cell
        self.horizon = horizon
        self._iterations = iterations
        self._best: tuple[FloatArray, FloatArray] = (np.exp(self._log_price), np.ones(1))
        self.values = np.zeros(n)
        self.estimate = -math.inf
        self.turns = 0

    def climb(self, turns: int, should_stop: Callable[[], bool], pool: Executor) -> None:
        """``turns`` evaluations, or fewer where told to stop; at least one in all."""
        for _ in range(turns):
            if self.turns and should_stop():
                return
            self._turn(pool)

    def prices(self, step: float) -> RoundLengthPrices:
        """The best prices so far on a grid of ``step`` seconds, a power of two up to the cell.

        They are the same function of time for every step.
        """
        density, gamma = self._best
        count = math.ceil(self.horizon / self.cell) * round(self.cell / step)
        where = np.arange(count) // round(self.cell / step)
        rounded = np.floor(density / DENSITY_UNIT) * DENSITY_UNIT
        return RoundLengthPrices(step, rounded[where] * step, self._row[where], gamma)

    def _turn(self, pool: Executor) -> None:
        cell = self.cell
        price = np.exp(self._log_price)
        price[-1] = 0.0
        gamma = 1 / (1 + np.exp(-self._logit))
        n = len(self.values)
        values = np.empty(n)
        by_price, by_gamma = np.zeros_like(price), np.zeros_like(gamma)

        def evaluate(part: int) -> tuple[FloatArray, FloatArray, FloatArray]:
            own = np.empty(len(self._slices[part])), np.zeros_like(price), np.zeros_like(gamma)
            _approximate(
                *self._requests[part], *self._model, self._lengths, price, gamma, self._row,
                BLOCK, BLOCKS, self._window[self._slices[part]], *own,
            )  # fmt: skip
            return own

        parts = pool.map(evaluate, range(len(self._slices)))
        for chosen, (own, paid, moved) in zip(self._slices, parts, strict=True):
            values[chosen] = own
            by_price += paid
            by_gamma += moved
        estimate = float(values.sum() - cell * price.sum()) / n
        if estimate > self.estimate:
            self.estimate, self._best, self.values = estimate, (price, gamma), values
        self._window = np.minimum(self._latest, values * 1.2 + 3 * self._own)
        done = min(1.0, self.turns / self._iterations)
        rate = 0.08 / (1 + 3 * done) ** 2
        self.turns += 1
        self._price_steps.step((by_price - cell) * price / n, rate)
        self._logit_steps.step(by_gamma * gamma * (1 - gamma) / n, 3 * rate)

"""The least latency and payments of one request under prices of machine time, by trying rounds.

Rounds begin at multiples of a step and last multiples of it, which a request may always choose:
what is found is possible, and no value of a request may be above it. Chunks of prompts are not
tried.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hindsight.prices.minorants import AffineMinorant
from hindsight.prices.round_lengths import PricedValues, RoundLengthPrices
from instances import Workload
from instances.arrays import FloatArray


def drawn_minorant(rng: np.random.Generator) -> AffineMinorant:
    """A quarter of a second a round, and a little or nothing a token."""
    d1, d2 = (Fraction(int(rng.integers(0, 3)), unit) for unit in (64, 256))
    return AffineMinorant(Fraction(1, 4), d1, d2)


def priced_values(
    workload: Workload,
    minorant: AffineMinorant,
    prices: RoundLengthPrices,
    step: float,
    size: int = 32,
    spread: float = 1.2,
) -> tuple[Fraction, FloatArray]:
    """Return the bound on total latency, and the values of all requests that make it."""
    priced = PricedValues(workload, minorant, prices, step, size, spread)
    horizon = prices.price.size * prices.cell
    allowance = np.maximum(0.0, horizon - workload.arrival_times) + priced.own + step
    values = priced.of(np.arange(len(workload)), allowance)
    return priced.total(values), values


def least_cost(
    workload: Workload,
    minorant: AffineMinorant,
    prices: RoundLengthPrices,
    step: float,
    deadlines: tuple[float, float] | None = None,
) -> float:
    """Return the least C - a and payments of the only request of a workload.

    With deadlines of the last and first token on the clock, C - a counts 0, or 1 if it is late.
    """
    (arrival,), M = workload.arrival_times.tolist(), workload.memory_limit
    s, o = int(workload.prompt_lengths[0]), int(workload.output_lengths[0])
    d0, d1, d2 = map(float, minorant)
    per_cell = round(prices.cell / step)
    alpha = np.repeat(prices.gamma * prices.price, per_cell) * step
    beta = np.repeat((1 - prices.gamma) * prices.price, per_cell) * step
    longest = d0 + d1 * s + d2 * (s + o)
    points = len(alpha) + (o + 1) * (int(longest / step) + 2)
    paid_by_memory, paid_by_work = np.zeros((2, points + 1))
    paid_by_memory[1 : len(alpha) + 1] = np.cumsum(alpha)
    paid_by_work[1 : len(beta) + 1] = np.cumsum(beta)
    paid_by_memory[len(alpha) + 1 :] = paid_by_memory[len(alpha)]
    paid_by_work[len(beta) + 1 :] = paid_by_work[len(beta)]
    ends = np.arange(points + 1) * step
    value = ends if deadlines is None else (ends > deadlines[0]).astype(float)
    for k in range(o, 0, -1):
        if k == 1 and deadlines is not None:
            value = np.maximum(value, ends > deadlines[1])
        work = d1 * (s if k == 1 else 1) + d2 * (s + k)
        share = d0 * (s + k) / M + work
        best = np.full(points + 1, np.inf)
        shortest = int(np.ceil((d0 + work) / step - 1e-12))
        for count in range(shortest, shortest + int(40 * d0 / step)):
            length = count * step
            slow = work / (length - d0) if work > 0 else 0.0
            payment = (share / length) * (paid_by_memory[count:] - paid_by_memory[:-count]) + (
                slow * (paid_by_work[count:] - paid_by_work[:-count])
            )
            best[:-count] = np.minimum(best[:-count], payment + value[count:])
        value = np.minimum.accumulate(best[::-1])[::-1]
    begin = int(np.ceil(arrival / step))
    return float(value[begin] - (arrival if deadlines is None else 0.0))

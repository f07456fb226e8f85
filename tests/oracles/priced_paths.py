"""Least cost of a request under prices of machine time, over paths on a fine time grid.

A path runs the steps of the request in disjoint rounds, none shorter than the minorant, with the
whole prompt in the first one. The value of the request is at most the cost of each path, as the
statement of `hindsight.prices.round_lengths` says. Costs are floats.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np


class Request(NamedTuple):
    """One request, the machine, and the prices pi, alpha, beta and levy of all cells, by row."""

    arrival: float
    prompt: int
    output: int
    memory: int
    minorant: tuple[float, ...]
    cell: float
    prices: Any


def least_cost(
    one: Request, step: float, until: float, end: float = math.inf, first_token: float = math.inf
) -> float:
    """Return the least latency plus payments, or what an attempt to be on time costs, at most 1.

    Rounds begin and end at multiples of ``step`` after the arrival, the last ``until`` seconds
    after it.
    """
    d0, d1, d2, least, square = one.minorant
    times = np.arange(round(until / step) + 1) * step
    edges = np.arange(one.prices.shape[1] + 1) * one.cell
    sums = np.pad(np.cumsum(one.prices, axis=1), ((0, 0), (1, 0))) * one.cell
    # Integrals of the prices up to each time.
    price, alpha, beta, levy = (np.interp(one.arrival + times, edges, row) for row in sums)
    is_late = end < math.inf
    cost = np.where(one.arrival + times > end, 1.0, 0.0) if is_late else times.copy()
    for k in range(one.output, 0, -1):
        held, tokens = one.prompt + k, one.prompt if k == 1 else 1
        if k == 1:
            cost = np.where(one.arrival + times > first_token, np.maximum(cost, 1.0), cost)
        own = d1 * tokens + (square * tokens**2 if k == 1 else 0)
        work = own + d2 * held
        paid = alpha * (d0 * held / one.memory) + (price - beta) * work + levy
        before = np.full(len(times), math.inf)
        shortest = max(d0 + own, least) + d2 * held
        for lasts in range(math.ceil(shortest / step - 1e-9), len(times)):
            seconds, count = lasts * step, len(times) - lasts
            total = (paid[lasts:] - paid[:count]) / seconds + cost[lasts:]
            if work:
                total += work * (beta[lasts:] - beta[:count]) / (seconds - d0)
            before[:count] = np.minimum(before[:count], total)
        cost = np.minimum.accumulate(before[::-1])[::-1]
    return float(min(cost[0], 1.0) if is_late else cost[0])

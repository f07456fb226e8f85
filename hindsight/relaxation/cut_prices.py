"""Lower bounds from prices of memory and of cuts, in exact arithmetic.

Take prices lambda_r >= 0 of a token in round r, and y_k >= 0 of the cuts' rows, which say that
sum c_k(i, t) x[i, t] <= b_k. Relaxing the memory rows and these gives

    L = sum_i min_{t >= a_i} [ w_i (t + o_i - a_i) + sum_{r=t+1}^{t+o_i} lambda_r (s_i + r - t)
                               + sum_k y_k c_k(i, t) ]  -  M sum_r lambda_r  -  sum_k y_k b_k.

Take an optimal schedule. Its starts make the sum of the brackets at least that of the minima, and
the brackets are its total latency and what it pays for memory and rows. For memory it pays
M sum lambda at most, as it is feasible, and for the rows sum y_k b_k at most, *if* it satisfies
them. So L is at most the optimum as far as the cuts hold, whatever the prices are. It is over every
start, so no horizon enters, and a rational number, which may be rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from hindsight.bounds.memory_prices import PricedCosts
from hindsight.extensions.cuts import Row
from hindsight.outcomes.proofs import MemoryPrices
from instances import Instance


def conditional_value(
    instance: Instance, prices: MemoryPrices, rows: Sequence[Row], row_prices: Sequence[float]
) -> Fraction:
    """Evaluate L of this module.

    Parameters
    ----------
    instance : Instance
        The problem.
    prices : MemoryPrices
        Price of a token in each round.
    rows : Sequence[Row]
        Rows of the cuts.
    row_prices : Sequence[float]
        Price of each row, rounded to multiples of the memory prices' denominator, at least 0.
    """
    unit = prices.denominator
    total = Fraction(-instance.memory_limit * sum(prices.numerators.tolist()))
    charged: list[dict[int, Fraction]] = [{} for _ in instance]
    for (coefficients, limit), row_price in zip(rows, row_prices, strict=True):
        price = round(row_price * unit) if row_price > 0 and math.isfinite(row_price) else 0
        if price:
            total -= price * Fraction(limit)
            for (i, t), coefficient in coefficients.items():
                charged[i][t] = charged[i].get(t, Fraction(0)) + price * Fraction(coefficient)
    costs = PricedCosts(instance, prices)
    for index, more in enumerate(charged):
        first, priced = costs.of(index)
        cost_of = dict(enumerate(priced.tolist(), first))
        last = first + len(priced) - 1
        # Past the last price a start costs w_i more per round: the first free one is enough.
        for start in range(last + 1, max([last, *more]) + 2):
            cost_of[start] = cost_of[last] + instance[index].weight * unit * (start - last)
        total += min(cost + more.get(start, 0) for start, cost in cost_of.items())
    return total / unit

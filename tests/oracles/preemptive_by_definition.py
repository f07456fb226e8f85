"""The bound of prices of memory on schedules that may stop requests, from the definitions.

Plain loops for tiny instances; no code is shared with the package. Rows are (a, s, o).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

Rows = Sequence[Sequence[int]]
Prices = Mapping[tuple[int, int], Fraction]
"""q_r(m) by (r, m); what is missing is 0."""


def bound_of_prices(rows: Rows, limit: int, prices: Prices, linear: bool) -> int:
    """sum_i V_i - sum_r K_r, rounded up, by trying all rounds and all sets."""
    T = max((r for r, _ in prices), default=0)
    total = Fraction(0)
    for a, s, o in rows:
        total += min(
            chosen[-1]
            - a
            + sum(
                (prices.get((r, s + k), Fraction(0)) for k, r in enumerate(chosen, 1)), Fraction(0)
            )
            for chosen in combinations(range(a + 1, max(a, T) + o + 1), o)
        )
    for r in range(1, T + 1):
        if linear:
            total -= limit * prices.get((r, 1), Fraction(0))
            continue
        choices = [[0, *range(1, min(o, max(0, r - a)) + 1)] for a, _, o in rows]
        total -= max(
            sum((prices.get((r, m), Fraction(0)) for m in held), Fraction(0))
            for held in (
                [s + k for k, (_, s, _) in zip(levels, rows, strict=True) if k]
                for levels in product(*choices)
            )
            if sum(held) <= limit
        )
    return math.ceil(total)

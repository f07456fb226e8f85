"""Schedules that may stop requests, their optimum and the bound of prices, from the definitions.

Plain loops for tiny instances; no code is shared with the package. Rows are (a, s, o).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

from enumeration import Problem, Request, least_total_latency

Rows = Sequence[Sequence[int]]
Prices = Mapping[tuple[int, int], Fraction]
"""q_r(m) by (r, m); what is missing is 0."""


def preemptive_optimum(rows: Rows, limit: int) -> int:
    """The least total over all sets of requests that may run in each round."""
    requests = tuple(Request(*row) for row in rows)
    return int(least_total_latency(Problem(requests, limit, preemption="keep")))


def rounds_of(stretches: Sequence[Sequence[Sequence[int]]]) -> list[list[int]]:
    """Every round of every request."""
    return [[r for first, last in own for r in range(first, last + 1)] for own in stretches]


def is_feasible_in_rounds(rows: Rows, limit: int, rounds: Sequence[Sequence[int]]) -> bool:
    """Whether each request runs o times after its arrival, and no round holds more than M."""
    for (a, _, o), own in zip(rows, rounds, strict=True):
        if len(own) != o or list(own) != sorted(set(own)) or own[0] <= a:
            return False
    return all(
        sum(s + 1 + own.index(r) for (_, s, _), own in zip(rows, rounds, strict=True) if r in own)
        <= limit
        for r in {r for own in rounds for r in own}
    )


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

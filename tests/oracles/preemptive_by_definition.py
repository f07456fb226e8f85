"""Schedules that may stop requests, their optimum and the bound of prices, from the definitions.

Plain loops for tiny instances; no code is shared with the package. Rows are (a, s, o).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product

Rows = Sequence[Sequence[int]]
Prices = Mapping[tuple[int, int], Fraction]
"""q_r(m) by (r, m); what is missing is 0."""


def preemptive_optimum(rows: Rows, limit: int) -> int:
    """Best-first over rounds (A*): the least total over all sets of requests that may run.

    A state is how many tokens each request has produced; of identical requests, which did so makes
    no difference. The cost of going on is at least `_least_to_go`, which is all that is cut off.
    """
    rows = sorted((a, s, o) for a, s, o in rows)
    done = tuple(o for _, _, o in rows)
    start = tuple(0 for _ in rows)
    spent = {(0, start): 0}
    queue = [(_least_to_go(rows, limit, 0, start), 0, 0, start)]
    while queue:
        _, now, cost, state = heapq.heappop(queue)
        if cost > spent[now, state]:
            continue
        if state == done:
            return cost
        # Each round costs everyone who has arrived and is not done.
        may_run = [p < o and a <= now for p, (a, _, o) in zip(state, rows, strict=True)]
        cost += sum(may_run)
        for runs in product(*[(0, 1) if may else (0,) for may in may_run]):
            produced = [p + go for p, go in zip(state, runs, strict=True)]
            tokens = sum(s + p for go, p, (_, s, _) in zip(runs, produced, rows, strict=True) if go)
            after = tuple(p for _, p in sorted(zip(rows, produced, strict=True)))
            if tokens <= limit and cost < spent.get((now + 1, after), math.inf):
                spent[now + 1, after] = cost
                least = cost + _least_to_go(rows, limit, now + 1, after)
                heapq.heappush(queue, (least, now + 1, cost, after))
    raise AssertionError("nothing serves this")


def _least_to_go(rows: Rows, limit: int, now: int, state: Sequence[int]) -> int:
    """Rounds after ``now`` in which requests are there and not done, at least, summed over them.

    The k-th completion is no sooner than the k-th smallest end of a request on its own, and no
    sooner than rounds of M tokens hold the k smallest amounts of tokens still to be held.
    """
    left = [(a, s, o, p) for (a, s, o), p in zip(rows, state, strict=True) if p < o]
    ends = sorted(max(now, a) + o - p for a, _, o, p in left)
    amounts = sorted(sum(range(s + p + 1, s + o + 1)) for _, s, o, p in left)
    total, held = -sum(max(now, a) for a, _, _, _ in left), 0
    for end, amount in zip(ends, amounts, strict=True):
        held += amount
        total += max(end, now + -(-held // limit))
    return total


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

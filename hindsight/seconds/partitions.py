"""The best division of a few requests among replicas, from a value of every set of them.

Every schedule of a fleet divides the requests into at most K sets, each served by one machine. So
no fleet does better than the least sum, over these divisions, of lower bounds for the sets; and
schedules of the sets of a division are together one of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache

import numpy as np

from instances.arrays import IntArray

MOST_REQUESTS = 8
"""Most requests of which every set is looked at."""

Division = tuple[Fraction, tuple[int, ...]]
"""A sum and the sets, each a number with a bit for each of its requests."""


def members(chosen: int) -> IntArray:
    """Return the positions of the requests of a set, which ascend."""
    return np.array([i for i in range(chosen.bit_length()) if chosen >> i & 1])


def least_division(values: Mapping[int, Fraction], requests: int, machines: int) -> Division:
    """Return the division into at most ``machines`` sets with the least sum of ``values``."""

    @cache
    def least(left: int, machines: int) -> Division:
        if not left:
            return Fraction(0), ()
        first = left & -left
        divisions = []
        for others in _subsets(left ^ first):
            own, rest = others | first, left ^ first ^ others
            if machines > 1 or not rest:
                total, following = least(rest, machines - 1)
                divisions.append((values[own] + total, (own, *following)))
        return min(divisions)

    return least((1 << requests) - 1, min(machines, requests))


def _subsets(whole: int) -> Iterator[int]:
    """Yield all subsets of a set, the empty one last."""
    part = whole
    while part:
        yield part
        part = (part - 1) & whole
    yield 0

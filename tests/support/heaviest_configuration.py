"""The heaviest set of requests that may run together, by a dynamic program in plain Python."""

from __future__ import annotations

from hindsight.prices.state_tables import ordered_states
from instances.arrays import IntArray


def maximum_weight(coefficients: IntArray, copies: IntArray, memory_limit: int) -> int:
    """Return the largest total coefficient of any configuration, see the module of tables.

    Configurations are read in order of decreasing r; of a prefix, the number of members and the sum
    of their m are remembered.
    """
    best = {(0, 0): 0}
    for m, r, count in zip(*ordered_states(copies)[:3], strict=True):
        weight = int(coefficients[m, r])
        for _ in range(count):
            for (k, total), value in [*best.items()]:
                if total + m + (k + 1) * r <= memory_limit:
                    key = k + 1, total + m
                    best[key] = max(best.get(key, 0), value + weight)
    return max(best.values())

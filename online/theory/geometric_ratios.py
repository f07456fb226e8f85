"""Proved ratios of geometric slicing and batching for every factor ([F26] Theorems 3.15, 4.1)."""

from __future__ import annotations

import math

from instances.validation import as_number


def geometric_batching_ratio(factor: float, parallel: float = math.inf) -> float:
    """Return an upper bound on (total latency of GBA) / optimum ([F26] Theorem 4.1).

    Parameters
    ----------
    factor : float
        Factor by which the length of slices grows from phase to phase, above 1.
    parallel : float, default inf
        Smallest number of slices that run at once in any phase. The bound with 1 holds for every
        instance.
    """
    factor = as_number(factor, None, "factor", above=1)
    if parallel < math.inf:
        parallel = as_number(parallel, None, "parallel", minimum=1)
    return factor**2 * (1 + 2 / parallel) + factor + factor / (factor - 1)


def geometric_slicing_ratio(factor: float, parallel: float = math.inf) -> float:
    """Return an upper bound on (total latency of GSA) / optimum ([F26] Theorem 3.15).

    Parameters are those of `geometric_batching_ratio`.
    """
    batching = geometric_batching_ratio(factor, parallel)
    return (2 + 2 / (factor - 1)) * batching

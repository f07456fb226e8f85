"""Upper bounds on the ratios of geometric slicing and batching to the optimum, by growth factor.

They are from [F26] Theorems 3.15 and 4.1.
"""

from __future__ import annotations

import math

from instances.validation import as_number


def geometric_batching_ratio(factor: float, parallel: float = math.inf) -> float:
    """Return an upper bound on (total latency of policy `gba`) / optimum ([F26] Theorem 4.1).

    GBA serves requests in phases. Each phase has a slice: the number of rounds for which each
    request may run in it. Slices grow from phase to phase.

    Parameters
    ----------
    factor : float
        Factor by which the slice grows from phase to phase, above 1.
    parallel : float, default inf
        Number of requests that can run at once in every phase, >= 1. The bound for 1 holds for all
        instances. The bound for infinity holds in the limit of large memory.
    """
    factor = as_number(factor, None, "factor", above=1)
    if parallel < math.inf:
        parallel = as_number(parallel, None, "parallel", minimum=1)
    return factor**2 * (1 + 2 / parallel) + factor + factor / (factor - 1)


def geometric_slicing_ratio(factor: float, parallel: float = math.inf) -> float:
    """Return an upper bound on (total latency of policy `gsa`) / optimum ([F26] Theorem 3.15).

    The parameters are those of `geometric_batching_ratio`: the growth of the slices (rounds that a
    request may run in a phase), and the number of requests that can run at once in every phase.
    """
    batching = geometric_batching_ratio(factor, parallel)
    return (2 + 2 / (factor - 1)) * batching

"""Largest ratio of A_min to H-SF over all distributions of outputs ([C25] Corollary 4.8).

It is the largest eigenvalue of a matrix.
"""

from __future__ import annotations

import numpy as np

from instances.validation import as_integer


def rayleigh_maximum(u: int) -> float:
    """Return the largest ratio of `a-min` to `h-sf` in total latency for output lengths 1 .. u.

    Prompts are empty ([C25] Corollary 4.8). If x has the shares of requests with output lengths
    1 .. u, the ratio is x'Ax / x'Bx (`a_min_ratio`). The matrices A and B have the entries
    a_ij = m^2 / (i j) ((i + j)^2 / 2 - m^2) and b_ij = m^2 with m = min(i, j). The maximum over x
    is the largest eigenvalue of B^-1 A: 1.25 at u = 2, 1.7249 at 10, 2.3333 at 100. Its eigenvector
    has no negative entry (checked up to u = 1000), so its entries are shares. The time is O(u^3).
    """
    u = as_integer(u, None, "u", minimum=1)
    i = np.arange(1, u + 1, dtype=np.float64)
    least = np.minimum.outer(i, i) ** 2
    a = least / np.outer(i, i) * (np.add.outer(i, i) ** 2 / 2 - least)
    # The entries of B are min(i, j)^2, so B = L D L'. L is the lower triangle of ones, and D is
    # diagonal with the entries k^2 - (k-1)^2 = 1, 3, 5, .. .
    scale = 1 / np.sqrt(2 * np.arange(1, u + 1) - 1)
    rows = np.diff(a, axis=0, prepend=0.0)
    both = np.diff(rows, axis=1, prepend=0.0)
    values, _ = np.linalg.eigh(scale[:, None] * both * scale[None, :])
    return float(values[-1])

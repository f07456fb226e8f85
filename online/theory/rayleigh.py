"""A_min's worst shares as a Rayleigh quotient ([C25] Corollary 4.8): s = 0, lengths 1 .. u."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from instances.arrays import FloatArray
from instances.validation import as_integer, as_number


def rayleigh_matrices(u: int) -> tuple[FloatArray, FloatArray]:
    """A_u and B_u, shape (u, u): `a_min_ratio` of shares x is x'Ax / x'Bx.

    a_ij = m^2 / (i j) ((i+j)^2 / 2 - m^2) and b_ij = m^2, with m = min(i, j).
    """
    u = as_integer(u, None, "u", minimum=1)
    i = np.arange(1, u + 1, dtype=np.float64)
    least = np.minimum.outer(i, i) ** 2
    a = least / np.outer(i, i) * (np.add.outer(i, i) ** 2 / 2 - least)
    return a, least


@lru_cache(maxsize=64)
def _top(u: int) -> tuple[float, tuple[float, ...]]:
    a, _ = rayleigh_matrices(u)
    # B = L D L' with L the lower triangle of ones and D = diag(1, 3, 5, ..): k^2 - (k-1)^2.
    scale = 1 / np.sqrt(2 * np.arange(1, u + 1) - 1)
    differences = a.copy()
    differences[1:] -= a[:-1]
    both = differences.copy()
    both[:, 1:] -= differences[:, :-1]
    values, vectors = np.linalg.eigh(scale[:, None] * both * scale[None, :])
    y = scale * vectors[:, -1]
    x = y.copy()
    x[:-1] -= y[1:]
    x *= 1.0 if x.sum() > 0 else -1.0
    return float(values[-1]), tuple(x / x.sum())


def rayleigh_maximum(u: int) -> float:
    """The largest x'Ax / x'Bx: 1.25 at u = 2, 1.7249 at 10, 2.3333 at 100 ([C25] Corollary 4.8).

    The top eigenvalue of B^-1 A. Its eigenvector has no negative entry (checked to u = 1000), so
    it is also the maximum over shares x >= 0. O(u^3).
    """
    return _top(as_integer(u, None, "u", minimum=1))[0]


def rayleigh_maximiser(u: int) -> FloatArray:
    """The shares that attain `rayleigh_maximum`, shape (u,), summing to 1."""
    return np.array(_top(as_integer(u, None, "u", minimum=1))[1])


def rayleigh_fit(u: float) -> float:
    """0.2555 log(u + 0.2793) + 1.1587, [C25] Figure 1's fit of `rayleigh_maximum`."""
    return 0.2555 * math.log(as_number(u, None, "u", minimum=1) + 0.2793) + 1.1587

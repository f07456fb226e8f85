"""Probability laws of whole token counts 1 .. maximum, and drawing from them.

A law is the array of its probabilities, shape (maximum,), entry k - 1 for length k. What a paper
gives as a real-valued law is rounded to the nearest whole number and clipped to 1 .. maximum. A
draw takes one uniform number from the stream and inverts the cumulative law: the stream of
``Generator.random`` is the raw one of PCG64, which NumPy keeps, unlike those of ``normal`` or
``exponential``; so a seed means the same lengths under any version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Law = npt.NDArray[np.floating[Any]]
CumulativeFunction = Callable[[float], float]
"""P(X <= x) of a real-valued X."""


def draw_lengths(rng: np.random.Generator, law: Law, n: int) -> npt.NDArray[np.int64]:
    """``n`` independent lengths, shape (n,); the law need not be normalised."""
    cumulative = (law / law.sum()).cumsum()
    cumulative /= cumulative[-1]
    return np.searchsorted(cumulative, rng.random(n), side="right").astype(np.int64) + 1


def draw_order(rng: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
    """A uniformly random order of 0 .. n - 1, shape (n,)."""
    return np.argsort(rng.random(n), kind="stable").astype(np.int64)


def rounded(cumulative: CumulativeFunction, maximum: int) -> Law:
    """The law of X, rounded to the nearest whole number and clipped to 1 .. maximum."""
    limits = [cumulative(k + 0.5) for k in range(1, maximum)]
    return np.diff(np.array([0.0, *limits, 1.0]))


def uniform_law(maximum: int) -> Law:
    """Return the uniform law on 1 .. maximum."""
    return np.full(maximum, 1 / maximum)


def binomial_law(probability: float, maximum: int) -> Law:
    """1 + Binomial(maximum - 1, probability)."""
    trials = maximum - 1
    success, failure = math.log(probability), math.log1p(-probability)
    logarithms = [
        math.lgamma(maximum)
        - math.lgamma(k + 1)
        - math.lgamma(maximum - k)
        + k * success
        + (trials - k) * failure
        for k in range(maximum)
    ]
    return np.array([math.exp(one) for one in logarithms])


def normal(mean: float, standard_deviation: float) -> CumulativeFunction:
    """N(mean, standard_deviation^2)."""
    scale = standard_deviation * math.sqrt(2)
    return lambda x: math.erfc((mean - x) / scale) / 2


def exponential(scale: float) -> CumulativeFunction:
    """Exp(1 / scale), whose mean is ``scale``."""
    return lambda x: -math.expm1(-x / scale) if x > 0 else 0.0


def lognormal(median: float, sigma: float) -> CumulativeFunction:
    """exp N(ln median, sigma^2)."""
    underlying = normal(math.log(median), sigma)
    return lambda x: underlying(math.log(x)) if x > 0 else 0.0


def mixture(shares: Sequence[float], parts: Sequence[CumulativeFunction]) -> CumulativeFunction:
    """Mix laws: each part is chosen with its share."""
    return lambda x: sum(share * part(x) for share, part in zip(shares, parts, strict=True))


def moments(law: Law) -> tuple[float, float]:
    """Mean and variance, in tokens and tokens squared."""
    lengths = np.arange(1, len(law) + 1)
    mean = float(law @ lengths)
    return mean, float(law @ (lengths - mean) ** 2)


def lognormal_law(median: float, mean: float, maximum: int) -> Law:
    """The rounded and clipped lognormal law with this median and this mean.

    Clipping leaves the median of the real-valued law where it is; its sigma is found by bisection.
    """
    low, high = 0.0, 8.0
    for _ in range(64):
        sigma = (low + high) / 2
        law = rounded(lognormal(median, sigma), maximum)
        low, high = (sigma, high) if moments(law)[0] < mean else (low, sigma)
    return law

"""Probability laws of whole token counts 1 .. maximum, and draws from them.

A law is the array of its probabilities, shape (maximum,), with entry k - 1 for length k. If a paper
gives a real-valued law, its values are rounded to the nearest whole number and clipped to 1 ..
maximum. A draw takes one uniform number from ``Generator.random`` and inverts the cumulative law.
NumPy guarantees the numbers of ``Generator.random`` for a seed in all versions, but not those of
``normal`` or ``exponential``. So a seed gives the same lengths with any version of NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Law = npt.NDArray[np.floating[Any]]
CumulativeFunction = Callable[[float], float]
"""Cumulative distribution function x -> P(X <= x) of a real-valued random length X."""


def draw_lengths(rng: np.random.Generator, law: Law, n: int) -> npt.NDArray[np.int64]:
    """Draw ``n`` independent lengths in tokens from a law, shape (n,).

    The law has P(length = k) in entry k - 1, up to a constant factor.
    """
    cumulative = (law / law.sum()).cumsum()
    cumulative /= cumulative[-1]
    return np.searchsorted(cumulative, rng.random(n), side="right").astype(np.int64) + 1


def draw_order(rng: np.random.Generator, n: int) -> npt.NDArray[np.int64]:
    """Draw a uniformly random permutation of 0 .. n - 1, shape (n,)."""
    return np.argsort(rng.random(n), kind="stable").astype(np.int64)


def rounded(cumulative: CumulativeFunction, maximum: int) -> Law:
    """Return the law of a length X, rounded to the nearest whole number and clipped.

    ``cumulative`` is the distribution function of X. Clipping is to 1 .. ``maximum``.
    """
    limits = [cumulative(k + 0.5) for k in range(1, maximum)]
    return np.diff(np.array([0.0, *limits, 1.0]))


def uniform_law(maximum: int) -> Law:
    """Return the uniform law on 1 .. maximum as an array of probabilities."""
    return np.full(maximum, 1 / maximum)


def binomial_law(probability: float, maximum: int) -> Law:
    """Return the law of 1 + Binomial(maximum - 1, probability), shape (maximum,)."""
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
    """Return the distribution function of the normal law N(mean, standard_deviation^2)."""
    scale = standard_deviation * math.sqrt(2)
    return lambda x: math.erfc((mean - x) / scale) / 2


def exponential(scale: float) -> CumulativeFunction:
    """Return the distribution function of the exponential law with mean ``scale``."""
    return lambda x: -math.expm1(-x / scale) if x > 0 else 0.0


def lognormal(median: float, sigma: float) -> CumulativeFunction:
    """Return the distribution function of exp(Z), where Z is normal N(ln median, sigma^2)."""
    underlying = normal(math.log(median), sigma)
    return lambda x: underlying(math.log(x)) if x > 0 else 0.0


def mixture(shares: Sequence[float], parts: Sequence[CumulativeFunction]) -> CumulativeFunction:
    """Return the distribution function of a mixture: part k has the probability ``shares[k]``."""
    return lambda x: sum(share * part(x) for share, part in zip(shares, parts, strict=True))


def moments(law: Law) -> tuple[float, float]:
    """Return the mean and the variance of a law of lengths, in tokens and tokens squared."""
    lengths = np.arange(1, len(law) + 1)
    mean = float(law @ lengths)
    return mean, float(law @ (lengths - mean) ** 2)


def lognormal_law(median: float, mean: float, maximum: int) -> Law:
    """Return the rounded and clipped lognormal law of lengths with a given median and mean.

    The lognormal law before rounding has the given median, which clipping to 1 .. ``maximum`` does
    not change. Bisection finds its sigma, so that the mean after rounding is the given one.
    """
    low, high = 0.0, 8.0
    for _ in range(64):
        sigma = (low + high) / 2
        law = rounded(lognormal(median, sigma), maximum)
        low, high = (sigma, high) if moments(law)[0] < mean else (low, sigma)
    return law

"""Bootstrap confidence intervals of means."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from instances.arrays import FloatArray

from .intervals import Interval, rounded_down, rounded_up

RESAMPLES, LEVEL = 9999, 0.95
SEED = 0
NOISE = 1e-10
"""Round-off allowed when ends are rounded outwards: 1.2 + 1e-16 becomes 1.2000 and not 1.2001."""

Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class Confidence:
    """95 % confidence interval of the expected ratio of a policy over a distribution of instances.

    The instances of the trials are assumed to be a random sample of this distribution.

    Attributes
    ----------
    low, high : float or None
        The ends. Both are None if there are fewer than two instances. An end is also None if it
        depends on an optimum for which the bound on this side is not known.
    """

    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Return the interval as text, with ends rounded outwards and ``?`` for an unknown one."""
        low = "?" if self.low is None else rounded_down(self.low + NOISE)
        high = "?" if self.high is None else rounded_up(self.high - NOISE)
        return f"({low}, {high})"


def mean_interval(units: Sequence[Sequence[Interval]]) -> Confidence | None:
    """Return the bootstrap confidence interval of the mean of numbers known only by intervals.

    Instances are resampled with replacement, each with all of its trials. The low end of the result
    is computed from the lower ends of the intervals, and the high end from their upper ends. So the
    result contains the confidence interval for any numbers in these intervals. The result is None
    if neither end is known.

    Parameters
    ----------
    units : Sequence[Sequence[Interval]]
        For each instance, the intervals (such as ratios) of its trials.
    """
    lowers = [[one.lower for one in unit] for unit in units]
    uppers = [[one.upper for one in unit] for unit in units]
    low = high = _interval(lowers)
    # If all numbers are known exactly, their lower and upper ends agree, and one bootstrap gives
    # both ends.
    if lowers != uppers:
        high = _interval(uppers)
    return None if low[0] is None and high[1] is None else Confidence(low[0], high[1])


def _interval(units: Sequence[Sequence[Fraction | None]]) -> Ends:
    """Return the ends of the bootstrap confidence interval of the mean of all numbers.

    Each entry of ``units`` has the numbers of one instance, which are resampled together. Both ends
    are None if a number is None, or if there are fewer than two entries.
    """
    if len(units) < 2 or any(one is None for unit in units for one in unit):
        return None, None
    sums = np.array([math.fsum(float(one or 0) for one in unit) for unit in units])
    counts = np.array([float(len(unit)) for unit in units])
    if np.ptp(sums / counts) == 0:
        # All instances have the same mean, so every resample of them has this mean.
        return float(sums[0] / counts[0]), float(sums[0] / counts[0])
    low, high = _bootstrap(sums, counts, "BCa")
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    # The correction of the BCa method is undefined if all resamples are on one side of the mean.
    return _bootstrap(sums, counts, "percentile")


def _bootstrap(sums: FloatArray, counts: FloatArray, method: str) -> tuple[float, float]:
    # scipy.stats is imported here and not at the top of the module: it takes half a second to load,
    # and only tables with confidence intervals need it.
    from scipy.stats import bootstrap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = bootstrap(
            (sums, counts),
            lambda sums, counts, axis=-1: sums.sum(axis=axis) / counts.sum(axis=axis),
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            confidence_level=LEVEL,
            method=method,
            batch=1000,
            rng=np.random.default_rng(SEED),
        )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)

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
"""Rounding error of the bootstrap: 1.2 + 1e-16 is printed as 1.2000 and not rounded up."""

Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class Confidence:
    """A 95 % confidence interval of a mean over all instances like those drawn.

    Attributes
    ----------
    low, high : float or None
        None where an end is unknown: fewer than two instances, or an unknown bound.
    """

    low: float | None
    high: float | None

    def __str__(self) -> str:
        """Rounded outwards."""
        low = "?" if self.low is None else rounded_down(self.low + NOISE)
        high = "?" if self.high is None else rounded_up(self.high - NOISE)
        return f"({low}, {high})"


def mean_interval(units: Sequence[Sequence[Interval]]) -> Confidence | None:
    """Return the bootstrap interval of a mean of intervals; None if neither end is known.

    Instances are drawn again with replacement, each with all of its trials. The low end uses the
    lower ends of the intervals and the high end their upper ends, so the result covers every value
    that the numbers in the intervals may have.

    Parameters
    ----------
    units : Sequence[Sequence[Interval]]
        A sequence for each instance.
    """
    lowers = [[one.lower for one in unit] for unit in units]
    uppers = [[one.upper for one in unit] for unit in units]
    low = high = _interval(lowers)
    # Where all numbers are known the two sides are one, and half the work is enough.
    if lowers != uppers:
        high = _interval(uppers)
    return None if low[0] is None and high[1] is None else Confidence(low[0], high[1])


def _interval(units: Sequence[Sequence[Fraction | None]]) -> Ends:
    """Return the interval of the mean of all numbers; those of a unit are drawn together."""
    if len(units) < 2 or any(one is None for unit in units for one in unit):
        return None, None
    sums = np.array([math.fsum(float(one or 0) for one in unit) for unit in units])
    counts = np.array([float(len(unit)) for unit in units])
    if np.ptp(sums / counts) == 0:
        # Every resample gives the same value.
        return float(sums[0] / counts[0]), float(sums[0] / counts[0])
    low, high = _bootstrap(sums, counts, "BCa")
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    # The bias correction is undefined where all resamples fall on one side of the estimate.
    return _bootstrap(sums, counts, "percentile")


def _bootstrap(sums: FloatArray, counts: FloatArray, method: str) -> tuple[float, float]:
    # SciPy's statistics take half a second to load, and only tables with intervals need them.
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

"""Bootstrap confidence intervals of mean ratios."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances.arrays import FloatArray

from .intervals import Latency, rounded_down, rounded_up
from .trial import Trial

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


def confidence_of(low: float | None, high: float | None) -> Confidence | None:
    """Return the interval; None if neither end is known."""
    return None if low is None and high is None else Confidence(low, high)


def ratio_interval(units: Sequence[Sequence[Trial]]) -> Confidence | None:
    """Return the bootstrap interval of the mean ratio.

    Instances are drawn again with replacement, each with all of its trials. Where an optimum is
    only known to lie in an interval, the low end uses the lower ends of the ratios and the high end
    their upper ends, so the result covers every value that the optimum may have.

    Parameters
    ----------
    units : Sequence[Sequence[Trial]]
        Trials with a ratio, one sequence for each instance.
    """
    uppers = [[one.upper for one in unit] for unit in units]
    lowers = [[one.lower for one in unit] for unit in units]
    low = high = _ends(units, uppers)
    # Where every optimum is proved the two sides are one, and half the work is enough.
    if lowers != uppers:
        high = _ends(units, lowers)
    return confidence_of(low[0], high[1])


def mean_interval(units: Sequence[Sequence[float]]) -> Confidence | None:
    """Return the bootstrap interval of the mean of all numbers, drawn unit by unit."""
    return confidence_of(*_interval(units))


def _ends(units: Sequence[Sequence[Trial]], optima: Sequence[Sequence[Latency | None]]) -> Ends:
    """Return the interval of the mean ratio to one side of the optima."""
    pairs = [[*zip(unit, bounds, strict=True)] for unit, bounds in zip(units, optima, strict=True)]
    if not all(bound for unit in pairs for _, bound in unit):
        return None, None
    return _interval([[float((one.cost or 0) / (bound or 1)) for one, bound in u] for u in pairs])


def _interval(units: Sequence[Sequence[float]]) -> Ends:
    """Return the interval of the mean of all numbers; those of a unit are drawn together."""
    if len(units) < 2:
        return None, None
    sums, counts = (
        np.array([math.fsum(unit) for unit in units]),
        np.array([float(len(unit)) for unit in units]),
    )
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

"""Bootstrap confidence intervals of mean ratios and ratios of totals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances.arrays import FloatArray

from .intervals import rounded_down, rounded_up
from .trial import Number, Trial

RESAMPLES, LEVEL = 9999, 0.95
SEED = 0
NOISE = 1e-10
"""The bootstrap's last bits: 1.2 must not read 1.2001 for being 1.2 + 1e-16."""

Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class Confidence:
    """Interval in which a mean over all such instances lies, with a probability of 95 %.

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


def interval_of_shares(
    units: Sequence[Sequence[Trial]],
) -> tuple[Confidence | None, Confidence | None]:
    """Return bootstrap intervals of the mean ratio and of the ratio of totals.

    Instances are drawn again with replacement, each with all of its trials. Where an optimum is
    only known to lie in an interval, the low end uses the lower ends of the ratios and the high end
    their upper ends, so the result covers every value that the optimum may have.

    Parameters
    ----------
    units : Sequence[Sequence[Trial]]
        Trials with a ratio, one sequence for each instance.
    """
    costs = [[one.cost or 0 for one in unit] for unit in units]
    uppers = [[one.upper for one in unit] for unit in units]
    lowers = [[one.lower for one in unit] for unit in units]
    mean, totals = _ends(costs, uppers, LEVEL)
    other_mean, other_totals = mean, totals
    # Where every optimum is proved the two sides are one, and half the work is enough.
    if lowers != uppers:
        other_mean, other_totals = _ends(costs, lowers, LEVEL)
    return confidence_of(mean[0], other_mean[1]), confidence_of(totals[0], other_totals[1])


def mean_interval(units: Sequence[Sequence[float]]) -> Confidence | None:
    """Return the bootstrap interval of the mean of all numbers, drawn unit by unit."""
    sums, counts = [math.fsum(unit) for unit in units], [len(unit) for unit in units]
    return confidence_of(*_interval(sums, counts, LEVEL))


def _ends(
    latencies: list[list[Number]], optima: list[list[Number | None]], level: float
) -> tuple[Ends, Ends]:
    """Return intervals of mean ratio and ratio of totals to one side of the optima."""
    known = [[bound for bound in unit if bound] for unit in optima]
    if [len(unit) for unit in known] != [len(unit) for unit in optima]:
        return (None, None), (None, None)
    ratios = [
        math.fsum(total / bound for total, bound in zip(unit, bounds, strict=True))
        for unit, bounds in zip(latencies, known, strict=True)
    ]
    mean = _interval(ratios, [len(unit) for unit in latencies], level)
    sums = [[float(sum(unit)) for unit in side] for side in (latencies, known)]
    totals = _interval(sums[0], sums[1], level)
    return mean, totals


def _interval(above: Sequence[float], below: Sequence[float], level: float) -> Ends:
    """Return the interval of sum(above) / sum(below), pairs resampled together."""
    if len(above) < 2:
        return None, None
    over, under = np.array(above, dtype=np.float64), np.array(below, dtype=np.float64)
    if np.ptp(over / under) == 0:
        # Every resample gives the same value: the bootstrap knows no more than that.
        value = float(over[0] / under[0])
        return value, value
    found = _bootstrap(over, under, level, "BCa")
    if not all(map(math.isfinite, found)):
        # The bias correction is undefined where all resamples fall on one side of the estimate.
        found = _bootstrap(over, under, level, "percentile")
    return found


def _bootstrap(
    above: FloatArray, below: FloatArray, level: float, method: str
) -> tuple[float, float]:
    # SciPy's statistics take half a second to load, and only tables with intervals need them.
    from scipy.stats import bootstrap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = bootstrap(
            (above, below),
            lambda above, below, axis=-1: above.sum(axis=axis) / below.sum(axis=axis),
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            confidence_level=level,
            method=method,
            batch=1000,
            rng=np.random.default_rng(SEED),
        )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)

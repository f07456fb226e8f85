"""Bootstrap confidence intervals of mean ratios and ratios of totals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances import InvalidValueError
from instances.arrays import FloatArray
from instances.validation import as_number
from online.trials.intervals import Latency, rounded_down, rounded_up

from .trial import Trial

RESAMPLES = 9999
SEED = 0
NOISE = 1e-10
"""The bootstrap's last bits: 1.2 must not read 1.2001 for being 1.2 + 1e-16."""

Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class ConfidenceInterval:
    """Interval in which a statistic of the population lies, with a given confidence.

    Attributes
    ----------
    low, high : float or None
        None where an end cannot be told: fewer than two instances, or an unknown bound.
    level : float
        Such as 0.95.
    """

    low: float | None
    high: float | None
    level: float

    def __str__(self) -> str:
        """Rounded outwards; empty where neither end is known."""
        if self.low is None and self.high is None:
            return ""
        low = "?" if self.low is None else rounded_down(self.low + NOISE)
        high = "?" if self.high is None else rounded_up(self.high - NOISE)
        return f"({low}, {high})"


def ratio_confidence(
    units: Sequence[Sequence[Trial]], *, confidence_level: float = 0.95
) -> tuple[ConfidenceInterval, ConfidenceInterval]:
    """Return bootstrap confidence intervals of the mean ratio and of the ratio of totals.

    Instances are drawn again with replacement, each with all of its trials. Where an optimum is
    only known to lie in an interval, the low end uses the lower ends of the ratios and the high end
    their upper ends, so the result covers every value that the optimum may have.

    Parameters
    ----------
    units : Sequence[Sequence[Trial]]
        Trials with a ratio, one group for each instance, all compared with the same kind of
        optimum.
    confidence_level : float, default 0.95
        Strictly between 0 and 1.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        The level is not between 0 and 1, or the ratios are to different kinds of optima.
    """
    confidence_level = as_number(confidence_level, None, "confidence_level", above=0, below=1)
    if len({record.compared_with for unit in units for record in unit}) > 1:
        raise InvalidValueError(None, "units", "records", "are compared with different optima")
    latencies = [[record.total_latency or 0 for record in unit] for unit in units]
    uppers = [[record.optimum_upper for record in unit] for unit in units]
    lowers = [[record.optimum_lower for record in unit] for unit in units]
    mean, totals = _ends(latencies, uppers, confidence_level)
    other_mean, other_totals = mean, totals
    # Where every optimum is proved the two sides are one, and half the work is enough.
    if lowers != uppers:
        other_mean, other_totals = _ends(latencies, lowers, confidence_level)
    return (
        ConfidenceInterval(mean[0], other_mean[1], confidence_level),
        ConfidenceInterval(totals[0], other_totals[1], confidence_level),
    )


def _ends(
    latencies: list[list[Latency]], optima: list[list[Latency | None]], level: float
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

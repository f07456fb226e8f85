"""Figures of the requests of a run or a log."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from instances.arrays import FloatArray

METRICS = {"TTFT": "ttft", "TPOT": "tpot", "latency": "e2el"}
"""Columns of a run by the names of their figures."""


def p50_p99(column: FloatArray) -> tuple[float, float]:
    """Return the entries that 50 % and 99 % do not exceed; nothing is interpolated."""
    known = column[np.isfinite(column)]
    if not len(known):
        return np.nan, np.nan
    low, high = np.percentile(known, (50, 99), method="inverted_cdf").tolist()
    return low, high


@dataclass(frozen=True, eq=False)
class Measured:
    """Latencies that a log measured.

    Attributes
    ----------
    latencies : float64 array
        Seconds from arrival to completion of each request, shape (n,).
    first_tokens : float64 array or None
        Seconds from arrival to its first token; None where the log lacks some.
    """

    latencies: FloatArray
    first_tokens: FloatArray | None = None

    @property
    def mean_latency(self) -> Fraction:
        """Seconds per request."""
        return sum(map(Fraction, self.latencies.tolist()), Fraction(0)) / len(self.latencies)


@dataclass(frozen=True, eq=False)
class Served:
    """Figures of a simulation.

    Attributes
    ----------
    mean_latency : Fraction
        Seconds per request.
    figures : dict[str, tuple[float, float]]
        p50 and p99 of `METRICS`, seconds.
    on_time : Fraction or None
        Share of the requests on time; None without a service level.
    """

    mean_latency: Fraction
    figures: dict[str, tuple[float, float]]
    on_time: Fraction | None = None

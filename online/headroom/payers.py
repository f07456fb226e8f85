"""Which requests wait, and when: by length, by percentile, by stretch of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from instances import Workload
from instances.arrays import FloatArray, IntArray

from .over_time import OverTime

QUARTILES = (0.25, 0.5, 0.75)
PERCENTILES = (50, 90, 95, 99, 100)

WORST = 5
"""Stretches shown."""


@dataclass(frozen=True, eq=False)
class LengthClass:
    """The requests with outputs of shortest .. longest tokens.

    Attributes
    ----------
    shortest, longest : int
        Output lengths, tokens.
    members : int64 array
        Positions of the requests.
    """

    shortest: int
    longest: int
    members: IntArray


def length_classes(workload: Workload) -> list[LengthClass]:
    """Up to four classes of about as many requests each; equal lengths are never parted."""
    lengths = np.asarray(workload.output_lengths)
    ends = np.quantile(lengths, QUARTILES, method="inverted_cdf")
    place = np.searchsorted(ends, lengths)
    found = []
    for one in np.unique(place):
        members = np.flatnonzero(place == one)
        own = lengths[members]
        found.append(LengthClass(int(own.min()), int(own.max()), members))
    return found


def worst_stretches(over_time: OverTime) -> list[int]:
    """Those in which most is waited, the worst first; none in which nobody waits."""
    waiting = over_time.waiting
    order = np.argsort(-waiting, kind="stable")[:WORST]
    return [int(one) for one in order if waiting[one] > 0]


def percentiles(latencies: FloatArray) -> list[float]:
    """`PERCENTILES` of the latencies, seconds."""
    return [float(one) for one in np.percentile(latencies, PERCENTILES)]

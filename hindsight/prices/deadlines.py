"""Deadlines of requests under service levels, for bounds in seconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances import Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed
from instances.service_level import Limits

from .minorants import AffineMinorant, own_seconds

LATER = 1e-8
"""Share of its time by which a deadline is postponed. This covers the rounding of the times in
schedules, which have at most 10^7 rounds with a relative error of 2^-53 each, and in bounds."""


def own_times(workload: Workload, minorant: AffineMinorant) -> tuple[FloatArray, FloatArray]:
    """Return the seconds to the first and to the last token of each request alone, shape (n,)."""
    workload = relaxed(workload)
    s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
    coefficients = tuple(map(float, minorant))
    return own_seconds(s, np.ones_like(o), *coefficients), own_seconds(s, o, *coefficients)


class Deadlines(NamedTuple):
    """Deadlines that every request on time meets, shape (n,) each.

    Attributes
    ----------
    output : int64 array
        Number of tokens to price: 1 if only the first token has a deadline before prices end.
    end, first_token : float64 array
        Deadlines of the last and of the first token, in seconds on the clock.
    known : float64 array
        Least payment of a request if known without prices: 1 for requests that are always late, 0
        for those that can be on time after the last price, else NaN.
    """

    output: IntArray
    end: FloatArray
    first_token: FloatArray
    known: FloatArray

    @classmethod
    def none(cls, output: IntArray) -> Deadlines:
        """Return infinite deadlines, for bounds on latency."""
        never = np.full(len(output), np.inf)
        return cls(output, never, never, np.full(len(output), np.nan))

    @classmethod
    def of(
        cls, workload: Workload, minorant: AffineMinorant, limits: Limits, horizon: float
    ) -> Deadlines:
        """Return the deadlines of all requests, for prices that are 0 after ``horizon`` seconds.

        A limit on the time per token excludes requests that exceed it even when running alone.
        Together with a limit on the first token it also bounds the latency. Otherwise it is
        ignored, which can only raise the bound on the number of requests on time.
        """
        a, o = workload.arrival_times, np.asarray(workload.output_lengths)
        first, own = own_times(workload, minorant)

        def later(limit: FloatArray) -> FloatArray:
            return a + limit + LATER * (a + limit)

        end, first_token = later(limits.latest(o)), later(limits.first_token)
        late = (a + own > end) | (a + first > first_token)
        late |= a + own - first > later(limits.decode(o))
        # A request that may finish after prices end pays for its first token at most.
        free = np.maximum(a, horizon)
        waits = end >= free + own
        paid_late = np.where(waits & (first_token >= free + first), 0.0, np.nan)
        known = np.where(late, 1.0, paid_late)
        short = waits | late
        end = np.where(short, first_token, end)
        # Requests whose payment is known are not evaluated; any finite deadline will do.
        end = np.where(np.isnan(known), end, a)
        return cls(np.where(short, 1, o), end, first_token, known)

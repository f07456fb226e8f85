"""Deadlines of requests that are to be on time, for bounds in seconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from instances import Workload
from instances.arrays import FloatArray, IntArray
from instances.problem.memory_translation import relaxed
from instances.service_level import Limits

from .minorants import AffineMinorant, own_seconds

LATER = 1e-8
"""By this share of itself a deadline on the clock is later, for the roundings of two clocks: of the
schedule, whose 10^7 rounds at most each round their end within 2^-53, and of the bound."""


def own_times(workload: Workload, minorant: AffineMinorant) -> tuple[FloatArray, FloatArray]:
    """Return the least seconds of each request to its first and to its last token, shape (n,)."""
    workload = relaxed(workload)
    s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
    coefficients = tuple(map(float, minorant))
    return own_seconds(s, np.ones_like(o), *coefficients), own_seconds(s, o, *coefficients)


class Deadlines(NamedTuple):
    """Deadlines that nobody who is on time misses, shape (n,) each.

    Attributes
    ----------
    output : int64 array
        Tokens that matter: 1 where only the first token has a deadline before prices end.
    end, first_token : float64 array
        Seconds on the clock, ``end`` being finite.
    known : float64 array
        1 for requests that are never on time, 0 for those that are at no price, else NaN.
    """

    output: IntArray
    end: FloatArray
    first_token: FloatArray
    known: FloatArray

    @classmethod
    def none(cls, output: IntArray) -> Deadlines:
        """Return those of requests whose latency counts."""
        never = np.full(len(output), np.inf)
        return cls(output, never, never, np.full(len(output), np.nan))

    @classmethod
    def of(
        cls, workload: Workload, minorant: AffineMinorant, limits: Limits, horizon: float
    ) -> Deadlines:
        """Return the deadlines of all requests where nothing has a price after ``horizon``.

        A limit on the time per token excludes requests that cannot keep it alone, and together with
        one on the first token it bounds the latency. On its own it is not used any further, which
        can only raise the bound on who is on time.
        """
        a, o = workload.arrival_times, np.asarray(workload.output_lengths)
        first, own = own_times(workload, minorant)

        def later(limit: FloatArray) -> FloatArray:
            return a + limit + LATER * (a + limit)

        end, first_token = later(limits.latest(o)), later(limits.first_token)
        late = (a + own > end) | (a + first > first_token)
        late |= a + own - first > later(limits.decode(o))
        # Who may wait until nothing has a price pays for the first token at most.
        free = np.maximum(a, horizon)
        waits = end >= free + own
        paid_late = np.where(waits & (first_token >= free + first), 0.0, np.nan)
        known = np.where(late, 1.0, paid_late)
        short = waits | late
        end = np.where(short, first_token, end)
        # No clock gets to a deadline that is known not to matter.
        end = np.where(np.isnan(known), end, a)
        return cls(np.where(short, 1, o), end, first_token, known)

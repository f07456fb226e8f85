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
"""Relative increase of each deadline, a time on the clock. It covers rounding errors in bounds, and
in the times of schedules: at most 10^7 rounds with a relative error of 2^-53 each."""


def own_times(workload: Workload, minorant: AffineMinorant) -> tuple[FloatArray, FloatArray]:
    """Return lower bounds on the time to first token and on the latency of each request.

    These are the seconds that the request takes if it runs alone and each round is as short as
    ``minorant``, the affine lower bound on its length, allows. Shape (n,) each.
    """
    workload = relaxed(workload)
    s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
    coefficients = tuple(map(float, minorant))
    return own_seconds(s, np.ones_like(o), *coefficients), own_seconds(s, o, *coefficients)


class Deadlines(NamedTuple):
    """Deadlines that a request meets in every schedule in which it is on time, shape (n,) each.

    A late request costs 1. A request on time pays the prices of the rounds in which it runs.

    Attributes
    ----------
    output : int64 array
        Number of tokens whose rounds are priced. It is 1 if the request can begin after the last
        price and still meet its deadline for the last token, else the output length.
    end, first_token : float64 array
        Deadlines of the last priced token and of the first token, in seconds on the clock.
    known : float64 array
        Least cost of a request if it follows without evaluating prices: 1 for requests that are
        always late, 0 for those that can be on time after the last price, else NaN.
    """

    output: IntArray
    end: FloatArray
    first_token: FloatArray
    known: FloatArray

    @classmethod
    def none(cls, output: IntArray) -> Deadlines:
        """Return infinite deadlines, for bounds on latency rather than on late requests.

        ``output`` holds the output lengths of the requests, shape (n,).
        """
        never = np.full(len(output), np.inf)
        return cls(output, never, never, np.full(len(output), np.nan))

    @classmethod
    def of(
        cls, workload: Workload, minorant: AffineMinorant, limits: Limits, horizon: float
    ) -> Deadlines:
        """Return the deadlines of all requests, for prices that are 0 after ``horizon`` seconds.

        ``limits`` are the limits on latency, time to first token and time per token. A request is
        late in every schedule if it exceeds a limit even when it runs alone. The limits on the time
        to first token and on the time per token together limit the latency. Otherwise the limit on
        the time per token is ignored, which can only raise the upper bound on the number of
        requests on time.
        """
        a, o = workload.arrival_times, np.asarray(workload.output_lengths)
        first, own = own_times(workload, minorant)

        def later(limit: FloatArray) -> FloatArray:
            return a + limit + LATER * (a + limit)

        end, first_token = later(limits.latest(o)), later(limits.first_token)
        late = (a + own > end) | (a + first > first_token)
        late |= a + own - first > later(limits.decode(o))
        # Let a request be able to begin after the last price and still complete by its deadline.
        # It pays only for the round of its first token, and only if that has an earlier deadline.
        free = np.maximum(a, horizon)
        waits = end >= free + own
        paid_late = np.where(waits & (first_token >= free + first), 0.0, np.nan)
        known = np.where(late, 1.0, paid_late)
        short = waits | late
        end = np.where(short, first_token, end)
        # Prices are not evaluated for requests whose least cost is known, so their deadline may be
        # any finite number, such as the arrival time.
        end = np.where(np.isnan(known), end, a)
        return cls(np.where(short, 1, o), end, first_token, known)

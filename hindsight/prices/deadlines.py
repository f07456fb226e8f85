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
"""Share of each deadline (seconds since time 0) that is added to it. This covers rounding errors of
bounds and of times in schedules: at most 10^7 rounds, each with a relative error of 2^-53."""


def own_times(workload: Workload, minorant: AffineMinorant) -> tuple[FloatArray, FloatArray]:
    """Return two lower bounds for each request: on time to first token and on latency, in seconds.

    The request takes these times if it runs alone and the length of each round is ``minorant``, an
    affine lower bound on round lengths. Both arrays have shape (n,).
    """
    workload = relaxed(workload)
    s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
    coefficients = tuple(map(float, minorant))
    return own_seconds(s, np.ones_like(o), *coefficients), own_seconds(s, o, *coefficients)


class Deadlines(NamedTuple):
    """Deadlines of requests, for a lower bound on the number of late requests; shape (n,) each.

    In this bound a late request costs 1, and a request on time pays a price for each round in which
    it runs. After some time, the horizon, all prices are 0. A request that meets its service level
    in a schedule also meets these deadlines there.

    Attributes
    ----------
    output : int64 array
        Number of rounds for which the request pays, from the round of its first token on: its
        output length, or 1. It is 1 if the request meets the deadline of its last token even if all
        its rounds are after the horizon, where they cost nothing. The request then pays at most for
        the round of its first token, because this token may have an earlier deadline.
    end, first_token : float64 array
        Deadline of the end of the last round for which the request pays, and deadline of the first
        token, in seconds since time 0.
    known : float64 array
        Least cost of each request that needs no evaluation of prices, NaN for other requests. It is
        1 for requests that are late in every schedule, and 0 for requests that are on time even if
        they begin after the horizon.
    """

    output: IntArray
    end: FloatArray
    first_token: FloatArray
    known: FloatArray

    @classmethod
    def none(cls, output: IntArray) -> Deadlines:
        """Return infinite deadlines, for lower bounds on latency instead of on late requests.

        ``output`` has the output length of each request, shape (n,).
        """
        never = np.full(len(output), np.inf)
        return cls(output, never, never, np.full(len(output), np.nan))

    @classmethod
    def of(
        cls, workload: Workload, minorant: AffineMinorant, limits: Limits, horizon: float
    ) -> Deadlines:
        """Return the deadlines of all requests, for prices that are 0 after ``horizon`` seconds.

        ``limits`` are the limits on latency, time to first token and time per token. The deadline
        of the last token follows from the limit on latency, or from the other two limits together
        if that is earlier. A request is late in every schedule if it exceeds a limit even when it
        runs alone, in rounds whose length is ``minorant``, an affine lower bound on round lengths.
        The limit on time per token has no further effect. So fewer requests may count as late than
        really are, and the lower bound on late requests stays valid.
        """
        a, o = workload.arrival_times, np.asarray(workload.output_lengths)
        first, own = own_times(workload, minorant)

        def later(limit: FloatArray) -> FloatArray:
            return a + limit + LATER * (a + limit)

        end, first_token = later(limits.latest(o)), later(limits.first_token)
        late = (a + own > end) | (a + first > first_token)
        late |= a + own - first > later(limits.decode(o))
        # ``waits``: whether all rounds of a request fit between the horizon, after which prices are
        # 0, and its deadline. Such a request pays nothing, unless its first token is due earlier.
        # Then it pays only for one round in time for this token, and runs the others after the
        # horizon.
        free = np.maximum(a, horizon)
        waits = end >= free + own
        paid_late = np.where(waits & (first_token >= free + first), 0.0, np.nan)
        known = np.where(late, 1.0, paid_late)
        short = waits | late
        end = np.where(short, first_token, end)
        # Requests whose least cost is in ``known`` need no evaluation of prices. So their deadline
        # ``end`` is not used, and may be any finite number, such as the arrival time.
        end = np.where(np.isnan(known), end, a)
        return cls(np.where(short, 1, o), end, first_token, known)

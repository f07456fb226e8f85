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
"""Share by which each deadline, a time on the clock, is raised. It covers rounding errors of bounds
and of times in schedules: at most 10^7 rounds, each with a relative error of 2^-53."""


def own_times(workload: Workload, minorant: AffineMinorant) -> tuple[FloatArray, FloatArray]:
    """Return two lower bounds for each request: on time to first token and on latency, in seconds.

    They are the times that the request takes if it runs alone and each round is as short as
    ``minorant``, the affine lower bound on its length, allows. Both arrays have shape (n,).
    """
    workload = relaxed(workload)
    s, o = np.asarray(workload.prompt_lengths), np.asarray(workload.output_lengths)
    coefficients = tuple(map(float, minorant))
    return own_seconds(s, np.ones_like(o), *coefficients), own_seconds(s, o, *coefficients)


class Deadlines(NamedTuple):
    """Deadlines of requests, for a lower bound on the number of late requests; shape (n,) each.

    In this bound a late request costs 1, and a request on time pays a price for each round in which
    it runs. Prices are 0 from some time on. In every schedule in which a request is on time, it
    meets its deadlines.

    Attributes
    ----------
    output : int64 array
        Number of rounds, counted from the round of the first token, for which the request pays:
        the output length, or 1. It is 1 if the request meets the deadline of its last token even if
        all its rounds come after the last time with a price. Then at most the round of the first
        token must come earlier, because that token has a deadline too.
    end, first_token : float64 array
        Deadlines, in seconds on the clock: of the last round for which the request pays, and of the
        first token.
    known : float64 array
        Least cost of a request if it is known without evaluating prices, else NaN. It is 1 for
        requests that are late in every schedule, and 0 for requests that are on time even if they
        begin after the last price.
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

        ``limits`` are the limits on latency, time to first token and time per token. A request is
        late in every schedule if it exceeds a limit even when it runs alone, in the shortest rounds
        that ``minorant``, an affine lower bound on their length, allows. Together, the limits on
        the time to first token and on the time per token also limit the latency. Apart from that,
        the limit on the time per token is ignored. So fewer requests may count as late than really
        are, and the lower bound on late requests stays valid.
        """
        a, o = workload.arrival_times, np.asarray(workload.output_lengths)
        first, own = own_times(workload, minorant)

        def later(limit: FloatArray) -> FloatArray:
            return a + limit + LATER * (a + limit)

        end, first_token = later(limits.latest(o)), later(limits.first_token)
        late = (a + own > end) | (a + first > first_token)
        late |= a + own - first > later(limits.decode(o))
        # ``waits``: whether a request can begin after the last price and still complete by its
        # deadline. If so, it pays at most for the round of its first token, because that token may
        # have an earlier deadline. It pays nothing if a start after the last price meets the
        # deadline of the first token too.
        free = np.maximum(a, horizon)
        waits = end >= free + own
        paid_late = np.where(waits & (first_token >= free + first), 0.0, np.nan)
        known = np.where(late, 1.0, paid_late)
        short = waits | late
        end = np.where(short, first_token, end)
        # Prices are not evaluated for requests whose least cost is known. So their deadline ``end``
        # is not used, and may be any finite number, such as the arrival time.
        end = np.where(np.isnan(known), end, a)
        return cls(np.where(short, 1, o), end, first_token, known)

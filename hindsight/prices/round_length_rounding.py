"""Margins for all rounding errors in the values of `hindsight.prices.round_length_values`.

Symbols are those of the proof, whose parts (1) to (8) are in `round_length_tangents` and
`round_length_values`: h is the step of the time grid, o an output length, lambda the slope of a
tangent, and b the number of steps of a block, which is a run of consecutive steps of a request. The
*levels* of requests determine how much each pays for taking part in a round (`Shares`).

(9) *Rounding.* h and the length of cells are powers of two, so the grid is exact.

*Sums.* For o < 10^6, the relative error of sums of numbers >= 0 is below 10^-8, and values are
lowered by that share (`lowered`). It also covers the errors of prices, as prices larger by a share
raise V_i by that share at most: alpha + beta + eta is pi within a share of 2^-50, and the sum of
the mu_i is d0 eta within a share of 2^-50 or less, as sums of whole levels are exact. It covers
pi - beta in c, which is off by 2^-50 pi or less: with beta w the step pays pi w or more.

*Tangents.* A tangent adds up lambda b, completion times in seconds, and phi* times seconds, phi*
being at most lambda / d0. Each of its operations, fewer than four for a grid point, is exact within
2^-52 of the largest number in them: `ERROR` times that number is taken off for every grid point
(`tangent_error`). The rest of g_k and the payments of alpha' and pi' are at most the value, so that
10^-8 of the value covers their roundings. A rate x that is off by 2^-50 / d0 misses the largest
lambda x less a payment by no more than 2^-50 lambda / d0. Whether the compiler reorders sums does
not matter for these bounds.

*Service levels.* Where being late costs 1, the cost G is at most 1 and takes the place of the
completion times in the tangent. An arrival's place on the grid moves by 2^-27 of a step or less
(`refuse_late_arrivals`), and so the value, which is a cost between 0 and 1, by that or less. With
the roundings of the value's own sums this is below 10^-8: (1 + value) 10^-8 is taken off.
"""

from __future__ import annotations

from hindsight.runtime.compilation import step
from instances import InvalidValueError, Workload
from instances.arrays import FloatArray, IntArray

ROUNDING = 1e-8
"""Share by which `lowered` reduces computed lower bounds on costs of requests. It exceeds their
relative rounding error: at most (4 o + 100) 2^-53 for an output of o < 10^6 tokens."""

LONGEST_OUTPUT = 10**6
"""Output lengths must be below this number of tokens. `ROUNDING` covers the rounding errors of
shorter outputs only, and schedules in seconds list the round of every token."""

LATEST = 2**26
"""Latest arrival time, in steps of the time grid. Rounding an earlier arrival time to a float moves
it by at most 2^-27 of a grid step. `ROUNDING` covers the error that this causes in bounds."""

SHRINK = 1 - 1e-12
"""Factor on the least duration of a block (consecutive steps of a request) before it is rounded
down to a number of grid steps. So rounding errors never make this number too large."""

ERROR = 2.0**-49
"""Relative rounding error per grid point of a tangent (lower bound on payments, computed as a sum
over grid points). The error is at most ERROR * (number of points) * (largest number in the sum)."""


@step
def tangent_error(points: int, largest: float, lasts: float, seconds: float) -> float:
    """Return a bound on the rounding error of a lower bound on the cost of a request.

    A block is some consecutive rounds of a request, which pays prices of machine time for them. A
    tangent with slope lambda is a lower bound on what the request pays for the block. It is
    computed as a sum over points of the time grid, and then added to a lower bound on the cost
    after the block. The returned error is in seconds, or where late requests are counted, in late
    requests.

    Parameters
    ----------
    points : int
        Largest number of time-grid points over which the sum extends.
    largest : float
        The largest slope lambda of a tangent.
    lasts : float
        (Number of rounds of the block) + (time that the grid points span in seconds) / d0, where d0
        is the overhead of a round in seconds. Every payment in the sum is at most lambda *
        ``lasts``.
    seconds : float
        Largest cost after the block: a completion time in seconds, or 1 where late requests are
        counted.
    """
    return ERROR * points * (largest * lasts + seconds)


def lowered(values: FloatArray, beyond: FloatArray | IntArray | float) -> FloatArray:
    """Return values - `ROUNDING` * (values + beyond), to cover rounding errors.

    ``values`` are lower bounds on the costs of requests: latency plus payments in seconds, or
    numbers from 0 to 1 where late requests are counted. ``beyond`` is the arrival time of each
    request in seconds, because latencies are differences of completion and arrival times. It is 1
    where late requests are counted.
    """
    return values - ROUNDING * (values + beyond)


def refuse_long_outputs(workload: Workload) -> None:
    """Raise an error if `ROUNDING` does not cover the rounding errors for the longest output.

    Raises
    ------
    InvalidValueError
        An output has `LONGEST_OUTPUT` tokens or more.
    """
    longest = int(workload.output_lengths.max())
    if longest >= LONGEST_OUTPUT:
        raise InvalidValueError("workload", "output_lengths", longest, "is not below 10^6")


def refuse_late_arrivals(workload: Workload, grid_step: float) -> None:
    """Raise an error if `ROUNDING` does not cover the rounding errors for the latest arrival time.

    Raises
    ------
    InvalidValueError
        The last request arrives later than `LATEST` steps of the time grid.
    """
    latest = float(workload.arrival_times.max())
    if latest > LATEST * grid_step:
        reason = f"is later than {LATEST} steps of the time grid"
        raise InvalidValueError("workload", "arrival_times", latest, reason)

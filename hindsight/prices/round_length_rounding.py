"""Rounding of the values of `hindsight.prices.round_length_values`: what covers every float.

(9) *Rounding.* h and the length of cells are powers of two, so the grid is exact. Sums of numbers
>= 0 are within 10^-8 of exact for o < 10^6, relatively, and values are lowered by that (`lowered`);
that covers alpha + beta, which is the price within 2^-51. A tangent adds up lambda b, seconds, and
phi* times seconds, phi* being at most lambda / d0. Each of its operations, fewer than four for a
grid point, is exact within 2^-52 of the largest of them: `ERROR` of that is taken off for every
grid point (`tangent_error`). The rest of g_k and the payments of alpha' and beta' are at most the
value, so that 10^-8 of it covers their roundings. An x that is off by 2^-50 / d0 misses the largest
lambda x less a payment by no more than 2^-50 lambda / d0. Whether the compiler reorders sums does
not matter for it. Where being late costs 1, G is at most 1 and takes the place of seconds in that
sum. An arrival's place moves by 2^-27 of a step (`refuse_late_arrivals`), and such a value by that
or less, which with the roundings of its own sums is below 10^-8: (1 + value) 10^-8 is taken off.
"""

from __future__ import annotations

from hindsight.runtime.compilation import step
from instances import InvalidValueError, Workload
from instances.arrays import FloatArray, IntArray

ROUNDING = 1e-8
"""Relative deflation of a value, beyond (4 o + 100) 2^-53 for o < 10^6."""

LONGEST_OUTPUT = 10**6
"""Outputs are shorter, for `ROUNDING` and because schedules in seconds list every round."""

LATEST = 2**26
"""Most steps of the grid before an arrival, which is a decimal rounded to a float: with that many
its place moves by 2^-27 of a step, and a value by less than `ROUNDING` of it."""

SHRINK = 1 - 1e-12
"""Factor on shortest lengths before they are truncated to whole steps of the grid."""

ERROR = 2.0**-49
"""Bound on the relative errors of an operation on tangents."""


@step
def tangent_error(points: int, largest: float, lasts: float, seconds: float) -> float:
    """Return what covers the roundings of a tangent's sums.

    Parameters
    ----------
    points : int
        Most grid points of a sum.
    largest : float
        The largest lambda.
    lasts : float
        Steps of the block, plus the seconds of the sum in d0: with lambda it bounds payments.
    seconds : float
        The largest G, seconds, or 1 where it counts who is late.
    """
    return ERROR * points * (largest * lasts + seconds)


def lowered(values: FloatArray, beyond: FloatArray | IntArray | float) -> FloatArray:
    """Return values less `ROUNDING` of them and of ``beyond``: the arrivals, or 1 if late."""
    return values - ROUNDING * (values + beyond)


def refuse_long_outputs(workload: Workload) -> None:
    """Refuse output lengths for which the analysis does not hold.

    Raises
    ------
    InvalidValueError
        An output has `LONGEST_OUTPUT` tokens or more.
    """
    longest = int(workload.output_lengths.max())
    if longest >= LONGEST_OUTPUT:
        raise InvalidValueError("workload", "output_lengths", longest, "is not below 10^6")


def refuse_late_arrivals(workload: Workload, grid_step: float) -> None:
    """Refuse arrivals that have no exact place on the grid.

    Raises
    ------
    InvalidValueError
        The last request arrives after `LATEST` steps of the grid.
    """
    latest = float(workload.arrival_times.max())
    if latest > LATEST * grid_step:
        reason = f"is more than {LATEST} steps of the grid"
        raise InvalidValueError("workload", "arrival_times", latest, reason)

"""Units and rounding of the values that `hindsight.prices.round_length_values` computes.

Symbols are those of the proof, whose parts (1) to (3) are in `round_length_tangents`, and (5) to
(9) in `round_length_values`.

(4) *Rounding.* Times are counted from the grid point before the arrival of the request, in units of
2^-`BITS` grid steps. Where being late costs 1, costs are counted in units of 1 / `LATE`. Steps and
cells of the grid are powers of two, so that grid points are exact. All sums are exact in int64: as
larger payments count as `PAYMENT`, and lambdas are so small that tangents are below `PAYMENT`, all
sums are below 2^62. Durations and payments are rounded down, and the growth of Phi, the integral
of phi*(lambda), is rounded up. The share `SAFE` covers the floats from which they are computed,
each of which is exact within a share of 2^-45. Durations and payments lose this share, which also
covers prices: alpha + beta + eta is pi within a share of 2^-50, and the sum of the mu_i is d0 eta
within such a share. The growth of Phi per second gains `SAFE` lambda / d0. A step that makes phi* >
0 pays less than 2 lambda x at some rate x <= 1 / d0, so that errors in phi* are below 2^-42 lambda
/ d0. Where a step pays 2 lambda x or more at all rates x, phi* is 0.
"""

from __future__ import annotations

import math

from hindsight.runtime.compilation import step

BITS, LATE = 26, 1 << 40
"""Units of costs: 2^BITS in a step of the time grid, or LATE for a late request."""

NEVER, PAYMENT = 1 << 59, 2.0**57
"""Cost of an end after the last grid point, and largest payment, in units."""

LATEST = 2.0**52
"""Arrival times are earlier than this number of steps of the time grid."""

SAFE = 4e-12
"""Share that covers the rounding of floats. See the head of this module."""


@step
def payment(cost: float, unit: float) -> int:
    """Return a payment in units, rounded down. There are ``unit`` units in a cost of 1."""
    return int(min(cost * unit * (1.0 - SAFE), PAYMENT))


@step
def growth(density: float, slope: float, per_step: float) -> int:
    """Return the growth of Phi in a grid step, in units, rounded up.

    ``density`` / d0 is phi*(lambda), where lambda is ``slope`` and d0 the overhead of a round.
    ``per_step`` is (seconds of a grid step) / d0 * (units in a cost of 1).
    """
    return math.ceil((density + SAFE * slope) * per_step) + 1

"""Piecewise-linear functions below 1 / x, exactly."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from instances.arrays import FloatArray

from .results import rounded_down


def _tangent(x: Fraction, step: Fraction, after: Fraction) -> Fraction:
    """A value at x so that the line to (x + step, after) lies below 1 / x; after <= 1 / (x + step).

    The line 2 / p - y / p^2 touches the hyperbola at p. Where it is ``after`` or more at x + step,
    the line from its value at x to ``after`` lies below it. Floats only propose p.
    """
    right = x + step
    p = right
    root = 1 - float(after * right)
    guess = Fraction((1 - math.sqrt(max(0.0, root))) / float(after)) * (1 + Fraction(1, 10**9))
    if 0 < guess < right and 2 / guess - right / guess**2 >= after:
        p = guess
    if p <= x:
        return 1 / x
    return 2 / p - x / p**2


def reciprocals_below(origin: Fraction, step: Fraction, count: int) -> FloatArray:
    """Values at origin + l step, l < count, whose interpolation is falling and below 1 / x.

    On x .. x + step the chord of the hyperbola lies above it by at most

        (1 / sqrt(x) - 1 / sqrt(x + step))^2 = step^2 / (x (x + step) (sqrt(x) + sqrt(x + step))^2),

    where the last square is 2 x + step + 2 sqrt(x (x + step)) and the geometric mean is at least
    the harmonic one. Each value is 1 / x less that of the interval before, which is the larger one;
    near 0 the values are those of tangents, from the right to the left. All in fractions; each
    value is rounded down to a float once, and lowering a value lowers the interpolation.

    Parameters
    ----------
    origin : Fraction
        Any number; what the values say left of 0 is of no concern.
    step : Fraction
        > 0; the last point, origin + (count - 1) step, is positive.
    count : int
        >= 1.
    """
    values = np.empty(count)
    for index in range(count - 1, -1, -1):
        x = origin + index * step
        before = x - step
        if index == count - 1 and before < 2 * step:
            exact = 1 / x
        elif x + step <= 0:
            exact = Fraction(float(values[index + 1]))
        elif before >= 2 * step:
            squares = before + x + 4 * before * x / (before + x)
            exact = 1 / x - step**2 / (before * x * squares)
        else:
            exact = _tangent(x, step, Fraction(float(values[index + 1])))
        values[index] = rounded_down(exact)
    return np.minimum.accumulate(values)

"""Functions below 1 / x, in fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from hindsight.seconds.reciprocals import reciprocals_below


@pytest.mark.parametrize("origin", [Fraction(-3, 40), Fraction(0), Fraction(1, 20), Fraction(7)])
@pytest.mark.parametrize("step", [Fraction(1, 4), Fraction(1, 128)])
def test_the_interpolation_is_falling_below_and_near(origin: Fraction, step: Fraction) -> None:
    values = [Fraction(float(one)) for one in reciprocals_below(origin, step, 40)]
    for index, (y0, y1) in enumerate(itertools.pairwise(values)):
        assert y1 <= y0
        for part in range(65):
            x = origin + (index + Fraction(part, 64)) * step
            if x > 0:
                line = y0 + (y1 - y0) * Fraction(part, 64)
                assert line <= 1 / x
                # Of second order: the chord is off by step^2 / 4 x^3 at most.
                assert x < 4 * step or line * x >= 1 - (step / x) ** 2

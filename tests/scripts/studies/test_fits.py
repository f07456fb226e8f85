"""Exponents of power laws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from instances import InvalidValueError
from studies.fits import fit_power_law

SIZES = [64.0, 144.0, 256.0, 576.0, 1024.0, 2304.0]


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5])
def test_an_exact_law(exponent: float, corrected: bool) -> None:
    fit = fit_power_law(SIZES, [3 * m**exponent for m in SIZES], corrected=corrected)
    assert fit.exponent == pytest.approx(exponent, abs=1e-9)
    assert (fit.high - fit.low < 1e-9, fit.points) == (True, 6)
    bent = [math.sqrt(m) * math.exp(-2 / math.sqrt(m)) for m in SIZES]
    assert fit_power_law(SIZES, bent, corrected=corrected).contains(0.5) == corrected


@pytest.mark.parametrize("corrected", [False, True])
def test_the_interval_covers_as_often_as_it_says(corrected: bool) -> None:
    # 95 % of 2000 intervals, five standard errors of 0.5 % each way.
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(2000):
        noise = np.exp(rng.normal(0, 0.1, len(SIZES)))
        values = [float(e) * m**0.5 for e, m in zip(noise, SIZES, strict=True)]
        covered += fit_power_law(SIZES, values, corrected=corrected).contains(0.5)
    assert 0.925 < covered / 2000 < 0.975


def test_bad_points_are_refused() -> None:
    for sizes, values, corrected, said in (
        ([1.0, 2.0, 2.0], [1.0, 2.0, 3.0], False, "3 different sizes"),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], True, "4 different sizes"),
        ([1.0, 2.0, 3.0], [1.0, 2.0], False, "with a value each"),
        ([0.0, 2.0, 3.0], [1.0, 2.0, 3.0], False, "size = "),
        ([1.0, 2.0, 3.0], [1.0, math.nan, 3.0], False, "value = "),
    ):
        with pytest.raises(InvalidValueError, match=said):
            fit_power_law(sizes, values, corrected=corrected)

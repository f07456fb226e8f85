"""Fit the growth of a number: exponents of power laws, with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instances import InvalidValueError
from instances.validation import as_number


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """A fitted power law: values grow like size^exponent.

    Attributes
    ----------
    exponent : float
        Least-squares slope on logarithmic scales.
    low, high : float
        Confidence interval of the exponent from the residuals (Student's t). If the values are not
        random, it has no probability, but shows how far the values are from the fitted law.
    points : int
        Number of sizes.
    corrected : bool
        Whether a term that corrects for small sizes was fitted too.
    """

    exponent: float
    low: float
    high: float
    points: int
    corrected: bool

    def contains(self, exponent: float) -> bool:
        """Return whether ``exponent`` is in the confidence interval."""
        return self.low <= exponent <= self.high

    def __str__(self) -> str:
        return f"{self.exponent:.3f} [{self.low:.3f}, {self.high:.3f}]"


def fit_power_law(
    sizes: Sequence[float],
    values: Sequence[float],
    *,
    corrected: bool = False,
    confidence: float = 0.95,
) -> PowerLaw:
    """Fit log value = c + exponent log size, by least squares.

    Parameters
    ----------
    sizes, values : Sequence[float]
        Positive numbers, shape (k,) each.
    corrected : bool, default False
        Add d / sqrt(size) to the right-hand side. A ratio (A M^b + B) / (C + D / sqrt(M)) with b >=
        1/2 is not straight on logarithmic scales, because of terms of this order. The slope of a
        straight line through it is biased, even if its residuals are small.
    confidence : float, default 0.95
        Confidence of the interval.

    Raises
    ------
    InvalidValueError
        There are too few different sizes for the number of coefficients, a size or value is not
        positive, or the confidence is outside (0, 1).
    """
    from scipy import stats

    x, y = (
        np.array([as_number(one, None, name, above=0) for one in column])
        for name, column in (("size", sizes), ("value", values))
    )
    coefficients = 3 if corrected else 2
    if len(x) != len(y) or len(np.unique(x)) <= coefficients:
        needed = f"are not {coefficients + 1} different sizes with a value each"
        raise InvalidValueError(None, "sizes", x.tolist(), needed)
    confidence = as_number(confidence, None, "confidence", above=0, below=1)
    columns = [np.log(x), np.ones_like(x)]
    if corrected:
        columns.append(1 / np.sqrt(x))
    design = np.column_stack(columns)
    solution = np.linalg.lstsq(design, np.log(y), rcond=None)[0]
    residuals = np.log(y) - design @ solution
    freedom = len(x) - coefficients
    spread = float(
        np.sqrt(residuals @ residuals / freedom * np.linalg.inv(design.T @ design)[0, 0])
    )
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * spread
    exponent = float(solution[0])
    return PowerLaw(exponent, exponent - half, exponent + half, len(x), corrected)

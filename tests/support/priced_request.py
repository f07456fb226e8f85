"""Values of requests under prices of machine time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hindsight.prices.minorants import AffineMinorant
from hindsight.prices.round_lengths import PricedValues, RoundLengthPrices
from instances import Workload
from instances.arrays import FloatArray


def drawn_minorant(rng: np.random.Generator) -> AffineMinorant:
    """A quarter of a second a round, and a little or nothing a token."""
    d1, d2 = (Fraction(int(rng.integers(0, 3)), unit) for unit in (64, 256))
    return AffineMinorant(Fraction(1, 4), d1, d2)


def priced_values(
    workload: Workload,
    minorant: AffineMinorant,
    prices: RoundLengthPrices,
    step: float,
    size: int = 32,
) -> tuple[Fraction, FloatArray]:
    """Return the bound on total latency, and the values of all requests that make it."""
    priced = PricedValues(workload, minorant, prices, step, size)
    horizon = prices.price.size * prices.cell
    allowance = np.maximum(0.0, horizon - workload.arrival_times) + priced.own + step
    values = priced.of(np.arange(len(workload)), allowance)
    return priced.total(values), values

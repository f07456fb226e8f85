"""Proof of a bound in seconds, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hindsight.prices.minorants import AffineMinorant
from instances.arrays import FloatArray

if TYPE_CHECKING:
    # It compiles loops, which a proof needs none of.
    from hindsight.prices.round_lengths import RoundLengthPrices


@dataclass(frozen=True, eq=False)
class SecondsProof:
    """What `hindsight.prices.round_lengths` needs to prove a bound.

    Attributes
    ----------
    prices : RoundLengthPrices
        The best prices of an ascent.
    minorant : AffineMinorant
        The minorant of the batch time for which they were found.
    allowance : float64 array
        Seconds after arrival that are examined closely, shape (n,).
    """

    prices: RoundLengthPrices
    minorant: AffineMinorant
    allowance: FloatArray

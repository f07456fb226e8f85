"""Memory prices that are linear between a few rounds."""

from __future__ import annotations

import numpy as np

from instances.arrays import FloatArray, IntArray


class PriceKnots:
    """Prices of rounds 1 .. T from the prices y >= 0 at some of them, the knots.

    Between knots prices are interpolated; after the last knot they fall to 0 at round T + 1. Prices
    of any knots are prices, so a bound they give is a bound; only the best one may be out of reach.

    Parameters
    ----------
    knots : int64 array
        Increasing rounds, the first is 1, none is after T.
    T : int
        Last round with a price.
    length : int
        Rounds 0 .. length - 1 are described.

    Attributes
    ----------
    left : int64 array
        For each round the number of the last knot up to it, shape (length,); the number of knots,
        which stands for price 0, from T + 1 on.
    share : float64 array
        Of the price at the knot after that one, shape (length,).
    sizes
        Sum over rounds of each knot's part in them, shape (knots,).
    """

    def __init__(self, knots: IntArray, T: int, length: int) -> None:
        self.knots, self.T, self.length = knots, T, length
        rounds = np.arange(length, dtype=np.int64)
        within = np.clip(np.searchsorted(knots, rounds, side="right") - 1, 0, len(knots) - 1)
        following = np.append(knots[1:], T + 1)[within]
        share = (rounds - knots[within]) / (following - knots[within])
        outside = (rounds == 0) | (rounds > T)
        self.left: IntArray = np.where(rounds > T, len(knots), within)
        self.share: FloatArray = np.where(outside, 0.0, share)
        self._priced = ~outside
        self.sizes = self.gather(np.ones(length))

    def __len__(self) -> int:
        return len(self.knots)

    def spread(self, y: FloatArray) -> FloatArray:
        """Prices of rounds 0 .. length - 1, that of round 0 being 0, from prices at the knots."""
        padded = np.append(y, [0.0, 0.0])
        prices = padded[self.left] * (1 - self.share) + padded[self.left + 1] * self.share
        prices[0] = 0.0
        return np.asarray(prices, dtype=np.float64)

    def gather(self, usage: FloatArray) -> FloatArray:
        """The transpose of `spread`: a quantity per round summed with each knot's part."""
        counted = np.where(self._priced, usage[: self.length], 0.0)
        count = len(self.knots) + 2
        lower = np.bincount(self.left, counted * (1 - self.share), count)
        upper = np.bincount(self.left + 1, counted * self.share, count)
        return np.asarray((lower + upper)[: len(self.knots)], dtype=np.float64)

    def refined(self, excess: FloatArray, more: int) -> PriceKnots:
        """Up to ``more`` knots more, in the middle of the gaps with the largest sum of excess.

        Parameters
        ----------
        excess : float64 array
            >= 0, per round, shape (length,).
        more : int
            Knots added at most.
        """
        ends = np.append(self.knots[1:], self.T + 1)
        gaps = ends - self.knots
        sums = np.bincount(self.left, excess[: self.length], len(self.knots) + 2)
        sums = np.where(gaps > 1, sums[: len(self.knots)], 0.0)
        chosen = np.argsort(-sums, kind="stable")[:more]
        chosen = chosen[sums[chosen] > 0]
        middles = (self.knots[chosen] + ends[chosen]) // 2
        return PriceKnots(np.union1d(self.knots, middles), self.T, self.length)


def first_knots(T: int, length: int, count: int) -> PriceKnots:
    """Knots at every round where ``count`` allows it; else denser at the beginning.

    All-at-once instances serve their many short requests first, so prices bend most there.
    """
    if count >= T:
        return PriceKnots(np.arange(1, T + 1, dtype=np.int64), T, length)
    width = T / count
    knots = [1]
    while knots[-1] <= T:
        knots.append(knots[-1] + int(max(1.0, min(1.5 * width, 0.03 * knots[-1]))))
    return PriceKnots(np.array(knots[:-1], dtype=np.int64), T, length)


def even_knots(T: int, length: int, count: int) -> PriceKnots:
    """At most ``count`` knots, evenly spaced: for instances whose requests keep arriving."""
    knots = np.unique(np.linspace(1, T, count).astype(np.int64))
    return PriceKnots(knots, T, length)

"""Proofs by prices of a token in each round.

The bound is that of `hindsight.certificates.state_proofs` with the single table rho = m + 1, and M
for its D: at most M tokens are held in round tau + 1. Sums are differences of prefix sums, so large
instances are cheap to check. The latency of a request counts by its weight.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from . import limits
from .format import CertificateTooLargeError, list_of, whole
from .limits import CALL
from .proofs import Proof

ROW = 100
"""Work charged for each request, besides that of its starts."""

BLOCK = 1024
"""Starts tried in the first block; each further block is twice as long."""


class MemoryProof(Proof):
    """Proof by prices of a token in rounds 1, 2, ..."""

    keys: ClassVar[tuple[str, ...]] = ("prices",)
    takes_weights: ClassVar[bool] = True

    def bound(self) -> int:
        """See `Proof.bound`."""
        where = "prices"
        numerators = [whole(y, where) for y in list_of(self.part[where], where)]
        T = len(numerators)
        if T > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError(f"{where}: more than {limits.LARGEST_EPOCH} rounds")
        self.spend(T + ROW * len(self.rows))
        largest = max(s for _, s, _ in self.rows)
        # Prefix sums of y times |s + 1 - t|, and of y tau; t and tau are at most T.
        self._refuse_overflow(sum(numerators) * (largest + 1 + 2 * T), T, where)
        self.price_sets = 1
        y = np.array(numerators, dtype=np.int64)
        plain = np.concatenate([[0], np.cumsum(y)])
        tilted = np.concatenate([[0], np.cumsum(y * np.arange(T, dtype=np.int64))])
        total = -self.limit * sum(numerators)
        for i, (first, s, o) in enumerate(self.rows):
            unit, a, length = self.scale * self.weights[i], first, BLOCK
            # The first start past the prices pays nothing.
            least = unit * (max(a, T) + o - a)
            # A start costs at least its latency: past the least cost so far, none need be tried.
            while first < T and unit * (first + o - a) < least:
                self.spend(CALL + length)
                t = np.arange(first, min(first + length, T), dtype=np.int64)
                end = np.minimum(t + o, T)
                # sum over tau = t .. t + o - 1 of y[tau] (s + 1 + tau - t)
                paid = (s + 1 - t) * (plain[end] - plain[t]) + tilted[end] - tilted[t]
                least = min(least, int((unit * (t + (o - a)) + paid).min()))
                first, length = first + length, 2 * length
            total += least
        return self._rounded_up(total)

"""Prices of a token in a round.

The bound of `hindsight.certificates.state_proofs` with the one table rho = m + 1, and M for its D:
no more than M tokens are held in round tau + 1. The sums are taken over prefixes, so large
instances are no trouble.
"""

from __future__ import annotations

import numpy as np

from . import limits
from .format import CertificateTooLargeError, list_of, whole
from .limits import CALL
from .proofs import Proof

BLOCK = 1024
"""Starts tried at once; further blocks double."""


class MemoryProof(Proof):
    """Prices of a token in rounds 1, 2, ..."""

    keys = ("prices",)

    def bound(self) -> int:
        """See `Proof.bound`."""
        where = "prices"
        numerators = [whole(y, where) for y in list_of(self.part["prices"], where)]
        T = len(numerators)
        if T > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError(f"{where}: more than {limits.LARGEST_EPOCH} rounds")
        largest = max(s for _, s, _ in self.rows)
        # Prefix sums of y times |s + 1 - t|, and of y tau; t and tau are at most T.
        self._refuse_overflow(sum(numerators) * (largest + 1 + 2 * T), T, where)
        self.price_sets = 1
        y = np.array(numerators, dtype=np.int64)
        plain = np.concatenate([[0], np.cumsum(y)])
        tilted = np.concatenate([[0], np.cumsum(y * np.arange(T, dtype=np.int64))])
        total = -self.limit * sum(numerators)
        for a, s, o in self.rows:
            # A start costs its latency or more: once that is the least cost, none is left to try.
            first, length = a, BLOCK
            least = self.scale * (max(a, T) + o - a)  # the first start past the prices
            while first < T and self.scale * (first + o - a) < least:
                self._spend(CALL + length)
                t = np.arange(first, min(first + length, T), dtype=np.int64)
                end = np.minimum(t + o, T)
                # sum over tau = t .. t + o - 1 of y[tau] (s + 1 + tau - t)
                paid = (s + 1 - t) * (plain[end] - plain[t]) + tilted[end] - tilted[t]
                least = min(least, int((self.scale * (t + (o - a)) + paid).min()))
                first, length = first + length, 2 * length
            total += least
        return self._rounded_up(total)

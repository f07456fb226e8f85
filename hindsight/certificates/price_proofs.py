"""Proofs by prices alone: memory prices of rounds, and prices for preemptive schedules.

**Prices of a token in each round.** The bound is that of `hindsight.certificates.state_proofs` with
the single table rho = m + 1, and M for its D: at most M tokens are held in round tau + 1. Sums are
differences of prefix sums, so large instances are cheap to check. The latency of a request is
multiplied by its weight.

**Preemption.** Schedules may stop requests, which keep their tokens.

Request i = (a, s, o) takes any o rounds r_1 < ... < r_o after a, and holds s + k tokens in the
k-th. Let q_r(m) >= 0 be prices of holding m tokens in round r, in units of 1 / scale, 0 past the
last one, and K_r at least the heaviest set of requests that fits into round r: one level
1 <= k <= min(o, r - a) of each at most, with sum of s + k at most M. For any such schedule

    scale * TEL = sum_i (scale (r_o - a) + sum_k q_{r_k}(s + k)) - sum_r (prices paid in round r)
               >= sum_i V_i - sum_r K_r,

    V_i = min over r_1 < ... < r_o, r_1 > a, of scale (r_o - a) + sum_k q_{r_k}(s + k),

since those who run in round r are such a set: the k-th token comes in round a + k or later. TEL is
an integer: bounds are rounded up. Schedules without preemption are among these.

**V_i.** With k tokens after round t, a request still has to pay at least

    F_k(t) = min over t' >= t of q_{t'+1}(s + k + 1) + F_{k+1}(t' + 1),   F_o(t) = scale t,

and V_i = F_0(a) - scale a. From the last price T on, F_k(T) = scale (T + o - k): it goes on at
once. Having k tokens takes until a + k, so nothing but F_k(t) with t >= a + k is ever asked for,
and k stays below T - a.

**K_r.** *Tables* give q_r(m) for some m, and K_r is a knapsack with one choice a request, over what
is held in all. *Memory prices* give q_r(m) = y_r m, and K_r is at most M y_r.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import numpy as np

from . import limits
from .format import CertificateTooLargeError, MalformedCertificateError, wholes
from .proofs import Ints, Proof, lengths

ROW = 100
"""Work counted for each request, in addition to the work for its starts."""

BLOCK = 1024
"""Number of starts evaluated in the first block; each further block is twice as long."""


class MemoryProof(Proof):
    """Proof by prices of a token in rounds 1, 2, ..., for schedules without preemption."""

    takes_weights = True

    def bound(self) -> int:
        """See `Proof.bound`."""
        numerators = self._token_prices()
        T, scale = len(numerators), self.scale
        self.spend(T + ROW * len(self.rows))
        largest = max(s for _, s, _ in self.rows)
        # Prefix sums of y times |s + 1 - t|, and of y tau; t and tau are at most T.
        self._refuse_overflow(sum(numerators) * (largest + 1 + 2 * T), T)
        y = np.array(numerators, dtype=np.int64)
        plain = np.concatenate([[0], np.cumsum(y)])
        tilted = np.concatenate([[0], np.cumsum(y * np.arange(T, dtype=np.int64))])
        total = -self.limit * sum(numerators)
        for (first, s, o), weight in zip(self.rows, self.instance.weights, strict=True):
            unit, a, length = scale * weight, first, BLOCK
            # The first start after the last price pays nothing.
            least = unit * (max(a, T) + o - a)
            # A start costs at least its latency, so stop once the latency reaches the least cost.
            while first < T and unit * (first + o - a) < least:
                self.spend(limits.CALL + length)
                t = np.arange(first, min(first + length, T), dtype=np.int64)
                end = np.minimum(t + o, T)
                # sum over tau = t .. t + o - 1 of y[tau] (s + 1 + tau - t)
                paid = (s + 1 - t) * (plain[end] - plain[t]) + tilted[end] - tilted[t]
                least = min(least, int((unit * (t + (o - a)) + paid).min()))
                first, length = first + length, 2 * length
            total += least
        return self._rounded_up(total)


class _PathProof(Proof):
    """Proof for preemptive schedules: each request chooses the cheapest rounds under the prices."""

    preemptive = True

    def _least_payments(self, T: int, price: Callable[[int], Ints | int]) -> int:
        """Sum V_i over all requests; ``price(m)`` are the prices of m tokens in rounds 1 .. T."""
        total = 0
        for (s, o), alike in groupby(sorted(self.rows, key=lengths), lengths):
            arrivals = [a for a, _, _ in alike]
            steps = min(o, max(0, T - min(arrivals)))
            self.spend((1 + steps) * (limits.CALL + T))
            if steps == o:
                later = self.scale * np.arange(T + 1, dtype=np.int64)
            else:  # only the last entry is used
                later = np.full(T + 1, self.scale * (T + o - steps), dtype=np.int64)
            for k in range(steps - 1, -1, -1):
                later[:-1] = later[1:] + price(s + k + 1)
                later[-1] = self.scale * (T + o - k)
                later = np.minimum.accumulate(later[::-1])[::-1]
            total += sum(
                int(later[a]) - self.scale * a if a < T else self.scale * o for a in arrivals
            )
        return total


class PreemptiveMemoryProof(_PathProof):
    """Proof by prices of a token in rounds 1, 2, ..., for preemptive schedules."""

    def bound(self) -> int:
        """See `Proof.bound`."""
        numerators = self._token_prices()
        T = len(numerators)
        self._refuse_overflow(self.limit * max(numerators, default=0), T)
        y = np.array(numerators, dtype=np.int64)
        paid = self._least_payments(T, lambda m: y * m)
        return self._rounded_up(paid - self.limit * sum(numerators))


class PreemptiveProof(_PathProof):
    """Proof by prices of some numbers of tokens in every round, for preemptive schedules."""

    keys = ("tokens", "prices")

    def bound(self) -> int:
        """See `Proof.bound`."""
        if self.limit > limits.LARGEST_TABLE_MEMORY:
            raise CertificateTooLargeError(f"prices: memory_limit {self.limit} is too large here")
        levels = wholes(self.part["tokens"], "tokens", minimum=1)
        if sorted(set(levels)) != levels or (levels and levels[-1] > self.limit):
            raise MalformedCertificateError("tokens: not increasing, or above memory_limit")
        rows = self._price_rows(len(levels))
        dearest = max((max(row, default=0) for row in rows), default=0)
        self._refuse_overflow(self.limit * dearest, len(rows))
        columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(levels)).T
        by_level = dict(zip(levels, columns, strict=True))
        paid = self._least_payments(len(rows), lambda m: by_level.get(m, 0))
        heaviest = sum(
            self._heaviest_set(r, [(m, q) for m, q in zip(levels, row, strict=True) if q])
            for r, row in enumerate(rows, 1)
        )
        return self._rounded_up(paid - heaviest)

    def _heaviest_set(self, r: int, priced: list[tuple[int, int]]) -> int:
        """Return K_r; ``priced`` has the pairs (m, q) of positive prices in round r."""
        if not priced:
            return 0
        best = np.zeros(self.limit + 1, dtype=np.int64)  # indexed by the total of tokens held
        self.spend(limits.CALL + len(best) + len(self.rows) * (10 + len(priced)))
        for a, s, o in self.rows:
            top = s + min(o, r - a)
            choices = [(m, q) for m, q in priced if s < m <= top]
            if choices:
                self.spend(len(choices) * (limits.CALL + len(best)))
                before = best.copy()
                for m, q in choices:
                    np.maximum(best[m:], before[:-m] + q, out=best[m:])
        return int(best[-1])

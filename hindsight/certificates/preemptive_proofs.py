"""Proofs of bounds on schedules that may stop requests and keep their tokens.

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
from .format import CertificateTooLargeError, MalformedCertificateError, list_of, whole, wholes
from .limits import CALL
from .proofs import Ints, Proof


class _PathProof(Proof):
    """Prices of rounds, between which each request chooses."""

    preemptive = True

    def _least_payments(self, T: int, price: Callable[[int], Ints | int]) -> int:
        """Sum V_i, for prices of holding m tokens in rounds 1 .. T."""
        total = 0
        for (s, o), alike in groupby(sorted((s, o, a) for a, s, o in self.rows), _lengths):
            arrivals = [a for _, _, a in alike]
            steps = min(o, max(0, T - min(arrivals)))
            self.spend((1 + steps) * (CALL + T))
            if steps == o:
                later = self.scale * np.arange(T + 1, dtype=np.int64)
            else:  # only its last entry is asked for
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
    """Proof by prices of a token in rounds 1, 2, ..."""

    keys = ("prices",)

    def bound(self) -> int:
        """See `Proof.bound`."""
        numerators = [whole(y, "prices") for y in list_of(self.part["prices"], "prices")]
        T = len(numerators)
        if T > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError(f"prices: more than {limits.LARGEST_EPOCH} rounds")
        self._refuse_overflow(self.limit * max(numerators, default=0), T, "prices")
        self.price_sets = 1
        y = np.array(numerators, dtype=np.int64)
        paid = self._least_payments(T, lambda m: y * m)
        return self._rounded_up(paid - self.limit * sum(numerators))


class PreemptiveProof(_PathProof):
    """Proof by prices of some numbers of tokens in every round."""

    keys = ("tokens", "prices")

    def bound(self) -> int:
        """See `Proof.bound`."""
        if self.limit > limits.LARGEST_TABLE_MEMORY:
            raise CertificateTooLargeError(f"sets are not priced for memory_limit {self.limit}")
        levels = [whole(m, "tokens", 1) for m in list_of(self.part["tokens"], "tokens")]
        if sorted(set(levels)) != levels or (levels and levels[-1] > self.limit):
            raise MalformedCertificateError("tokens: not increasing, or above memory_limit")
        listed = list_of(self.part["prices"], "prices")
        if len(listed) * (len(levels) + 1) > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError("prices: too many")
        rows = [wholes(row, len(levels), "prices") for row in listed]
        dearest = max((max(row, default=0) for row in rows), default=0)
        self._refuse_overflow(self.limit * dearest, len(rows), "prices")
        self.price_sets = 1
        columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(levels)).T
        by_level = dict(zip(levels, columns, strict=True))
        paid = self._least_payments(len(rows), lambda m: by_level.get(m, 0))
        heaviest = sum(
            self._heaviest_set(r, [(m, q) for m, q in zip(levels, row, strict=True) if q])
            for r, row in enumerate(rows, 1)
        )
        return self._rounded_up(paid - heaviest)

    def _heaviest_set(self, r: int, priced: list[tuple[int, int]]) -> int:
        """Return K_r for prices given as (m, q)."""
        if not priced:
            return 0
        best = np.zeros(self.limit + 1, dtype=np.int64)  # by the tokens held in all
        self.spend(CALL + len(best) + len(self.rows) * (10 + len(priced)))
        for a, s, o in self.rows:
            top = s + min(o, r - a)
            choices = [(m, q) for m, q in priced if s < m <= top]
            if choices:
                self.spend(len(choices) * (CALL + len(best)))
                before = best.copy()
                for m, q in choices:
                    np.maximum(best[m:], before[:-m] + q, out=best[m:])
        return int(best[-1])


def _lengths(row: tuple[int, int, int]) -> tuple[int, int]:
    return row[:2]

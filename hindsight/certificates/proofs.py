"""Base class of all proofs in rounds, and proofs by prices alone.

**Prices of a token in each round** (`MemoryProof`). The bound is that of
`hindsight.certificates.state_proofs` with the price (m + 1) y_tau for the state (m, r) at epoch
tau. Round tau + 1 holds at most M tokens, so the capacity is W_tau = M y_tau. The prices that a
start pays are differences of prefix sums, so large instances are cheap to check. The latency of a
request is multiplied by its weight.

**Preemption** (`PreemptiveMemoryProof`, `PreemptiveProof`). Schedules may stop requests, which keep
their tokens.

Request i = (a, s, o) runs in any o rounds r_1 < ... < r_o after a, and holds s + k tokens in the
k-th of them. Let q_r(m) >= 0 be the price of holding m tokens in round r, in units of 1 / scale and
0 after the last priced round. Let K_r be at least the largest total price in round r of a set of
requests that fits into M: each member has one k with 1 <= k <= min(o, r - a), and the sum of their
s + k is at most M. For any such schedule

    scale * TEL = sum_i (scale (r_o - a) + sum_k q_{r_k}(s + k)) - sum_r (prices paid in round r)
               >= sum_i V_i - sum_r K_r,

    V_i = min over r_1 < ... < r_o, r_1 > a, of scale (r_o - a) + sum_k q_{r_k}(s + k),

because the requests that run in round r are such a set: the k-th token comes in round a + k or
later. TEL is an integer, so bounds are rounded up. Schedules without preemption are a special case.

**V_i.** A request that has k tokens after round t still has to pay at least

    F_k(t) = min over t' >= t of q_{t'+1}(s + k + 1) + F_{k+1}(t' + 1),   F_o(t) = scale t,

and V_i = F_0(a) - scale a. After the last priced round T waiting never pays, so
F_k(T) = scale (T + o - k). No request has k tokens before round a + k. So only F_k(t) with
t >= a + k are needed, and with t < T only those with k < T - a.

**K_r.** *Prices by number of tokens* give q_r(m) for some m. Then K_r is a knapsack over the tokens
held in total, with at most one k for each request. *Prices of a token* give q_r(m) = y_r m. Then
K_r = M y_r.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from . import format as form
from . import limits
from .problem import Row, Rows

ROW = 100
"""Work counted for each request, in addition to that for its starts. Unit: entries visited."""

BLOCK = 1024
"""Number of starts of a request priced in its first batch. Each next batch has twice as many."""

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.signedinteger[Any]]
Flags = npt.NDArray[np.bool_]


class SearchFailedError(form.CertificateError):
    """The search or the graphs of paths that the checker runs do not confirm the proof's bound."""


class Proof(ABC):
    """A proof, read from a certificate, of a lower bound on total latency in rounds.

    Attributes
    ----------
    rows : list of Row
        Arrival, prompt and output of each request of the instance that the proof is about.
    limit : int
        Memory limit M of this instance, in tokens.
    scale : int
        Denominator of the prices: those in the certificate are in units of 1 / scale rounds.
    work : int
        Number of array entries that the check has visited so far.
    leaves : int
        Number of partial schedules (in a search) or of nodes (in graphs of paths) that the check
        has built so far.
    """

    keys: ClassVar[tuple[str, ...]] = ("prices",)
    """Keys of the JSON object of the proof, in addition to ``kind`` and ``scale``."""

    preemptive: ClassVar[bool] = False
    """Whether the bound also holds for schedules that preempt requests."""

    takes_weights: ClassVar[bool] = False
    """Whether requests may have weights, so that the bound is on weighted total latency."""

    leaves = work = 0

    schedule_cost: int | None = None
    """Total latency of the schedule of the certificate, if known. A larger lower bound is false."""

    should_stop: Callable[[], bool] | None = None

    def __init__(self, instance: Rows, part: Mapping[str, Any]) -> None:
        form.keys_of(part, ("kind", "scale", *self.keys), "proof")
        reason = f"proof: {part['kind']} counts every request alike: it takes no weights"
        form.demand(self.takes_weights or max(instance.weights) == 1, reason)
        self.instance, self.rows, self.limit = instance, instance.rows, instance.memory_limit
        self.part = part
        self.kind: str = part["kind"]
        self.scale = form.whole(part["scale"], "scale", 1)
        self.most_work = limits.LARGEST_WORK

    @abstractmethod
    def bound(self) -> int:
        """Compute the lower bound on total latency that this proof gives, in rounds."""

    def spend(self, numbers: int) -> None:
        """Add the number of array entries that are about to be visited to the attribute ``work``.

        Raise CertificateTooLargeError if ``work`` then exceeds its limit, or if the attribute
        ``should_stop`` is a function that returns True.
        """
        self.work += numbers
        most = -1 if self.should_stop is not None and self.should_stop() else self.most_work
        form.refuse_above(most, self.work, form.TOO_MUCH_WORK)

    def _token_prices(self) -> list[int]:
        """Read the prices of holding one token in rounds 1, 2, ..., in 1 / `Proof.scale` rounds."""
        numerators = form.wholes(self.part["prices"], "prices")
        most = limits.LARGEST_EPOCH
        form.refuse_above(most, len(numerators), f"prices: more than {most} rounds")
        return numerators

    def _price_rows(self, width: int) -> list[list[int]]:
        """Read a table of prices: one row of ``width`` prices for each epoch or round.

        A row has the prices of the states of requests at an epoch (time between two rounds), or the
        prices of holding some numbers of tokens in a round.
        """
        listed = form.list_of(self.part["prices"], "prices")
        form.refuse_above(limits.LARGEST_EPOCH, len(listed) * (width + 1), "prices: too many")
        return [form.wholes(row, "prices", width) for row in listed]

    def _refuse_schedule_within(self, limit: int, reason: str) -> None:
        """Raise SearchFailedError if the certificate's schedule has a total latency <= ``limit``.

        The proof claims that no schedule has such a total latency.
        """
        if self.schedule_cost is not None and limit >= self.schedule_cost:
            raise SearchFailedError(reason)

    def _rounded_up(self, scaled: int) -> int:
        """Convert a bound in units of 1 / `Proof.scale` rounds to rounds, and round it up."""
        return -(-scaled // self.scale)

    def _refuse_overflow(self, charged: int, T: int) -> None:
        """Raise CertificateTooLargeError if costs of starts may overflow int64.

        The cost of a start is latency plus prices. ``charged`` is an upper bound on the sum of the
        prices that a request pays, in units of 1 / `Proof.scale` rounds. ``T`` is the number of
        epochs (times between two rounds) that have prices.
        """
        latest = T + max(a + o for a, _, o in self.rows)
        largest = charged + self.scale * latest * max(self.instance.weights)
        form.refuse_above(form.LIMIT - 1, largest, "prices: the prices or the scale are too large")


def lengths(row: Row) -> tuple[int, int]:
    """Return the prompt and output length of a request (arrival, prompt, output)."""
    return row[1:]


class MemoryProof(Proof):
    """Proof for schedules without preemption: each held token costs the price of the round."""

    takes_weights = True

    def bound(self) -> int:
        """Compute the lower bound on total latency that the prices prove, in rounds."""
        numerators = self._token_prices()
        T, scale = len(numerators), self.scale
        self.spend(T + ROW * len(self.rows))
        largest = max(s for _, s, _ in self.rows)
        # y[tau] is the price of a token in round tau + 1. The prices ``paid`` by a start at t are
        # the sum of (s + 1 - t) * y[tau] + tau * y[tau] over some epochs tau, with |s + 1 - t| <= s
        # + 1 + T and tau <= T. So the prices paid are at most sum(y) * (s + 1 + 2 T).
        self._refuse_overflow(sum(numerators) * (largest + 1 + 2 * T), T)
        y = np.array(numerators, dtype=np.int64)
        plain = np.concatenate([[0], np.cumsum(y)])
        tilted = np.concatenate([[0], np.cumsum(y * np.arange(T, dtype=np.int64))])
        total = -self.limit * sum(numerators)
        for (first, s, o), weight in zip(self.rows, self.instance.weights, strict=True):
            unit, a, length = scale * weight, first, BLOCK
            # ``least`` is the least cost of a start found so far. At first, it is the cost of the
            # first start after the last price: the latency alone.
            least = unit * (max(a, T) + o - a)
            # A start costs at least its latency. So once the latency of the next start reaches the
            # least cost found, no later start is cheaper.
            while first < T and unit * (first + o - a) < least:
                self.spend(limits.CALL + length)
                t = np.arange(first, min(first + length, T), dtype=np.int64)
                end = np.minimum(t + o, T)
                # Prices paid by a start at t: the sum over tau = t .. t + o - 1 of y[tau], the
                # price of a token in round tau + 1, times the s + 1 + tau - t tokens held in it.
                paid = (s + 1 - t) * (plain[end] - plain[t]) + tilted[end] - tilted[t]
                least = min(least, int((unit * (t + (o - a)) + paid).min()))
                first, length = first + length, 2 * length
            total += least
        return self._rounded_up(total)


class _PathProof(Proof):
    """Proof for preemptive schedules, by the least cost (latency plus prices) of each request.

    The least cost is over all choices of the rounds in which the request runs. The bound is the sum
    of these costs, minus the sum, over the rounds, of the largest total price of requests that fit
    into memory in the round.
    """

    preemptive = True

    def _least_payments(self, T: int, price: Callable[[int], Ints | int]) -> int:
        """Return the sum over all requests i of V_i, the least latency plus prices of request i.

        The minimum is over all choices of the rounds in which request i runs. V_i is in units of
        1 / scale rounds. ``price(m)`` returns the prices of holding m tokens in rounds 1 .. T,
        shape (T,), or 0 if all of them are 0.
        """
        total = 0
        for (s, o), alike in groupby(sorted(self.rows, key=lengths), lengths):
            arrivals = [a for a, _, _ in alike]
            steps = min(o, max(0, T - min(arrivals)))
            self.spend((1 + steps) * (limits.CALL + T))
            # Entry t = 0 .. T of `later` is F_k(t): the least value of
            #     scale * (last round of the request) + (sum of the prices that it pays after t)
            # if the request has produced k tokens by the end of round t. The first k is `steps`,
            # and the loop below goes down to k = 0.
            if steps == o:
                later = self.scale * np.arange(T + 1, dtype=np.int64)
            else:
                # T is the last round with a price, and `steps` is here T minus the first arrival. A
                # round gives a request at most one token. So for k = steps only entry t = T is
                # needed. No prices apply after T, so the last o - steps rounds then run without a
                # break.
                later = np.full(T + 1, self.scale * (T + o - steps), dtype=np.int64)
            for k in range(steps - 1, -1, -1):
                later[:-1] = later[1:] + price(s + k + 1)
                later[-1] = self.scale * (T + o - k)
                later = np.minimum.accumulate(later[::-1])[::-1]
            least = (int(later[a]) - self.scale * a if a < T else self.scale * o for a in arrivals)
            total += sum(least)
        return total


class PreemptiveMemoryProof(_PathProof):
    """Proof for preemptive schedules: each token held in a round costs the price of the round."""

    def bound(self) -> int:
        """Compute the lower bound on total latency that the prices prove, in rounds."""
        numerators = self._token_prices()
        T = len(numerators)
        self._refuse_overflow(self.limit * max(numerators, default=0), T)
        y = np.array(numerators, dtype=np.int64)
        paid = self._least_payments(T, lambda m: y * m)
        return self._rounded_up(paid - self.limit * sum(numerators))


class PreemptiveProof(_PathProof):
    """Proof for preemptive schedules, by prices of holding m tokens in each round.

    The certificate lists the numbers m. Other numbers of tokens have price 0.
    """

    keys = ("tokens", "prices")

    def bound(self) -> int:
        """Compute the lower bound on total latency that the prices prove, in rounds."""
        reason = f"prices: memory_limit {self.limit} is too large for prices by number of tokens"
        form.refuse_above(limits.LARGEST_TABLE_MEMORY, self.limit, reason)
        levels = form.wholes(self.part["tokens"], "tokens", minimum=1)
        in_order = sorted(set(levels)) == levels and max(levels, default=0) <= self.limit
        form.demand(in_order, "tokens: not increasing, or above memory_limit")
        rows = self._price_rows(len(levels))
        dearest = max((max(row, default=0) for row in rows), default=0)
        self._refuse_overflow(self.limit * dearest, len(rows))
        columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(levels)).T
        by_level = dict(zip(levels, columns, strict=True))
        paid = self._least_payments(len(rows), lambda m: by_level.get(m, 0))
        for r, row in enumerate(rows, 1):
            paid -= self._heaviest_set(r, [(m, q) for m, q in zip(levels, row, strict=True) if q])
        return self._rounded_up(paid)

    def _heaviest_set(self, r: int, priced: list[tuple[int, int]]) -> int:
        """Return the largest total price of requests that fit into memory together in round r.

        ``priced`` has the pairs (m, q_r(m)) of a number of tokens m and the price of holding m
        tokens in round r, for all positive prices.
        """
        if not priced:
            return 0
        # best[j] is the largest total price of a set of requests that hold at most j tokens
        # together.
        best = np.zeros(self.limit + 1, dtype=np.int64)
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

"""Proofs by state prices: prices of the states of requests that run together.

**Notation.** Request i = (a, s, o) started at t is, at epoch tau = t + age for age = 0 .. o - 1, in
*state* (m, r) = (s + age, o - age): it holds m + 1 tokens in round tau + 1 and still runs in the r
rounds tau + 1 .. tau + r. A *configuration* is a multiset of states that can occur together.

**What can occur together.** Read the states of one epoch in order of decreasing r. When the k-th is
read, the first k all run in round tau + r, where together they hold (sum of their m) + k r <= M.
So a multiset of states is admitted only if, read in that order, each member keeps
S + k r <= M, with k the members read and S the sum of their m. The heaviest total weight over
admitted multisets follows from a dynamic program over (k, S), in which a state is read at most as
often as there are requests that pass through it: `_heaviest`. Schedules realise admitted multisets
only, so the maximum is an upper bound on what any schedule can have together, which is all that is
used.

**Price bound.** Let Q(tau, m, r) >= 0 be prices in units of 1 / scale, and W_tau at least the
heaviest configuration under Q(tau, .). For any feasible schedule

    scale * TEL = sum_i P_i(t_i) - sum_tau (total price of what is active at tau)
               >= sum_i P_i(t_i) - sum_tau W_tau,

    P_i(t) = scale (t + o_i - a_i) + sum_age Q(t + age, s_i + age, o_i - age).

If the starts are known to lie in windows, lo_i <= t_i <= hi_i, each P_i(t_i) is at least its
minimum over the window: the bound on schedules within the windows. Past the last price P_i only
grows, by scale a round, so windows without an end need no horizon. TEL is an integer: bounds are
rounded up. *State prices* give Q itself, and W_tau by the dynamic program.

**Replicas.** The active requests on each of K replicas of memory M form a configuration of M, and
those on all replicas form one of K M. So K times the heaviest of M and the heaviest of K M are both
upper bounds on the price of all active requests of a fleet, and the price bound takes the smaller.
A search uses only K M: it replaces partial schedules of the one machine by others, which need not
be schedules of the fleet.

**State search.** State prices, and a budget that `hindsight.certificates.replay` exhausts under
them: the lower bound is one more.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from typing import ClassVar

import numpy as np

from . import limits
from .format import LIMIT, CertificateTooLargeError, MalformedCertificateError, list_of, wholes
from .limits import CALL
from .proofs import Ints, Numbers, Proof, lengths

CELLS = 1 << 17
"""Most entries of tables over (k, S), for all epochs that are computed at once."""


class StateProof(Proof):
    """Proof by state prices: a price of each state (m, r) of a request at each epoch."""

    keys: ClassVar[tuple[str, ...]] = ("states", "prices")
    sees_replicas: ClassVar[bool] = True
    """Whether the bound uses that each replica has its own memory limit, not only their sum."""

    def bound(self) -> int:
        """See `Proof.bound`."""
        self.read_prices()
        total = -sum(self.capacities())
        T = len(self.prices)
        epochs = self.scale * np.arange(T, dtype=np.int64)
        for (s, o), alike in groupby(sorted(self.rows, key=lengths), lengths):
            costs = epochs + self.payments(s, o)
            for a, _, _ in alike:
                self.spend(CALL + T)
                # Among the starts after the last price, the first is the cheapest.
                latest = self.scale * max(a, T)
                least = int(costs[a:].min(initial=latest))
                total += least + self.scale * (o - a)
        return self._rounded_up(total)

    def read_prices(self, *, of_each_start: bool = False) -> None:
        """Read ``self.states``, and ``self.prices`` by epoch and number of the state.

        With ``of_each_start``, refuse price tables that are too large to store the payments for
        every start.
        """
        # Number of machines by memory limit: each replica by itself, and all of them pooled.
        machines = self.instance.machines if self.sees_replicas else 1
        memories = {self.limit // machines: machines, self.limit: 1}
        self._memories = [one for one in memories.items() if one[0] <= limits.LARGEST_TABLE_MEMORY]
        if not self._memories:
            reason = f"states: memory_limit {min(memories)} is too large for state prices"
            raise CertificateTooLargeError(reason)
        prompts: dict[int, list[int]] = {}  # sorted prompts of the requests with each s + o
        for _, s, o in sorted(self.rows, key=lengths):
            prompts.setdefault(s + o, []).append(s)
        states: dict[tuple[int, int], int] = {}
        self._copies = []  # number of requests that pass through each state
        for state in list_of(self.part["states"], "states"):
            m, r = wholes(state, "states", 2)
            passing = bisect_right(prompts.get(m + r, []), m) if r else 0
            if not passing or (m, r) in states:
                reason = f"states: no request passes through ({m}, {r}), or it is given twice"
                raise MalformedCertificateError(reason)
            states[m, r] = len(states)
            self._copies.append(passing)
        rows = self._price_rows(len(states))
        self._refuse_overflow(sum(max(row, default=0) for row in rows), len(rows))
        if of_each_start and len(self.rows) * len(rows) > limits.LARGEST_EPOCH:
            raise CertificateTooLargeError("prices: too many for a search")
        self.states = states
        self.prices = np.array(rows, dtype=np.int64).reshape(len(rows), len(states))

    def payments(self, s: int, o: int) -> Ints:
        """Return the total price that a request of these lengths pays, by start, shape (T,)."""
        T = len(self.prices)
        total = np.zeros(T, dtype=np.int64)
        for age in range(min(o, T)):
            p = self.states.get((s + age, o - age))
            if p is not None:
                self.spend(CALL + T)
                total[: T - age] += self.prices[age:, p]
        return total

    def capacities(self) -> list[int]:
        """Return the capacity W of each epoch: the largest total price of a configuration.

        For a fleet it is an upper bound on the price of all active requests on all replicas. Epochs
        with the same prices as the epoch before are computed only once.
        """
        self.spend(CALL + self.prices.size)
        differs = np.ones(len(self.prices), dtype=np.bool_)
        differs[1:] = (self.prices[1:] != self.prices[:-1]).any(axis=1)
        weights = self.prices[differs].T
        found = [
            [machines * weight for weight in self._heaviest(limit, weights)]
            for limit, machines in self._memories
        ]
        heaviest = [*map(min, zip(*found, strict=True))]
        return [heaviest[k] for k in (np.cumsum(differs) - 1).tolist()]

    def _heaviest(self, limit: int, weights: Ints) -> list[int]:
        """Return the largest weight of a configuration within a memory limit, for each column.

        It is the dynamic program over (k, S) of *What can occur together*. No weight is negative.
        """
        # Every member of a configuration holds at least m + 1 tokens.
        most = limit // (1 + min(s for _, s, _ in self.rows))
        largest = limit * int(weights.max(initial=0))
        if largest >= LIMIT:
            raise CertificateTooLargeError("proof: a weight is too large")
        cells = (most + 1) * (limit + 1)
        width = max(1, CELLS // cells)
        in_order = sorted(self.states.items(), key=lambda state: -state[0][1])
        found: list[int] = []
        for begin in range(0, weights.shape[1], width):
            some = weights[:, begin : begin + width]
            some = some.astype(np.int32 if largest < 2**31 else np.int64)
            self.spend(CALL + some.size + 2 * cells * some.shape[1])
            # value[k, S]: largest weight of at most k members whose sum of m is at most S; if
            # members pass the test with k and S, they pass it with smaller numbers too.
            value = np.zeros((most + 1, limit + 1, some.shape[1]), dtype=some.dtype)
            for (m, r), p in in_order:
                if some[p].any():
                    self._append(value, m, r, self._copies[p], some[p])
            found += value.max(axis=(0, 1)).tolist()
        return found

    def _append(self, value: Numbers, m: int, r: int, copies: int, weight: Numbers) -> None:
        """Add up to ``copies`` members in state (m, r), in steps of 1, 2, 4, ... and the rest."""
        limit = value.shape[1] - 1
        top = min(len(value) - 1, limit // r)
        copies = min(copies, limit // (m + r))
        together = 1
        while copies:
            # Members in the same state fit if the test holds when the last of them is read.
            j = min(together, copies)
            self.spend(CALL + (top + 1) * (CALL // 4 + value[0].size))
            gain = j * weight
            for k in range(top, j - 1, -1):
                after = value[k, j * m : max(j * m, limit + 1 - k * r)]
                np.maximum(after, value[k - j, : len(after)] + gain, out=after)
            copies -= j
            together *= 2

"""Proofs by state prices: prices of the states of requests that run together.

**Notation.** Request i = (a, s, o) started at t is, at epoch tau = t + age for age = 0 .. o - 1, in
*state* (m, r) = (s + age, o - age): it holds m + 1 tokens in round tau + 1 and still runs in the r
rounds tau + 1 .. tau + r. A *configuration* is a multiset of states that can occur together.

**Capacities.** Sort the states of one epoch by decreasing r. The first k of them all run in round
tau + r, with r the rounds of the k-th, and hold S + k r tokens there, with S the sum of their m.
So every configuration passes this test: S + k r <= M for each of its members in that order. Let
V_r(k, S) be the largest total price that members of r or fewer rounds can add after k members whose
sum of m is S: V_0 = 0. V_r follows from V_(r - 1) by taking each state of r rounds at most as often
as there are requests that pass through it (`take_state`). V(0, 0) for the largest r is the largest
price of a multiset that passes the tests. It is at least the price of every configuration of a
schedule, which is all that the proof needs.

**Price bound.** Let Q(tau, m, r) >= 0 be prices in units of 1 / scale. Let the *capacity* W_tau be
at least the largest price of a configuration under Q(tau, .). For any feasible schedule

    scale * TEL = sum_i P_i(t_i) - sum_tau (total price of the states at tau)
               >= sum_i P_i(t_i) - sum_tau W_tau,

    P_i(t) = scale (t + o_i - a_i) + sum_age Q(t + age, s_i + age, o_i - age).

Each P_i(t_i) is at least its minimum over t >= a_i. After the last price P_i only grows, by scale
per round, so finitely many starts decide. TEL is an integer, so bounds are rounded up.

**Replicas.** The active requests on each of K replicas of memory M form a configuration of M, and
those on all replicas form one of K M. So K times the largest price for M and the largest price for
K M are both upper bounds on the price of all active requests of a fleet, and the price bound takes
the smaller. Searches use only K M: they replace partial schedules of the one machine by others,
which need not be schedules of the fleet.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from typing import ClassVar

import numpy as np

from . import limits
from .format import LIMIT, demand, list_of, refuse_above, wholes
from .limits import CALL
from .proofs import Ints, Numbers, Proof, lengths

CELLS = 1 << 17
"""Largest number of entries of the tables of largest total prices that are computed at once."""


class StateProof(Proof):
    """Proof by state prices: at each epoch, each state (m, r) of a request has a price.

    An epoch is the time between two rounds. A request in state (m, r) at an epoch has m tokens
    then, holds m + 1 in the next round, and still runs for r rounds.

    Attributes
    ----------
    states : dict[tuple[int, int], int]
        Column of ``prices`` of each priced state (m, r).
    prices : int64 array, shape (T, states)
        Price of each state at each epoch, in units of 1 / `Proof.scale` rounds.
    """

    keys: ClassVar[tuple[str, ...]] = ("states", "prices")
    sees_replicas: ClassVar[bool] = True
    """Whether the bound uses the memory limit of each replica, not only the sum of all limits."""

    def bound(self) -> int:
        """Return the lower bound on total latency, in rounds, that the prices prove."""
        self.read_prices()
        total = -sum(self.capacities())
        T = len(self.prices)
        epochs = self.scale * np.arange(T, dtype=np.int64)
        for (s, o), alike in groupby(sorted(self.rows, key=lengths), lengths):
            costs = epochs + self.payments(s, o)
            for a, _, _ in alike:
                self.spend(CALL + T)
                # ``costs`` has scale * t plus prices for the starts t < T. No prices apply from
                # epoch T on, the time after round T. So of the starts from T on the first one,
                # max(a, T), is the cheapest, and ``latest`` is its cost.
                latest = self.scale * max(a, T)
                least = int(costs[a:].min(initial=latest))
                total += least + self.scale * (o - a)
        return self._rounded_up(total)

    def read_prices(self, *, of_each_start: bool = False) -> None:
        """Read the parts ``states`` and ``prices`` of the proof.

        If ``of_each_start`` is true, refuse prices for which an array of the costs P_i(t), latency
        plus prices, of all requests i and starts t would take too much memory.
        """
        # ``memories`` maps a memory limit in tokens to the number of machines that have it. The
        # first entry is for the replicas, the second for one machine with the memory of all
        # replicas. Each gives an upper bound on the price of all active requests. With one replica,
        # both entries are the same.
        machines = self.instance.machines if self.sees_replicas else 1
        memories = {self.limit // machines: machines, self.limit: 1}
        self._memories = [one for one in memories.items() if one[0] <= limits.LARGEST_TABLE_MEMORY]
        reason = f"states: memory_limit {min(memories)} is too large for state prices"
        refuse_above(limits.LARGEST_TABLE_MEMORY, min(memories), reason)
        # ``prompts`` has, for each sum of prompt and output length, the sorted prompt lengths of
        # the requests with this sum. A request that has m tokens and r remaining rounds has the sum
        # m + r.
        prompts: dict[int, list[int]] = {}
        for _, s, o in sorted(self.rows, key=lengths):
            prompts.setdefault(s + o, []).append(s)
        states: dict[tuple[int, int], int] = {}
        # ``_copies`` has the number of requests that pass through each priced state (m, r): they
        # have m tokens when r rounds remain.
        self._copies = []
        for state in list_of(self.part["states"], "states"):
            m, r = wholes(state, "states", 2)
            passing = bisect_right(prompts.get(m + r, []), m) if r else 0
            reason = f"states: no request passes through ({m}, {r}), or it is given twice"
            demand(passing > 0 and (m, r) not in states, reason)
            states[m, r] = len(states)
            self._copies.append(passing)
        rows = self._price_rows(len(states))
        self._refuse_overflow(sum(max(row, default=0) for row in rows), len(rows))
        if of_each_start:
            starts = len(self.rows) * len(rows)
            refuse_above(limits.LARGEST_EPOCH, starts, "prices: too many for a search")
        self.states = states
        self.prices = np.array(rows, dtype=np.int64).reshape(len(rows), len(states))

    def table(self, rows: Ints) -> Ints:
        """Return the prices of states (m, r) as arrays indexed by m and r.

        An epoch is the time between two rounds. In state (m, r), a request has m tokens and r
        remaining rounds. ``rows`` are rows of ``prices``. Each row has the prices of the priced
        states at one epoch. The result has shape (rows, M + 1, M + 1), with M the memory limit.
        States that are not priced get 0.
        """
        prices = np.zeros((len(rows), self.limit + 1, self.limit + 1), dtype=np.int64)
        m, r = np.array([*self.states], dtype=np.int64).reshape(-1, 2).T
        prices[:, m, r] = rows
        return prices

    def payments(self, s: int, o: int) -> Ints:
        """Return the total price that a request pays for each start t = 0 .. T - 1, shape (T,).

        An epoch is the time between two rounds. The request has a prompt of s tokens and an output
        of o tokens. It pays the prices of its states (tokens, remaining rounds) at all epochs at
        which it is active. T is the number of epochs with prices.
        """
        T = len(self.prices)
        total = np.zeros(T, dtype=np.int64)
        for age in range(min(o, T)):
            p = self.states.get((s + age, o - age))
            if p is not None:
                self.spend(CALL + T)
                total[: T - age] += self.prices[age:, p]
        return total

    def start_costs(self) -> Ints:
        """Return the cost P_i(t) of each request i and start t = 0 .. T, shape (n, T + 1).

        An epoch is the time between two rounds. P_i(t) is the latency of request i if it starts at
        t, plus the prices of its states, in units of 1 / scale rounds. No prices apply from epoch T
        on, so from t = T on P_i(t) grows by ``self.scale`` per round.
        """
        paid = np.array([np.append(self.payments(s, o), 0) for _, s, o in self.rows])
        a, _, o = np.array(self.rows, dtype=np.int64).T
        costs: Ints = paid + self.scale * (np.arange(paid.shape[1]) + (o - a)[:, None])
        return costs

    def capacities(self) -> list[int]:
        """Return the capacity of each epoch: an upper bound on the price of all active requests.

        An epoch is the time between two rounds. If an epoch has the same prices as the epoch before
        it, its capacity is not computed again.
        """
        self.spend(CALL + self.prices.size)
        differs = np.ones(len(self.prices), dtype=np.bool_)
        differs[1:] = (self.prices[1:] != self.prices[:-1]).any(axis=1)
        found = [
            [machines * weight for weight in self._heaviest(limit, self.prices[differs])]
            for limit, machines in self._memories
        ]
        heaviest = [*map(min, zip(*found, strict=True))]
        return [heaviest[k] for k in (np.cumsum(differs) - 1).tolist()]

    def _heaviest(self, limit: int, prices: Ints) -> list[int]:
        """Return, for each epoch, the largest total price of states of requests that run together.

        An epoch is the time between two rounds. The requests must fit into a memory of ``limit``
        tokens. ``prices`` has the price of each state at each epoch, shape (epochs, states).
        """
        # ``most`` bounds the number of requests that can run together: each holds at least its
        # prompt and one more token.
        most = limit // (1 + min(s for _, s, _ in self.rows))
        largest = limit * int(prices.max(initial=0))
        refuse_above(LIMIT - 1, largest, "proof: a price is too large")
        cells = (most + 1) * (limit + 1)
        at_once = max(1, CELLS // cells)
        in_order = sorted(self.states.items(), key=lambda state: state[0][1])
        found: list[int] = []
        for begin in range(0, len(prices), at_once):
            some = prices[begin : begin + at_once]
            some = some.astype(np.int32 if largest < 2**31 else np.int64)
            self.spend(CALL + some.size + 2 * cells * len(some))
            # ``values`` has one table V for each epoch (time between two rounds) of this batch.
            # V(k, S) is the largest total price of further requests that fit into memory with k
            # requests that hold S tokens together. Each call of `take_state` allows the further
            # requests to be in one more state. No state is allowed yet, so all entries are 0.
            values = np.zeros((len(some), most + 1, limit + 1), dtype=some.dtype)
            for state, p in in_order:
                if some[:, p].any():
                    self.take_state(values, state, self._copies[p], some[:, p, None])
            found += values[:, 0, 0].tolist()
        return found

    def take_state(
        self, values: Numbers, state: tuple[int, int], copies: int, price: Numbers | int
    ) -> None:
        """Update tables of largest total prices so that requests may be in one more state (m, r).

        V(k, S) is the largest total price of further requests that fit into memory with k requests
        that hold S tokens together. The further requests may be in the states of earlier calls, and
        after this call also in state (m, r). The call adds groups of 1, 2, 4, ... requests in this
        state one after another. So every number of them up to ``copies`` is possible.

        Parameters
        ----------
        values : int array, shape (tables, members + 1, M + 1)
            Tables V(k, S) by k and S, changed in place. At most ``members`` requests can run
            together. Before the call, no request may be in this state.
        state : tuple[int, int]
            Tokens m that a request holds, and rounds r that it still runs.
        copies : int
            Largest number of requests in this state. More than M // (m + r) do not fit.
        price : int array, shape (tables, 1), or int
            Price of the state in each table.
        """
        m, r = state
        together = 1
        while copies:
            # Add j requests in state (m, r), which hold m tokens and run for r rounds still, to k
            # requests that hold S tokens together. If x of the j requests have been added, memory
            # holds S + x m + (k + x) r tokens in the r-th round from now, the last round of these
            # x. This number grows with x, so testing x = j is enough.
            j = min(together, copies)
            free = values.shape[2] - 1 - j * (m + r)
            numbers = range(min(free // r, values.shape[1] - 1 - j) + 1)
            self.spend(CALL + len(numbers) * (CALL // 4 + values[:, 0].size))
            gain = j * price
            for k in numbers:
                before = values[:, k, : free - k * r + 1]
                after = values[:, k + j, j * m : j * m + before.shape[1]]
                np.maximum(before, after + gain, out=before)
            copies -= j
            together *= 2

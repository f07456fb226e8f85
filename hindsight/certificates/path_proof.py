"""Proofs by graphs of paths: no schedule has a total latency within a limit.

The proof has state prices as in `hindsight.certificates.state_proofs`, and stages after which no
path is left with a total latency of at most ``limit``: the lower bound is ``limit`` + 1. A stage
gives start prices, and requests by which nodes are distinguished from then on. If start prices,
requests or limits are wrong, some paths are left and the check fails; it never accepts a false
bound.

This module is part of the checker (`hindsight.certificates.checking`). It shares no code with the
graphs of the solver and uses fewer rules, each of which is proved here in a few lines.

**Paths.** Let Q, W, P_i be the prices, capacities and priced costs of starts of the certificate
(`hindsight.certificates.state_proofs`), u_i numbers, *regrets* P_i(t_i) - u_i, *slacks* W_tau less
the price of all that is active at tau, and L = sum u_i - sum W_tau. Every schedule has

    scale * TEL = L + regrets of all + slacks of all epochs,                                  (1)

so a schedule within the limit has regrets and slacks of at most B = scale * limit - L in all.

A *graph* has, for each epoch, *nodes* and *bases*: a node leads from a base of its epoch (before
anything starts there) to one of the next (after what completes has gone), at its *cost*. It *holds*
a schedule if that follows a path from the first base to the last on which, for any start prices of
the requests *followed* and u_i = min P_i of all others, each node costs no more than the slack of
its epoch and the regrets of the followed ones that complete in its round. (Those not followed have
regrets >= 0, and no slack is negative.) The first graph, a chain that costs nothing, holds all.

**Dropping.** Under u, with F and G the least costs to a node and from it on (its own in G), nodes
with F + G > B are left out: by (1) no schedule within the limit that the graph holds passes them.

**Telling apart.** Nodes and bases of a new graph are those of the old one, each with what is known
of some requests more:

* *followed*: whether one is active, and since when. In the round in which it completes its regret
  is paid. The slack of a node is then W_tau, less the price of the followed ones active, less the
  most that others can add to it (`hindsight.certificates.path_states`);
* *tracked*: whether one has been started. A schedule starts each once: a path must not start it
  again, and ends only when it was. (What is active has been started.)

The new graph is built from its end to its start, and a new node is left out at once where F of the
old one and G of the new one exceed B under the u of the stage: a schedule that passes it paid F or
more before, where those followed only now pay regrets >= 0, and G or more from there.

Besides, what no schedule within the limit does is left out of new nodes:

* *fixed starts*: with u_i = min P_i for all, (1) has no negative terms, so none starts i at a t
  with P_i(t) - min P_i > B. Past all prices P_i grows by scale a round: starts end, and with them
  the epochs;
* *memory*: what is active at tau fits into round tau + 1. Where memory is handed out in blocks,
  prices are those of a relaxed instance in tokens (`hindsight.certificates.problem`), but here each
  request holds its whole blocks. With everybody followed, paths are schedules in blocks. Requests
  that are equal in the relaxed instance hold equal blocks (`hindsight.certificates.problem`);
* *twins*: of requests with equal (a, s, o) none starts while one of larger index is active and
  started earlier: sorting the starts of equal ones changes neither memory nor latency.

**Claim.** If there are schedules within the limit, there is one whose twins are in order, and each
stage keeps it as a path. So where no path is left, there are none.

Work is counted before it is done, and the memory in use is limited.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import limits
from .format import (
    LIMIT,
    CertificateTooLargeError,
    MalformedCertificateError,
    keys_of,
    list_of,
    shown,
    whole,
    wholes,
)
from .path_layers import FAR, Building, Graph, Layer, Stage
from .problem import Row
from .proofs import Flags, Ints, SearchFailedError
from .state_proofs import StateProof


class PathProof(StateProof):
    """Proof by state prices and stages that leave no path with a total latency within a limit."""

    sees_replicas = False
    keys = ("states", "prices", "limit", "stages")

    def bound(self) -> int:
        """Return one more than the limit within which no path is left.

        Raises
        ------
        SearchFailedError
            Paths are left, or the schedule of the certificate is within the limit.
        CertificateTooLargeError
            Prices, start prices or graphs are too large.
        """
        limit = whole(self.part["limit"], "limit")
        stages = self._stages()
        self.read_prices(of_each_start=True)
        # The size, a count of numbers in the proof and its instance, sets its share of the limits.
        named = sum(len(one) for stage in self.part["stages"] for one in stage.values())
        self.size = 3 * len(self.rows) + self.prices.size + named
        self.most_work = limits.part_of(limits.LARGEST_WORK, self.size)
        reason = f"stages: paths with a total latency within {limit} are left"
        self._refuse_schedule_within(limit, reason)
        self._begin(limit)
        if self.budget >= 0 and not any(self._closes(stage) for stage in stages):
            raise SearchFailedError(reason)
        return limit + 1

    def _stages(self) -> list[Stage]:
        listed = list_of(self.part["stages"], "stages")
        if len(listed) > limits.MOST_STAGES:
            raise CertificateTooLargeError("stages: too many")
        followed: set[int] = set()
        tracked: set[int] = set()
        stages = []
        for position, part in enumerate(listed):
            where = f"stage {position}"
            keys_of(part, ("start_prices", "followed", "tracked"), where)
            above = np.zeros(len(self.rows), dtype=np.int64)
            prices = wholes(part["start_prices"], where, minimum=-LIMIT)
            if len(prices) != len(followed):
                raise MalformedCertificateError(
                    f"{where}: {len(prices)} start prices for {len(followed)} followed requests"
                )
            above[sorted(followed)] = prices
            new = self._requests(part["followed"], followed, where)
            more = self._requests(part["tracked"], tracked, where)
            if not tracked <= followed:
                raise MalformedCertificateError(f"{where}: tracks a request that is not followed")
            stages.append(Stage(above, new, more))
        return stages

    def _requests(self, part: Any, before: set[int], where: str) -> list[int]:
        """Read requests that no earlier stage has named; add them to the set ``before``."""
        new = wholes(part, where)
        for i in new:
            if i >= len(self.rows):
                raise MalformedCertificateError(f"{where}: there is no request {shown(i)}")
        if len({*new}) < len(new) or before & {*new}:
            raise MalformedCertificateError(f"{where}: names a request twice")
        before |= {*new}
        return sorted(new)

    def _begin(self, limit: int) -> None:
        """Compute costs of starts and the budget B of *paths*; make the first graph, a chain."""
        rows, scale = self.rows, self.scale
        self.capacity = self.capacities()
        n, T = len(rows), len(self.capacity)
        arrivals, _, outputs = zip(*rows, strict=True)
        last = max(T, *arrivals)
        # For every request, a start at the last epoch costs at most this.
        largest = sum(self.capacity) + scale * (last + max(outputs))
        if largest >= FAR // (8 * n):
            raise CertificateTooLargeError("proof: the prices or the scale are too large")
        self.a, _, self.o = np.array(rows, dtype=np.int64).T
        size, stored = self.instance.block_size, np.array(self.instance.stored, dtype=np.int64)
        self.peaks = -(-(stored + self.o) // size) * size
        self.costs = np.array([self.payments(s, o) for _, s, o in rows]).reshape(n, T)
        self.costs += scale * (np.arange(T) + (self.o - self.a)[:, None])
        free = scale * (np.maximum(self.a, T) + self.o - self.a)
        late = np.arange(T) < self.a[:, None]
        self.least = np.minimum(free, np.where(late, FAR, self.costs).min(axis=1, initial=FAR))
        self.budget = scale * limit + sum(self.capacity) - sum(self.least.tolist())
        # *Fixed starts*: no request starts later than this, so the epochs end.
        epochs = last + max(0, self.budget) // scale + max(outputs) + 1
        if epochs > limits.LONGEST_PATH:
            raise CertificateTooLargeError("proof: its paths have too many epochs")
        self.spend(3 * limits.CALL * epochs)
        self.largest = n * (scale * (epochs + max(outputs)) + sum(self.capacity))
        twins: dict[Row, list[int]] = {}
        self.twins_before = []
        for i, row in enumerate(rows):
            self.twins_before.append(list(twins.get(row, [])))
            twins.setdefault(row, []).append(i)
        self.followed: list[int] = []
        nobody, one = np.zeros((1, n), dtype=np.bool_), np.zeros(1, dtype=np.int32)
        chain = Layer(one, one, one, np.zeros(1, dtype=np.int64), nobody)
        self.graph = Graph([chain] * epochs, [1] * (epochs + 1))

    def _closes(self, stage: Stage) -> bool:
        """Drop paths by the prices of a stage and distinguish its requests.

        Return whether no path is left.
        """
        paid = sum(map(abs, stage.above.tolist()))
        if self.largest + paid + abs(self.budget) >= FAR // 4:
            raise CertificateTooLargeError("proof: the prices or the scale are too large")
        budget = self.budget - sum(stage.above.tolist())
        forth = self._drop(stage.above, budget)
        if forth is None:
            return True
        if not stage.followed and not stage.tracked:
            return False
        building = Building(self, stage, budget, forth)
        if not building.run():
            return True
        self.graph, self.followed = building.graph, building.followed
        return False

    def _drop(self, above: Ints, budget: int) -> list[Ints] | None:
        """Drop the nodes with F + G > B (*dropping*); return F, or None if no node is left."""
        layers, bases = self.graph
        self.spend(3 * limits.CALL * len(layers) + 10 * sum(len(layer.before) for layer in layers))
        arcs: list[Ints] = []
        back: list[Ints] = []
        on = np.zeros(bases[-1], dtype=np.int64)
        for tau in range(len(layers) - 1, -1, -1):  # G
            layer = layers[tau]
            regrets = self.regrets(tau)[0] - above
            arcs.append(layer.slacks + (layer.ends.astype(np.int64) @ regrets)[layer.ended])
            back.append(arcs[-1] + on[layer.after])
            on = np.full(bases[tau], FAR)
            np.minimum.at(on, layer.before, back[-1])
        forth: list[Ints] = []
        on = np.zeros(1, dtype=np.int64)
        for tau, layer in enumerate(layers):  # F
            paid = on[layer.before]
            arc, kept = arcs.pop(), np.flatnonzero(paid + back.pop() <= budget)
            if not len(kept):
                return None
            on = np.full(bases[tau + 1], FAR)
            np.minimum.at(on, layer.after[kept], (paid + arc)[kept])
            # Without a copy, all layers of the first graph stay one shared object.
            layers[tau] = layer if len(kept) == len(paid) else layer.at(kept)
            forth.append(paid[kept])
        return forth

    def prices_at(self, tau: int) -> Ints:
        """Return Q(tau, m, r), shape (M + 1, M + 1)."""
        prices = np.zeros((self.limit + 1, self.limit + 1), dtype=np.int64)
        if tau < len(self.prices):
            m, r = np.array([*self.states], dtype=np.int64).reshape(-1, 2).T
            prices[m, r] = self.prices[tau]
        return prices

    def regrets(self, tau: int) -> tuple[Ints, Flags]:
        """Return the regret of each request if it completes in round tau + 1.

        Also return whether the start that this requires is allowed.
        """
        T, starts = len(self.capacity), tau + 1 - self.o
        free = self.scale * (starts + self.o - self.a)
        if T:
            priced = self.costs[np.arange(len(self.o)), np.clip(starts, 0, T - 1)]
            free = np.where(starts < T, priced, free)
        regrets: Ints = free - self.least
        # *Fixed starts*: starts with a larger regret are not within the budget.
        return regrets, (starts >= self.a) & (regrets <= self.budget)

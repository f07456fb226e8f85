"""Proofs by a search, replayed in plain Python: no schedule has a total latency within a budget.

This module is part of the checker (`hindsight.certificates.checking`). It shares no code with the
search of the solver and uses fewer rules, each of which is proved here in a few lines.

A *partial schedule* at epoch tau has all its starts before tau. It is stored as the set of started
requests, the memory that those still running will hold in rounds tau + 1, tau + 2, ... (its
*profile*) and its latency so far, f. Epoch by epoch, the search tries every way to start some of
the requests that have arrived, and removes the resulting partial schedules

* by its *bound*, if that exceeds the budget: with the prices Q and capacities W of the certificate
  every schedule that completes it has

      scale * TEL >= scale * f + (Q that its running requests pay from tau on)
                     + sum over unstarted i of min over t >= max(tau, a_i) of P_i(t)
                     - sum over epochs from tau on of W,

  since from tau on the prices paid by all are at most W at each epoch, and the past needs none;
* as a *twin*: requests with equal (a, s, o) start in the order of their index. Sorting the starts
  of twins changes neither memory nor latency;
* by *dominance*: another one at the same epoch has started the same requests, has no larger f and
  in no round a larger profile. Whatever completes the first completes the second, at no more.

*Claim.* If a schedule with TEL <= budget exists, then at every epoch some kept partial schedule has
a completion with TEL <= budget whose twins are in order. It is true of the empty one. The step of
such a completion is tried; its bound is at most the budget; if it is dominated, the same
completion of the one that stays takes its place (the twins left are the same). So if nothing is
left, and nothing complete has TEL <= budget, every schedule has TEL >= budget + 1.

A profile is one integer: a *field* of bits for each round, whose highest bit is clear. With all of
these bits set in y, y - x borrows none of them where x is nowhere larger than y; and where no field
exceeds M, two of them add up to less than the highest bit.

If no request runs or waits, the epochs up to the next arrival are skipped: no request can start in
them. A file may ask for a search that is too large. Such a search is given up: the partial
schedules kept for one epoch are limited by `limits.LARGEST_LAYER`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from . import limits
from .format import CertificateTooLargeError, whole
from .limits import PLAIN
from .problem import Row
from .proofs import SearchFailedError
from .state_proofs import StateProof

CACHED = 1000
"""Number of cached memory profiles of single requests."""


class _State(NamedTuple):
    """A partial schedule.

    ``started`` is a bit mask, ``volume`` the sum of ``profile``, and ``running`` has pairs of a
    running request and its start.
    """

    started: int
    profile: int
    volume: int
    latency: int
    bound: int
    running: tuple[tuple[int, int], ...]


_Layer = dict[int, dict[int, _State]]
"""Partial schedules of one epoch, by ``started`` and then by ``profile``."""


class SearchProof(StateProof):
    """Proof by search: pruned by state prices, no schedule costs at most the budget."""

    sees_replicas = False
    keys = ("states", "prices", "budget", "kept")

    def bound(self) -> int:
        """Run the search, and return one more than its budget.

        Raises
        ------
        SearchFailedError
            The search finds a schedule within the budget, or needs more partial schedules than the
            proof claims.
        CertificateTooLargeError
            The search would exceed the limits.
        """
        self.budget = whole(self.part["budget"], "budget")
        self.most_kept = whole(self.part["kept"], "kept")
        self.read_prices(of_each_start=True)
        self.refused = f"budget: there is a schedule within {self.budget}"
        self._refuse_schedule_within(self.budget, self.refused)
        self._prepare()
        total = sum(self._from_on(i, 0) for i in range(len(self.rows))) - sum(self.capacity)
        states, epoch = [_State(0, 0, 0, 0, total, ())], 0
        while states:
            self.leaves += len(states)
            self._refuse_more_than_kept(0)
            epoch, states = self._without_idling(epoch, states)
            states = self.undominated(self._following(epoch, states))
            epoch += 1
        return self.budget + 1

    def _prepare(self) -> None:
        """Precompute the costs of starts, the bit masks of profiles, and the twins."""
        self.capacity, self.paid = self.capacities(), self.prices.tolist()
        self.T, self.most = len(self.capacity), self.scale * self.budget
        starts = np.arange(self.T + 1, dtype=np.int64)
        # costs[i][t]: P_i(t), t = 0 .. T; least[i][t]: least P_i over starts t .. T
        self.costs = [
            np.append(self.payments(s, o), 0) + self.scale * (starts + (o - a))
            for a, s, o in self.rows
        ]
        self.least = [np.minimum.accumulate(costs[::-1])[::-1] for costs in self.costs]
        longest = max(o for _, _, o in self.rows)
        self.field = (2 * self.limit).bit_length() + 1
        self.ones = sum(1 << k * self.field for k in range(longest))
        self.ramp = sum(k + 1 << k * self.field for k in range(longest))
        self.highest = self.ones << self.field - 1
        self.full = self.highest + self.limit * self.ones
        self.own = lru_cache(maxsize=CACHED)(self._own)
        latest: dict[Row, int] = {}
        self.twin = []  # the previous request with the same row, as a bit, or 0
        for i, row in enumerate(self.rows):
            self.twin.append(1 << latest[row] if row in latest else 0)
            latest[row] = i

    def _own(self, s: int, o: int) -> int:
        """Return the profile of one request: s + 1 .. s + o tokens."""
        return (s * self.ones + self.ramp) & ((1 << o * self.field) - 1)

    def _rounds(self, profile: int) -> int:
        """Count the rounds of a profile."""
        return -(-profile.bit_length() // self.field)

    def _refuse_more_than_kept(self, further: int) -> None:
        """Refuse a search that, with ``further`` states, has more of them than claimed."""
        if self.leaves + further > self.most_kept:
            raise SearchFailedError(
                f"kept: the search for budget {self.budget} needs more than {self.most_kept} states"
            )

    def _cost(self, i: int, t: int) -> int:
        """Return P_i(t)."""
        a, _, o = self.rows[i]
        return int(self.costs[i][t]) if t <= self.T else self.scale * (t + o - a)

    def _from_on(self, i: int, tau: int) -> int:
        """Return the least P_i over starts from tau on; after T, P_i only grows."""
        first = max(tau, self.rows[i][0])
        return int(self.least[i][first]) if first <= self.T else self._cost(i, first)

    def _without_idling(self, epoch: int, states: list[_State]) -> tuple[int, list[_State]]:
        """Skip to the epoch of the next arrival if no request runs or waits in any state."""
        if any(state.profile for state in states):
            return epoch, states
        self.spend(PLAIN * len(states) * len(self.rows))
        arrivals = [
            a
            for state in states
            for i, (a, _, _) in enumerate(self.rows)
            if not state.started >> i & 1
        ]
        following = min(arrivals, default=epoch)
        if following <= epoch:
            return epoch, states
        passed = sum(self.capacity[epoch:following])
        later = [state._replace(bound=state.bound + passed) for state in states]
        return following, [state for state in later if state.bound <= self.most]

    def _following(self, epoch: int, states: list[_State]) -> _Layer:
        """Create the children of all states; raise if one is a complete schedule within the budget.

        At least one child with each set of started requests will survive dominance, so their number
        is counted at once.
        """
        arrived = [i for i, (a, _, _) in enumerate(self.rows) if a <= epoch]
        # The rise of the bound for a request that starts now, and for one that does not; the latter
        # is 0 before its arrival.
        regret = {i: self._cost(i, epoch) - self._from_on(i, epoch) for i in arrived}
        rise = {i: self._from_on(i, epoch + 1) - self._from_on(i, epoch) for i in arrived}
        everything = (1 << len(self.rows)) - 1
        layer: _Layer = {}
        self.held = 0
        self.spend(PLAIN * len(self.rows))
        for state in states:
            waiting = [i for i in arrived if not state.started >> i & 1]
            self.spend(PLAIN * (20 + len(arrived)))
            # The last entry is the rise of the bound if none of the unstarted requests starts now.
            pending = [(0, state, sum(rise[i] for i in waiting))]
            while pending:
                position, part, rises = pending.pop()
                self.spend(PLAIN * 10)
                if part.started == everything:
                    if part.latency <= self.budget:
                        raise SearchFailedError(self.refused)
                    continue
                if position == len(waiting):
                    self._keep(epoch, part, rises, layer)
                    self._refuse_more_than_kept(len(layer))
                    continue
                i = waiting[position]
                pending.append((position + 1, part, rises))
                a, s, o = self.rows[i]
                bound = part.bound + regret[i]
                # *Bound* and *twins*.
                if bound > self.most or (self.twin[i] and not part.started & self.twin[i]):
                    continue
                profile = part.profile + self.own(s, o)
                self.spend(PLAIN * self._rounds(profile))
                if (self.full - profile) & self.highest != self.highest:
                    continue
                child = _State(
                    part.started | 1 << i,
                    profile,
                    part.volume + o * s + o * (o + 1) // 2,
                    part.latency + epoch + o - a,
                    bound,
                    (*part.running, (i, epoch)),
                )
                pending.append((position + 1, child, rises - rise[i]))
        return layer

    def _keep(self, epoch: int, state: _State, rises: int, layer: _Layer) -> None:
        """Advance a state to the next epoch; add it to the layer unless its bound is too high."""
        bound = state.bound + rises
        if bound > self.most:
            return
        self.spend(PLAIN * (self._rounds(state.profile) + 10 * len(state.running)))
        if epoch < self.T:
            bound += self.capacity[epoch]
            for i, t in state.running:
                _, s, o = self.rows[i]
                p = self.states.get((s + epoch - t, t + o - epoch))
                bound -= 0 if p is None else self.paid[epoch][p]
            if bound > self.most:
                return
        profile = state.profile >> self.field
        group = layer.setdefault(state.started, {})
        known = group.get(profile)
        if known is not None and known.latency <= state.latency:
            return
        running = tuple((i, t) for i, t in state.running if t + self.rows[i][2] > epoch + 1)
        volume = state.volume - (state.profile & (1 << self.field) - 1)
        group[profile] = _State(state.started, profile, volume, state.latency, bound, running)
        self.held += 20 + self._rounds(profile) + len(running)
        if self.held > limits.LARGEST_LAYER:
            raise CertificateTooLargeError("proof: the search takes more than this checker does")

    def undominated(self, layer: _Layer) -> list[_State]:
        """Return the states of a layer that are not dominated by another state."""
        result = []
        highest = self.highest
        for group in layer.values():
            kept: list[_State] = []
            for state in sorted(group.values(), key=lambda state: (state.latency, state.volume)):
                self.spend(PLAIN * (self._rounds(state.profile) + 4 * len(kept)))
                above = state.profile | highest
                if not any((above - other.profile) & highest == highest for other in kept):
                    kept.append(state)
            result += kept
        return result

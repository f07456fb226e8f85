"""Replay of a search, in plain Python: no schedule has a total latency within a budget.

Part of the checker (`hindsight.certificates.checking`): it shares no code with the solver's search
and uses fewer rules, each of which is proved here in a few lines.

A *partial schedule* at epoch tau has all its starts before tau. It is kept as the set of requests
started, the memory that those still running will hold in rounds tau + 1, tau + 2, ... (its
*profile*) and its latency so far, f. Epoch by epoch, every way to start some of the requests that
have arrived is tried, and what results is removed

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

Where nothing runs and nobody waits, the epochs up to the next arrival are passed at once: nothing
can start in them. A search that a file asks for may be hopeless, and is given up: what is kept of
one epoch is limited by `LARGEST_LAYER`, what is done in all by `LARGEST_SEARCH`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .format import CertificateTooLargeError
from .problem import Row
from .proofs import SearchFailedError

LARGEST_LAYER = 10_000_000
"""Most numbers in the partial schedules of one epoch."""

LARGEST_SEARCH = 2_000_000_000
"""Most numbers visited in a search, which takes some minutes."""

CACHED = 1000
"""Profiles of one request that are kept."""

POLLED = 1_000_000
"""Numbers visited between two calls of ``should_stop``."""


TOO_LARGE = "proof: the search takes more than this checker does"


class Prices(NamedTuple):
    """Prices as the search needs them, in units of 1 / scale; entries past T are 0.

    Attributes
    ----------
    scale : int
        The denominator.
    capacities : Sequence[int]
        W, length T.
    costs : Sequence[Sequence[int] | int64 array]
        P_i(t) for t = 0 .. T, of each request.
    states : Mapping[tuple[int, int], int]
        The number of each priced state (m, r).
    paid : Sequence[Sequence[int]]
        Q(tau, m, r) as ``paid[tau][states[m, r]]``, length T; other states pay nothing.
    """

    scale: int
    capacities: Sequence[int]
    costs: Sequence[Sequence[int] | npt.NDArray[np.int64]]
    states: Mapping[tuple[int, int], int]
    paid: Sequence[Sequence[int]]


class _State(NamedTuple):
    """A partial schedule; ``volume`` is the sum of its profile, ``running`` who started when."""

    started: int
    profile: int
    volume: int
    latency: int
    bound: int
    running: tuple[tuple[int, int], ...]


_Layer = dict[int, dict[int, _State]]
"""Partial schedules of one epoch, by what has started and by profile."""


class StateSearch:
    """Search for schedules with TEL <= budget.

    Parameters
    ----------
    rows : Sequence[Row]
        (arrival, prompt, output) of each request.
    memory_limit : int
        M, tokens.
    prices : Prices
        Prices of the states at each epoch.
    budget : int
        Total latency for which the proof claims that no schedule is within it.
    should_stop : Callable[[], bool] or None, default None
        Polled; returning True ends the search as if it needed too many states.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        memory_limit: int,
        prices: Prices,
        budget: int,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self.rows = rows
        self.limit = memory_limit
        self.prices = prices
        self.T = len(prices.capacities)
        self.most = prices.scale * budget
        self.budget = budget
        self.should_stop = should_stop
        self.visited = self.polled = 0
        self.everything = (1 << len(rows)) - 1
        longest = max(o for _, _, o in rows)
        self.field = (2 * memory_limit).bit_length() + 1
        self.ones = sum(1 << k * self.field for k in range(longest))
        self.ramp = sum(k + 1 << k * self.field for k in range(longest))
        self.highest = self.ones << self.field - 1
        self.full = self.highest + memory_limit * self.ones
        self.own = lru_cache(maxsize=CACHED)(self._own)
        latest: dict[Row, int] = {}
        self.twin = []  # the previous request with the same row, as a bit, or 0
        for i, row in enumerate(rows):
            self.twin.append(1 << latest[row] if row in latest else 0)
            latest[row] = i
        # least[i][t]: least P_i over starts t .. T
        self.least = [np.minimum.accumulate(np.array(costs)[::-1])[::-1] for costs in prices.costs]

    def _own(self, s: int, o: int) -> int:
        """Profile of one request: s + 1 .. s + o tokens."""
        return (s * self.ones + self.ramp) & ((1 << o * self.field) - 1)

    def _rounds(self, profile: int) -> int:
        """Count the rounds of a profile."""
        return -(-profile.bit_length() // self.field)

    def exhaust(self, most_states: int) -> int:
        """Check that no such schedule exists; return the number of partial schedules kept.

        Raises
        ------
        SearchFailedError
            A schedule exists, more than ``most_states`` are needed, or the search was stopped.
        CertificateTooLargeError
            The search would exceed `LARGEST_LAYER` or `LARGEST_SEARCH`.
        """
        self.most_states, self.kept = most_states, 0
        states, epoch = [self._empty()], 0
        while states:
            self.kept += len(states)
            self.refuse_more_than_kept(0)
            epoch, states = self.without_idling(epoch, states)
            states = self.undominated(self.following(epoch, states))
            epoch += 1
        return self.kept

    def refuse_more_than_kept(self, further: int) -> None:
        """Raise SearchFailedError if ``further`` more states would exceed the number allowed."""
        if self.kept + further > self.most_states:
            raise SearchFailedError(
                f"kept: the search for budget {self.budget} needs more than {self.most_states} "
                "states"
            )

    def spend(self, numbers: int) -> None:
        """Count numbers that are about to be visited, and sometimes poll ``should_stop``."""
        self.visited += numbers
        if self.visited > LARGEST_SEARCH:
            raise CertificateTooLargeError(TOO_LARGE)
        if self.should_stop is not None and self.visited >= self.polled:
            self.polled = self.visited + POLLED
            if self.should_stop():
                raise SearchFailedError("proof: the search was stopped")

    def cost(self, i: int, t: int) -> int:
        """Return P_i(t)."""
        if t <= self.T:
            return int(self.prices.costs[i][t])
        a, _, o = self.rows[i]
        return self.prices.scale * (t + o - a)

    def from_on(self, i: int, tau: int) -> int:
        """Return the least P_i over starts from tau on; past T costs only grow."""
        first = max(tau, self.rows[i][0])
        return int(self.least[i][first]) if first <= self.T else self.cost(i, first)

    def _empty(self) -> _State:
        bound = sum(self.from_on(i, 0) for i in range(len(self.rows)))
        return _State(0, 0, 0, 0, bound - sum(self.prices.capacities), ())

    def without_idling(self, epoch: int, states: list[_State]) -> tuple[int, list[_State]]:
        """Skip to the epoch of the next arrival where nothing runs and no request waits."""
        if any(state.profile for state in states):
            return epoch, states
        self.spend(len(states) * len(self.rows))
        arrivals = [
            a
            for state in states
            for i, (a, _, _) in enumerate(self.rows)
            if not state.started >> i & 1
        ]
        following = min(arrivals, default=epoch)
        if following <= epoch:
            return epoch, states
        passed = sum(self.prices.capacities[epoch:following])
        later = [state._replace(bound=state.bound + passed) for state in states]
        return following, [state for state in later if state.bound <= self.most]

    def following(self, epoch: int, states: list[_State]) -> _Layer:
        """Create the children of all states; raise if one is a schedule within the budget.

        At least one child of every set of started requests will be kept.
        """
        arrived = [i for i, (a, _, _) in enumerate(self.rows) if a <= epoch]
        # The extra cost of a request that starts now, and of one that does not; the latter is 0
        # before its arrival.
        regret = {i: self.cost(i, epoch) - self.from_on(i, epoch) for i in arrived}
        rise = {i: self.from_on(i, epoch + 1) - self.from_on(i, epoch) for i in arrived}
        layer: _Layer = {}
        self.held = 0
        self.spend(len(self.rows))
        for state in states:
            waiting = [i for i in arrived if not state.started >> i & 1]
            self.spend(20 + len(arrived))
            # The last entry is the extra cost of all unstarted requests if none of them starts now.
            pending = [(0, state, sum(rise[i] for i in waiting))]
            while pending:
                position, part, rises = pending.pop()
                self.spend(10)
                if part.started == self.everything:
                    if part.latency <= self.budget:
                        raise SearchFailedError(f"budget: there is a schedule within {self.budget}")
                    continue
                if position == len(waiting):
                    self._keep(epoch, part, rises, layer)
                    self.refuse_more_than_kept(len(layer))
                    continue
                i = waiting[position]
                pending.append((position + 1, part, rises))
                a, s, o = self.rows[i]
                bound = part.bound + regret[i]
                if bound > self.most or (self.twin[i] and not part.started & self.twin[i]):
                    continue
                profile = part.profile + self.own(s, o)
                self.spend(self._rounds(profile))
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
        """Add a state to the layer of the next epoch."""
        bound = state.bound + rises
        if bound > self.most:
            return
        self.spend(self._rounds(state.profile) + 10 * len(state.running))
        if epoch < self.T:
            bound += self.prices.capacities[epoch]
            for i, t in state.running:
                _, s, o = self.rows[i]
                p = self.prices.states.get((s + epoch - t, t + o - epoch))
                bound -= 0 if p is None else self.prices.paid[epoch][p]
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
        if self.held > LARGEST_LAYER:
            raise CertificateTooLargeError(TOO_LARGE)

    def undominated(self, layer: _Layer) -> list[_State]:
        """Return the states that no other state dominates."""
        result = []
        for group in layer.values():
            kept: list[_State] = []
            for state in sorted(group.values(), key=lambda state: (state.latency, state.volume)):
                self.spend(self._rounds(state.profile) + 4 * len(kept))
                highest = self.highest
                above = state.profile | highest
                if not any((above - other.profile) & highest == highest for other in kept):
                    kept.append(state)
            result += kept
        return result

"""Proofs by a search in plain Python: no schedule has a total latency within a budget.

This module is part of the checker (`hindsight.certificates.checking`). It shares no code with the
search of the solver and uses fewer rules, each of which is proved here in a few lines.

A *partial schedule* at epoch tau has all its starts before tau. It is stored as the set of started
requests, the tokens that those still running will hold in rounds tau + 1, tau + 2, ... (its
*profile*) and its latency so far, f. Epoch by epoch, the search tries every way to start some of
the requests that have arrived, and removes partial schedules by three rules:

* *bound*: with the prices Q and capacities W of the certificate
  (`hindsight.certificates.state_proofs`), every schedule that completes the partial one has

      scale * TEL >= scale * f + (Q that its running requests pay from tau on)
                     + sum over unstarted i of min over t >= max(tau, a_i) of P_i(t)
                     - sum over epochs from tau on of W,

  because at each epoch from tau on, all requests together pay at most W. The partial schedule is
  removed if the right-hand side exceeds scale * budget;
* *twins*: requests with equal (a, s, o) start in the order of their index. Sorting the starts of
  twins changes neither memory nor latency;
* *dominance*: a partial schedule is removed if another one at the same epoch has started the same
  requests, has no larger f, and has no larger profile in any round. Later starts that complete the
  removed one also complete the other one, at no higher cost.

*Claim.* If a schedule with TEL <= budget exists, then at every epoch some stored partial schedule
has a completion with TEL <= budget whose twins are in order. This is true of the empty partial
schedule. From epoch to epoch, the starts of such a completion are tried, and the bound does not
exceed the budget. If the result is dominated, its completion also completes the partial schedule
that dominates it: the unstarted twins are the same. So if no partial schedule is left, and no
complete schedule with TEL <= budget was found, every schedule has TEL >= budget + 1.

A profile is one integer with a *field* of bits for each round. The highest bit of each field is 0.
To compare profiles x and y, set the highest bit of each field of y, and subtract x. All these bits
are still set in the difference if and only if x exceeds y in no round. The sum of two fields stays
below the highest bit if neither exceeds M.

If no request runs or waits, the epochs up to the next arrival are skipped: no request can start in
them. A search that stores more than `limits.LARGEST_LAYER` numbers for one epoch is refused.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import limits
from .format import refuse_above, whole
from .limits import PLAIN
from .problem import Row
from .proofs import Ints, SearchFailedError
from .state_proofs import StateProof


class _State(NamedTuple):
    """A partial schedule of the search at an epoch: all its starts are before the epoch.

    An epoch is the time between two rounds.

    Attributes
    ----------
    started : int
        Bit i is set if request i has been started.
    profile : int
        Tokens that the running requests hold in each later round: one integer, in which each round
        has a group of bits of its own. The next round has the lowest bits.
    latency : int
        Total latency f of the started requests, in rounds.
    bound : int
        Lower bound, by prices, on the total latency of every schedule that extends this partial
        one, in units of 1 / scale rounds (rule *bound* of the module docstring).
    running : tuple[tuple[int, int], ...]
        Index and start of each request that still runs.
    """

    started: int
    profile: int
    latency: int
    bound: int
    running: tuple[tuple[int, int], ...]


_Layer = dict[int, dict[int, _State]]
"""Partial schedules of an epoch, by started requests and then by the memory held in each round."""


class SearchProof(StateProof):
    """Proof by an exhaustive search that finds no schedule with a total latency within a budget.

    The certificate has the budget, which is the largest total latency that the proof excludes, in
    rounds. It also has the prices that prune the search. The checker runs the search again.
    """

    sees_replicas = False
    keys = ("states", "prices", "budget", "kept")

    def bound(self) -> int:
        """Run the search, which must find no schedule within the budget. Return the budget + 1.

        The budget is the largest total latency, in rounds, that the proof excludes.

        Raises
        ------
        SearchFailedError
            The search finds a schedule within the budget, or stores more partial schedules than
            the certificate claims.
        CertificateTooLargeError
            The search would exceed the limits of the checker.
        """
        self.budget = whole(self.part["budget"], "budget")
        self.most_kept = whole(self.part["kept"], "kept")
        self.read_prices(of_each_start=True)
        self.refused = f"budget: there is a schedule within {self.budget}"
        self._refuse_schedule_within(self.budget, self.refused)
        self._prepare()
        least = sum(self._at(self.least, i, a) for i, (a, _, _) in enumerate(self.rows))
        states, epoch = [_State(0, 0, 0, least - sum(self.capacity), ())], 0
        while states:
            self.leaves += len(states)
            self._refuse_more_than_kept(0)
            epoch, states = self._without_idling(epoch, states)
            states = self.undominated(self._following(epoch, states))
            epoch += 1
        return self.budget + 1

    def _prepare(self) -> None:
        """Compute the costs of starts, bit masks for profiles, and the twin before each request.

        The cost of a start is latency plus prices. A profile is the memory that running requests
        hold in later rounds, as one integer. Twins are requests with equal arrival, prompt and
        output: they start in the order of their indices.
        """
        self.capacity, self.paid = self.capacities(), self.prices.tolist()
        self.T, self.most = len(self.capacity), self.scale * self.budget
        # Entry (i, t) of ``costs`` is the cost P_i(t), latency plus prices, of request i with start
        # t = 0 .. T. The same entry of ``least`` is the least cost of a start from t on.
        self.costs = self.start_costs()
        self.least = np.minimum.accumulate(self.costs[:, ::-1], axis=1)[:, ::-1]
        longest = max(o for _, _, o in self.rows)
        self.field = (2 * self.limit).bit_length() + 1
        self.ones = sum(1 << k * self.field for k in range(longest))
        self.ramp = sum(k + 1 << k * self.field for k in range(longest))
        self.highest = self.ones << self.field - 1
        self.full = self.highest + self.limit * self.ones
        latest: dict[Row, int] = {}
        # ``twin`` has a bit mask for each request: 2 ** (index of the last request before it with
        # equal arrival, prompt and output), or 0 if there is none.
        self.twin = []
        for i, row in enumerate(self.rows):
            self.twin.append(1 << latest[row] if row in latest else 0)
            latest[row] = i

    def _own(self, s: int, o: int) -> int:
        """Return the memory that a request holds in each round if it starts now, as one integer.

        The request holds s + 1, s + 2, .., s + o tokens in the next o rounds. Each round has a
        group of ``self.field`` bits of the integer. The next round has the lowest bits.
        """
        return (s * self.ones + self.ramp) & ((1 << o * self.field) - 1)

    def _rounds(self, profile: int) -> int:
        """Return the number of rounds until all running requests complete.

        A profile is the memory that running requests hold in later rounds: an integer with
        ``self.field`` bits per round.
        """
        return -(-profile.bit_length() // self.field)

    def _refuse_more_than_kept(self, further: int) -> None:
        """Raise SearchFailedError if the search stores more partial schedules than it may.

        It may store as many as the certificate claims with ``kept``. ``further`` is the least
        number of partial schedules that will be stored but are not counted yet.
        """
        if self.leaves + further > self.most_kept:
            reason = f"the search needs more than {self.most_kept} partial schedules"
            raise SearchFailedError(f'"kept" is too low: {reason}')

    def _at(self, costs: Ints, i: int, t: int) -> int:
        """Return the entry of ``costs`` for request i and start t, which may exceed T.

        ``costs`` is ``self.costs``, the cost (latency plus prices) of each start, or
        ``self.least``, the least cost of this or a later start. Both have entries for t = 0 .. T
        and grow by ``scale`` per round from T on, because no prices apply there.
        """
        return int(costs[i, min(t, self.T)]) + self.scale * max(0, t - self.T)

    def _without_idling(self, epoch: int, states: list[_State]) -> tuple[int, list[_State]]:
        """Skip to the next arrival if, in all partial schedules, no request runs or waits.

        No request can start in the skipped epochs (times between two rounds). Return the new epoch,
        and the partial schedules at that epoch whose lower bounds on total latency do not exceed
        the budget, the largest total latency that the proof excludes.
        """
        if any(state.profile for state in states):
            return epoch, states
        self.spend(PLAIN * len(states) * len(self.rows))
        # Bit i of ``started`` is set if every partial schedule has started request i.
        started = -1
        for state in states:
            started &= state.started
        arrivals = (a for i, (a, _, _) in enumerate(self.rows) if not started >> i & 1)
        following = min(arrivals, default=epoch)
        if following <= epoch:
            return epoch, states
        passed = sum(self.capacity[epoch:following])
        later = [state._replace(bound=state.bound + passed) for state in states]
        return following, [state for state in later if state.bound <= self.most]

    def _following(self, epoch: int, states: list[_State]) -> _Layer:
        """Create the partial schedules of the next epoch from those of the present one.

        For each set of started requests, at least one partial schedule will be stored. So if the
        number of these sets exceeds the number of partial schedules that the certificate claims
        (``kept``), the search fails before dominated partial schedules are removed. An epoch is the
        time between two rounds. The budget is the largest total latency that the proof excludes.

        Raises
        ------
        SearchFailedError
            A schedule with a total latency within the budget is found, or more partial schedules
            are stored than the certificate claims.
        """
        arrived = [i for i, (a, _, _) in enumerate(self.rows) if a <= epoch]
        # The lower bound counts, for each request that is not started, the least cost of a start
        # from this epoch on. For each arrived request, ``regret`` is the rise of the bound if the
        # request starts now, and ``rise`` the rise if it starts later. A request that has not
        # arrived causes no rise.
        least = {i: self._at(self.least, i, epoch) for i in arrived}
        regret = {i: self._at(self.costs, i, epoch) - least[i] for i in arrived}
        rise = {i: self._at(self.least, i, epoch + 1) - least[i] for i in arrived}
        everything = (1 << len(self.rows)) - 1
        layer: _Layer = {}
        self.held = 0
        self.spend(PLAIN * len(self.rows))
        for state in states:
            waiting = [i for i in arrived if not state.started >> i & 1]
            self.spend(PLAIN * (20 + len(arrived)))
            # Decide for each waiting request, one after another, whether it starts now. Each entry
            # of ``pending`` has the number of requests decided so far, the partial schedule with
            # those that start, and the rise of its lower bound if all undecided requests wait.
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
                # Start request i now, unless the lower bound on total latency would then exceed
                # the budget (largest total latency that the proof excludes), or an equal request of
                # smaller index (a twin) has not been started.
                if bound > self.most or (self.twin[i] and not part.started & self.twin[i]):
                    continue
                profile = part.profile + self._own(s, o)
                self.spend(PLAIN * self._rounds(profile))
                if (self.full - profile) & self.highest != self.highest:
                    continue
                started, running = part.started | 1 << i, (*part.running, (i, epoch))
                child = _State(started, profile, part.latency + epoch + o - a, bound, running)
                pending.append((position + 1, child, rises - rise[i]))
        return layer

    def _keep(self, epoch: int, state: _State, rises: int, layer: _Layer) -> None:
        """Advance a partial schedule to the next epoch, and add it to ``layer`` if needed.

        It is not needed if its lower bound on total latency exceeds the budget, or if another one
        with equal started requests and equal profile (memory held in later rounds) has no larger
        latency. The budget is the largest total latency that the proof excludes. ``rises`` is the
        amount by which the requests that wait at ``epoch`` raise the lower bound, in units of
        1 / scale rounds.
        """
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
        group[profile] = _State(state.started, profile, state.latency, bound, running)
        self.held += 20 + self._rounds(profile) + len(running)
        reason = "proof: the search takes more memory than this checker allows"
        refuse_above(limits.LARGEST_LAYER, self.held, reason)

    def undominated(self, layer: _Layer) -> list[_State]:
        """Return the partial schedules of one epoch that no other partial schedule dominates.

        Let two partial schedules have started the same requests. The first one dominates the second
        one if its latency is no larger and it holds no more memory in any later round.
        """
        result = []
        highest = self.highest
        for group in layer.values():
            kept: list[_State] = []
            # Sort by latency, then by profile, the memory held in later rounds as one integer. Then
            # a partial schedule comes after all that dominate it: their latency is no larger, and a
            # profile that is larger in no round is not larger as an integer either. So it is enough
            # to compare each partial schedule with those before it.
            for state in sorted(group.values(), key=lambda state: (state.latency, state.profile)):
                self.spend(PLAIN * (self._rounds(state.profile) + 4 * len(kept)))
                above = state.profile | highest
                if not any((above - other.profile) & highest == highest for other in kept):
                    kept.append(state)
            result += kept
        return result

"""Replaying a search: that no schedule has a total latency of at most a budget, in plain Python.

Part of the checker (`hindsight.certificate_check`): it shares no code with the solver's search and
uses fewer rules, each of which is proved here in a few lines.

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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

Row = tuple[int, int, int]


class Prices(NamedTuple):
    """What the search needs of the prices, in units of 1 / scale; entries past T are unpriced.

    Attributes
    ----------
    scale : the denominator.
    capacities : W, length T.
    costs : P_i(t) for t = 0 .. T, one list per request.
    paid : Q(tau, m, r) as ``paid(tau, m, r)``, for tau < T.
    """

    scale: int
    capacities: Sequence[int]
    costs: Sequence[Sequence[int]]
    paid: Callable[[int, int, int], int]


class _State(NamedTuple):
    started: int
    profile: tuple[int, ...]
    latency: int
    bound: int
    running: tuple[tuple[int, int], ...]


class TooManyStatesError(Exception):
    """The search met more partial schedules than it may keep."""


def count_states(
    rows: Sequence[Row],
    memory_limit: int,
    prices: Prices,
    budget: int,
    most_states: int,
    should_stop: Callable[[], bool] | None = None,
) -> int | None:
    """Exhaust the schedules with TEL <= budget.

    Parameters
    ----------
    rows : (arrival, prompt, output) of each request.
    most_states : partial schedules kept over all epochs, at most.
    should_stop : asked now and then; True ends the search like too many states.

    Returns
    -------
    The number of partial schedules kept, if there is no such schedule; None if there is one.

    Raises
    ------
    TooManyStatesError: more than ``most_states``, or told to stop.
    """
    search = _Search(rows, memory_limit, prices, budget)
    states = [search.empty()]
    epoch = kept = 0
    while states:
        kept += len(states)
        if kept > most_states or (should_stop is not None and should_stop()):
            raise TooManyStatesError
        following: dict[tuple[int, tuple[int, ...]], _State] = {}
        for state in states:
            if search.expand(epoch, state, following):
                return None
        states = _undominated(list(following.values()))
        epoch += 1
    return kept


class _Search:
    def __init__(self, rows: Sequence[Row], memory_limit: int, prices: Prices, budget: int) -> None:
        self.rows = rows
        self.limit = memory_limit
        self.prices = prices
        self.T = len(prices.capacities)
        self.most = prices.scale * budget
        self.budget = budget
        self.everything = (1 << len(rows)) - 1
        latest: dict[Row, int] = {}
        self.twin = []  # the previous request with the same row, as a bit, or 0
        for i, row in enumerate(rows):
            self.twin.append(1 << latest[row] if row in latest else 0)
            latest[row] = i
        # u[i][tau]: least P_i over starts from max(tau, a_i) on, for tau = 0 .. max(T, a_i)
        self.least = []
        for i, (a, _, _) in enumerate(rows):
            end = max(self.T, a)
            column = [self.cost(i, end)] * (end + 1)
            for t in range(end - 1, -1, -1):
                column[t] = min(column[t + 1], self.cost(i, t)) if t >= a else column[t + 1]
            self.least.append(column)

    def cost(self, i: int, t: int) -> int:
        """P_i(t)."""
        if t <= self.T:
            return self.prices.costs[i][t]
        a, _, o = self.rows[i]
        return self.prices.scale * (t + o - a)

    def from_on(self, i: int, tau: int) -> int:
        """Least P_i over starts from tau on."""
        column = self.least[i]
        if tau < len(column):
            return column[tau]
        return column[-1] + self.prices.scale * (tau - len(column) + 1)

    def empty(self) -> _State:
        bound = sum(self.from_on(i, 0) for i in range(len(self.rows)))
        return _State(0, (), 0, bound - sum(self.prices.capacities), ())

    def expand(
        self, epoch: int, state: _State, following: dict[tuple[int, tuple[int, ...]], _State]
    ) -> bool:
        """Add the children of a state; True if one is a schedule within the budget."""
        waiting = [
            i
            for i in range(len(self.rows))
            if not state.started >> i & 1 and self.rows[i][0] <= epoch
        ]
        regret = {i: self.cost(i, epoch) - self.from_on(i, epoch) for i in waiting}
        rise = {
            i: self.from_on(i, epoch + 1) - self.from_on(i, epoch)
            for i in range(len(self.rows))
            if not state.started >> i & 1
        }
        # What all of the unstarted cost more if none of them starts now.
        all_rise = sum(rise.values())
        pending = [(0, state, all_rise)]
        while pending:
            position, part, rises = pending.pop()
            if part.started == self.everything:
                if part.latency <= self.budget:
                    return True
                continue
            if position == len(waiting):
                self._keep(epoch, part, rises, following)
                continue
            i = waiting[position]
            pending.append((position + 1, part, rises))
            a, s, o = self.rows[i]
            bound = part.bound + regret[i]
            if bound > self.most or (self.twin[i] and not part.started & self.twin[i]):
                continue
            profile = list(part.profile)
            profile += [0] * (o - len(profile))
            for k in range(o):
                profile[k] += s + k + 1
            if max(profile[:o]) > self.limit:
                continue
            child = _State(
                part.started | 1 << i,
                tuple(profile),
                part.latency + epoch + o - a,
                bound,
                (*part.running, (i, epoch)),
            )
            pending.append((position + 1, child, rises - rise[i]))
        return False

    def _keep(
        self,
        epoch: int,
        state: _State,
        rises: int,
        following: dict[tuple[int, tuple[int, ...]], _State],
    ) -> None:
        """Pass to the next epoch."""
        bound = state.bound + rises
        if bound > self.most:
            return
        if epoch < self.T:
            bound += self.prices.capacities[epoch]
            for i, t in state.running:
                _, s, o = self.rows[i]
                bound -= self.prices.paid(epoch, s + epoch - t, t + o - epoch)
            if bound > self.most:
                return
        profile = state.profile[1:]
        key = (state.started, profile)
        known = following.get(key)
        if known is not None and known.latency <= state.latency:
            return
        running = tuple((i, t) for i, t in state.running if t + self.rows[i][2] > epoch + 1)
        following[key] = _State(state.started, profile, state.latency, bound, running)


def _undominated(states: list[_State]) -> list[_State]:
    """Those that no other one dominates."""
    groups: dict[int, list[_State]] = {}
    for state in states:
        groups.setdefault(state.started, []).append(state)
    result = []
    for group in groups.values():
        group.sort(key=lambda state: (state.latency, sum(state.profile)))
        kept: list[_State] = []
        for state in group:
            if not any(_below(other.profile, state.profile) for other in kept):
                kept.append(state)
        result += kept
    return result


def _below(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether a profile is nowhere larger than another."""
    return len(one) <= len(other) and all(x <= y for x, y in zip(one, other, strict=False))

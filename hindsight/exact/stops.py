"""Exact search for preemptive schedules, round by round, pruned by prices.

A *state* after round t is the number of tokens that each request has produced: p_i of o_i. Its
*cost so far* is J = sum of C_i - a_i over the completed requests plus sum of t - a_i over the other
requests that have arrived. In each round a set of arrived, unfinished requests runs whose sum of
s_i + p_i + 1 is at most M. The search expands all states of a round before the next round, and
prunes by these rules:

* **bound**: a state is removed if its lower bound exceeds the budget. With prices q and their K_r
  (`hindsight.prices.stops`), every completion of a state after round t costs at least  sum over
  completed of C_i - a_i  +  sum over others of h_i(p_i, t)  -  sum of K_r over r > t,  with h_i
  from `costs_to_go`. *Proof*: the bound of `hindsight.prices.stops`, applied to the rounds after t
  alone.
* **maximal sets**: a set does not run if a further request fits with it. *Proof*: let a schedule
  leave request i out of round r although it fits, and let its next token come in round r' > r.
  Produce that token in r instead. Nothing else moves, r' holds less, r still fits, and i completes
  no later. Repeat; the sum of all rounds used falls, so this ends.
* **twins**: of requests with equal (a, s, o) and equally many tokens, the one with the smaller
  index runs first. *Proof*: exchange the two from there on.
* **merge and dominance**: of two states x, y after the same round with p_x >= p_y for every request
  and J_x <= J_y, y is removed. *Proof*: complete x as y is completed, but leave out of each
  request's rounds those that produce tokens it has already. Memory never exceeds that of y's
  completion: a request that runs in both at a round has produced equally many tokens in both,
  because it skips rounds until y's completion has caught up. Each request completes no later, so
  the total is no larger.

*Why they are sound together.* Let f(x) be the least cost of completing state x. By the rules of
maximal sets and twins, f(x) is reached through maximal sets that respect the order of twins. Merge
and dominance remove y only where a state x of the same round, earlier in the order by (J, -sum of
p), stays with J_x + (what x still adds) <= J_y + (what y still adds); such removals cannot run in a
circle. The bound never exceeds the cost of a completion. So, round by round, while no schedule of
the least cost has been found, a state is kept from which it can be reached, provided that it is
within the budget; if no state is left, none is: every preemptive schedule costs at least budget +
1, or as much as the best found.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hindsight.prices.stops import PreemptivePrices, costs_to_go, heaviest_sets
from instances import Instance, PreemptiveSchedule
from instances.arrays import IntArray

from .state_kernels import dominated
from .states import SearchOutcome, SearchStatus
from .stop_kernels import Choice, States, Task, expand_states

DOMINANCE_WINDOW = 30
"""Each state is compared with up to this many states before it in order of increasing cost. It is
removed if in one of these states each request has produced at least as many tokens."""

SLICE = 2_000
"""Number of states of a round that are expanded between two polls of ``should_stop``."""


class PreemptiveSearch:
    """Exact search for preemptive schedules of one instance, round by round.

    A state after a round is the number of tokens that each request has produced. States are pruned
    by lower bounds from the given prices.

    Parameters
    ----------
    instance : Instance
        The problem, on one machine with memory counted in tokens.
    prices : PreemptivePrices
        Price of memory in each round, from which lower bounds of states are computed.
    """

    def __init__(self, instance: Instance, prices: PreemptivePrices) -> None:
        self._instance = instance
        unit = prices.denominator
        prompt, output, arrival, _ = instance.columns
        offset = np.concatenate([[0], np.cumsum(output + 1)[:-1]]).astype(np.int64)
        self._last = len(prices.numerators) - 1
        # Row t of ``_to_go`` has the costs to go after round t, with one entry for each request and
        # number of tokens that it has produced. The cost to go is the least sum of the latency of
        # the request and the prices of the memory in its remaining rounds. It is 0 for a completed
        # request.
        self._to_go = np.zeros((self._last + 1, int((output + 1).sum())), dtype=np.int64)
        rows = list(zip(*(one.tolist() for one in (prompt, output, arrival)), strict=True))
        seen: dict[tuple[int, ...], int] = {}
        twin = []
        for i, (request, end) in enumerate(zip(rows, (offset + output).tolist(), strict=True)):
            # `costs_to_go` yields one array per number of produced tokens, output length - 1 to 0.
            for back, costs in enumerate(costs_to_go(prices, request), start=1):
                # Before the arrival of the request, its costs to go (least remaining costs) are
                # those at the arrival, because it can only wait until then.
                self._to_go[:, end - back] = costs[0]
                self._to_go[request[2] :, end - back] = costs
            twin.append(seen.get(request, -1))
            seen[request] = i
        heaviest = heaviest_sets(prices, instance.columns)
        self._tails = np.concatenate([np.cumsum(heaviest[::-1])[::-1][1:], [0]])
        marks = np.random.default_rng(7).integers(0, 2**63, self._to_go.shape[1]).astype(np.uint64)
        fixed = instance.columns, np.array(twin, dtype=np.int64), offset, marks, unit
        self._task = Task(*fixed, Choice.room(len(instance)), 0, self._to_go[0], 0, 0)

    def run(
        self,
        budget: int,
        max_states: int,
        should_stop: Callable[[], bool],
        *,
        width: int | None = None,
    ) -> SearchOutcome[PreemptiveSchedule]:
        """Search all schedules of total latency at most ``budget`` for the best one.

        Parameters
        ----------
        budget : int
            Largest total latency to search for, in rounds. After each schedule found, it becomes
            one less than the total latency of that schedule.
        max_states : int
            Largest number of different states after one round. States that are removed because
            another state dominates them count too. The search ends if there are more.
        should_stop : Callable[[], bool]
            Polled after every `SLICE` states that are expanded.
        width : int or None, default None
            If given, make a beam search: keep at most this many states per round, those with the
            least lower bounds. It finds feasible schedules, but proves nothing. None keeps all.
        """
        layers = [States.room(1, len(self._instance))]
        best: tuple[int, int] | None = None
        status: SearchStatus = "exhausted"
        states = 1
        while len(layers[-1].progress):
            found = self._children(layers, budget, max_states, should_stop)
            if not isinstance(found, States):
                return SearchOutcome(found, None, states)
            kept = self._not_dominated(found, len(layers))
            if width is not None and len(kept) > width:
                kept = kept[np.argpartition(found.bounds[kept], width)[:width]]
            if width is not None and len(kept) < len(found.progress):
                status = "beam"
            layer = found.at(kept)
            layers.append(layer)
            states += len(kept)
            # The budget is the largest total latency to search for. In a state in which all
            # requests are complete, the total latency may exceed the budget although the lower
            # bound does not.
            is_complete = (layer.progress == self._task.requests.output_lengths).all(axis=1)
            complete = np.flatnonzero(is_complete & (layer.costs <= budget))
            if len(complete):
                # There is only one state in which all requests are complete, because states with
                # equal numbers of produced tokens were merged. From now on, search only for
                # schedules of smaller total latency.
                budget = int(layer.costs[complete[0]]) - 1
                best = (len(layers) - 1, int(complete[0]))
        schedule = None if best is None else self._read_back(layers, *best)
        return SearchOutcome(status, schedule, states)

    def _children(
        self, layers: list[States], budget: int, max_states: int, should_stop: Callable[[], bool]
    ) -> States | SearchStatus:
        """Return all states after the next round, or the status with which the search ends.

        It ends with ``"stopped"`` if ``should_stop`` returns True, and with ``"states"`` if there
        are more than ``max_states`` states. ``layers`` has the states after each round so far.
        States whose lower bound exceeds ``budget``, a total latency in rounds, are left out.
        """
        r, last = len(layers), layers[-1]
        tail = int(self._tails[r]) if r <= self._last else 0
        to_go, most = self._costs_after(r), budget * self._task.unit
        task = self._task._replace(round=r, to_go=to_go, tail=tail, budget=most)
        # These arrays have rows for ``max_states`` states, but arrays of zeros take memory only
        # where something is written.
        found = States.room(max_states, len(self._instance))
        slots = np.zeros(2 * max_states, dtype=np.int64)
        begin = count = 0
        while begin < len(last.progress):
            if should_stop():
                return "stopped"
            end = begin + SLICE
            count = expand_states(begin, end, count, task, last, found, slots)
            if count < 0:
                return "states"
            begin = end
        return found.at(slice(count))

    def _costs_after(self, t: int) -> IntArray:
        """Return the costs to go after round t, for each request and number of produced tokens.

        The cost to go is the least sum of the latency of the request and the prices of the memory
        in its remaining rounds, in price units (`Task.unit` of them are one round). It is 0 for
        completed requests. For others, if t is later than the last round R with a price, it is the
        cost to go after round R plus t - R rounds of latency. Entry offset[i] + p, with
        `Task.offset`, is the cost to go of request i with p tokens produced.
        """
        column: IntArray = self._to_go[min(t, self._last)].copy()
        if t > self._last:
            column += (t - self._last) * self._task.unit
            column[self._task.offset + self._task.requests.output_lengths] = 0
        return column

    def _not_dominated(self, found: States, r: int) -> IntArray:
        """Return the indices of the states after round r that no other of these states dominates.

        A state dominates another one if each request has produced at least as many tokens and the
        cost so far is no larger. The cost so far is the latency of the completed requests, plus the
        rounds since the arrival of each other request that has arrived.
        """
        _, output, arrival, _ = self._task.requests
        progress = found.progress
        waiting = (progress < output) & (arrival < r)
        spent = found.costs + (waiting * (r - arrival)).sum(axis=1)
        gone = np.zeros(len(progress), dtype=np.bool_)
        order = np.lexsort((-progress.sum(axis=1, dtype=np.int64), spent))
        places = np.arange(len(order))
        dominated(-progress[order], np.maximum(0, places - DOMINANCE_WINDOW), places, gone)
        return np.sort(order[~gone])

    def _read_back(self, layers: list[States], last: int, at: int) -> PreemptiveSchedule:
        """Return the schedule that leads to state ``at`` after round ``last``.

        ``layers`` has the states after each round. Each state stores its parent, the state after
        the previous round from which it was reached. The schedule is read backwards along these
        parents.
        """
        rounds: list[list[int]] = [[] for _ in self._instance]
        for r in range(last, 0, -1):
            layer = layers[r]
            parent = int(layer.parents[at])
            for i in np.flatnonzero(layer.progress[at] != layers[r - 1].progress[parent]):
                rounds[i].append(r)
            at = parent
        return PreemptiveSchedule.from_rounds(self._instance, [own[::-1] for own in rounds])

"""Exact forward search (dynamic programming) over epochs, pruned by prices.

`StateSearch.run` enumerates, epoch by epoch, every partial schedule that may still end with a total
latency of at most ``budget``. States are removed by five rules. Costs, bounds and symbols are those
of `hindsight.exact.state_kernels`.

**Bound.** A state is removed if its lower bound from prices exceeds the budget.

**Twins.** Requests of the same lengths start in order of arrival, and in index order where they
arrive together. Let i come before j in this order, so a_i <= a_j, and t_j < t_i. Exchanging the two
starts is feasible, as t_j >= a_j >= a_i and t_i > t_j >= a_j, and changes neither the memory nor
the cost. A class of twins is sorted after finitely many such exchanges. The search makes each
request wait for one twin: of those before it in this order that have a smaller index, the last. If
requests are numbered by arrival, this keeps the whole class in order. (Starting the shorter of two
requests first would not be valid: the longer one need not fit where the shorter one was.)

**Fixing.** Request i is not started at tau if the bound before the starts at tau, plus the regrets
of all requests that start at tau including i, exceeds the budget. This is valid because the slack
of tau and the requests left unstarted add >= 0 to the bound.

Bound and fixing also prune everything that two other rules derived from prices would prune: *start
windows* (an earliest and a latest start of each request) and *precedences* (request i starts no
later than j). Let B be the bound of the empty schedule, D = SCALE * budget - B, and x_i(t) =
P_i(t) - u_i(0) >= 0 for t >= a_i. Then SCALE * TEL >= B + sum_i x_i(t_i). So in every schedule
within the budget, x_i(t_i) <= D, which gives the start window of i. Moreover x_i(t_i) + x_j(t_j) <=
D, which proves a precedence if the sum exceeds D for all t_j < t_i. The bound at tau is B + (sum of
x_i(t_i) over started requests) + (sum over unstarted requests of min over t >= tau of x_i(t)) +
(past slacks), and none of the sums is negative. So three things follow:

* a start with x_i(tau) > D is not made, because the bound is at least B + x_i(tau) with it;
* a state at tau in which i has not started by its latest start is pruned by its bound;
* a state in which j has started before i is pruned if i must start no later than j: its bound is at
  least B + x_j(t_j) + x_i(t) for some t >= tau > t_j.

**Merge.** Two states at tau with the same started set and the same memory in later rounds have the
same completions, at the same additional cost. The cheaper one stays.

**Dominance.** A state at tau is removed if another state at tau has the same started set, costs no
more, and holds no more memory in any later round. Every completion of the removed state also
completes the other one: the requests left are the same, and the other state leaves them at least as
much memory in every round after tau.

**Why all rules are sound together.** Assume that the budget is at least the optimum. *Claim*: at
every epoch tau, until an optimal schedule has been found, some kept state is the prefix of an
optimal schedule whose twins start in order. At tau = 0 the empty state is one (sort the starts of
twins). Let it hold at tau, with kept state x and optimal schedule S, and let y be the prefix of S
at tau + 1: a child of x, which `expand` enumerates unless it is pruned.

1. y is not pruned by its bound, nor is the branch towards it: bounds are at most SCALE * optimum <=
   SCALE * budget. (The budget is lowered only to one less than the total latency of a schedule
   found, so it stays >= optimum until an optimum is found.)
2. y obeys the twin rule, as S does.
3. If y is merged away or dominated, there is a state z at tau + 1 with the same started set, a cost
   no larger, and memory nowhere larger in later rounds. Complete z as S completes y: this schedule
   is feasible, and its cost, prefix plus rest, is at most that of S, so it is optimal. Its twins
   start in order: a request and the twin it waits for are both in z, which obeys the rule, or both
   in the rest, as in S, or the twin is in z and so starts earlier. z contains no request without
   the twin it waits for. If z is itself merged away or dominated, repeat; the order in which states
   remove each other has no cycles (each removal refers to a state that is kept at the time, and the
   last one stays).

So the claim holds at tau + 1. Hence if an unrestricted run ends with no state left and without a
schedule of TEL <= budget, every schedule has TEL >= budget + 1; if it ends with one, the cheapest
found is optimal.

All arithmetic is on integers.

**Tried and dropped.** Bounds from starts that fit together with the active requests, and from the
slack of the memory that these leave free, gave a tenth fewer states in twice the time. Capacities
of only the requests that can run within their start windows gave the same bound for 15 and 20
requests, and a bound higher by 0.015 of 9241 rounds for 50. Pruning branches by the amount that
skipped requests add to the bound was not faster. Dominance between different started sets removed
no state. Removing states whose completions all have cheaper variants gave a tenth fewer states, and
no further proof.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np

from hindsight.prices.states import SCALE, start_values
from hindsight.runtime.clock import never
from instances.arrays import IntArray, RequestColumns

from .state_kernels import Child, Expansion, Layer, Prices, dominated, expand

SearchStatus = Literal["exhausted", "beam", "states", "stopped", "epochs"]

Found = TypeVar("Found")

DOMINANCE_WINDOW = 200
"""Each state is compared with at most this many cheapest states with the same started requests."""

PATIENCE = 5_000
"""About this many partial schedules are built between two polls of ``should_stop``."""

ANY = 1 << 40
"""Default limit on total latency and on numbers of states, so large that it limits nothing."""


class SearchOutcome(NamedTuple, Generic[Found]):
    """Outcome of a search through states of partial schedules.

    Attributes
    ----------
    status : SearchStatus
        ``"exhausted"``: every schedule within the budget on total latency was covered. ``"beam"``:
        after each round, only the states with the least lower bounds were kept. ``"states"``: the
        limit on states was exceeded. ``"stopped"``: ``should_stop`` returned True. ``"epochs"``:
        start times did not fit into the integers of a state. Only ``"exhausted"`` proves that
        ``found`` is optimal or that no schedule is within the budget.
    found : Found or None
        The cheapest schedule found within the budget. For `StateSearch` it is an int64 array of
        start times, shape (n,).
    states : int
        Number of states kept, summed over all epochs or rounds.
    """

    status: SearchStatus
    found: Found | None
    states: int


class StateSearch:
    """Exact forward search over partial schedules of one instance, epoch by epoch.

    A *state* at an epoch is a partial schedule whose starts are all before this epoch. An epoch is
    the time between two rounds. Lower bounds of states depend on prices, which are 0 until
    `set_prices` is called. Later calls may set better prices. For n requests, the search needs up
    to 2 ``max_states`` * (60 + 2 n + 2 (largest output length)) bytes of memory.

    Parameters
    ----------
    requests : RequestColumns
        The problem: at least one request, each of which fits in memory alone, and a memory limit M
        < 256 tokens.
    max_states : int, default 2000000
        Largest number of states of one epoch.
    """

    def __init__(self, requests: RequestColumns, max_states: int = 2_000_000) -> None:
        s, o, _, limit = self.requests = requests
        n, rounds = len(s), int(o.max())
        marks = np.random.default_rng(1).integers(1, 2**63, n + rounds, dtype=np.int64)
        self._given = requests, _twins(requests), marks.astype(np.uint64)
        # These arrays have the largest size that they may need. An uninitialised array takes memory
        # only where something is written, so unused rows cost none.
        self._following = Layer(
            np.empty(max_states, np.uint64),
            np.empty(max_states, np.int64),
            np.empty(max_states, np.int64),
            np.empty((max_states, rounds), np.uint8),
            np.empty((max_states, n), np.int16),
        )
        self._table = np.zeros(1 << (2 * max_states).bit_length(), np.int64)
        self._slots, self._used = np.empty(max_states, np.int64), 0
        sizes = n, rounds + 1, n, n, n, n + 1, n + 1
        self._child = Child._make(np.zeros(size, np.int64) for size in sizes)
        self.set_prices(np.zeros((1, limit + 1, limit + 1), np.int64), np.zeros(1, np.int64))

    def set_prices(self, prices: IntArray, capacities: IntArray) -> None:
        """Set the prices from which lower bounds of states are computed.

        Epoch tau is the time between rounds tau and tau + 1.

        Parameters
        ----------
        prices : int64 array
            Prices Q >= 0, shape (T, M + 1, M + 1), in units of 1 / SCALE rounds, with M the memory
            limit. Q[tau, m, r] is the price at epoch tau of a request that holds m tokens and has r
            rounds to go.
        capacities : int64 array
            Capacity W of each epoch, shape (T,), in units of 1 / SCALE rounds: at least the largest
            total price of requests that run together, as computed by
            `hindsight.prices.states.integer_capacities`. It is not checked.
        """
        # An epoch is the time between two rounds. The lower bounds hold only if all requests have
        # arrived by the last epoch with prices. If these epochs end before the last arrival, append
        # epochs up to it, with prices and capacities of 0.
        missing = max(0, int(self.requests.arrival_times.max()) + 1 - len(capacities))
        Q = np.ascontiguousarray(np.pad(prices, ((0, missing), (0, 0), (0, 0))))
        P, u = start_values(Q, *self.requests[:3])
        self.prices = Prices(Q, np.pad(capacities, (0, missing)), P, u)

    def run(
        self,
        budget: int = ANY,
        should_stop: Callable[[], bool] = never,
        state_limit: int = ANY,
        width: int = ANY,
    ) -> SearchOutcome[IntArray]:
        """Search epoch by epoch for schedules of total latency <= ``budget``.

        An epoch is the time between two rounds. A state is a partial schedule at an epoch.

        Parameters
        ----------
        budget : int, default 2^40
            Largest total latency to search for, in rounds.
        should_stop : Callable[[], bool], default never
            Polled many times per second.
        state_limit : int, default 2^40
            Largest number of states kept in all epochs so far, plus children found so far of the
            states of the present epoch. If there are more, the search ends with status
            ``"states"``.
        width : int, default 2^40
            Largest number of states kept at an epoch: those with the least lower bounds. If there
            were more, the search ends with status ``"beam"``.
        """
        status: SearchStatus = "exhausted"
        layer, best = self.root(), None
        states, tau = 1, 0
        while len(layer.costs):
            if tau > np.iinfo(np.int16).max:
                status = "epochs"
                break
            found = self.children(tau, layer, budget, should_stop, state_limit - states)
            if not isinstance(found, Layer):
                status = found
                break
            finished = (found.starts >= 0).all(axis=1)
            if finished.any():
                # If all requests have started, the total latency is the lower bound plus the slacks
                # of all later epochs. An epoch is the time between two rounds. Its slack is its
                # capacity (at least the largest total price of requests that fit in memory) minus
                # the prices of the requests that run then. So the bound may be within the budget
                # although the total latency is not.
                winner = np.flatnonzero(finished)[np.argmin(found.costs[finished])]
                latency = int(found.costs[winner])
                if latency <= budget:
                    budget, best = latency - 1, found.starts[winner].astype(np.int64)
            alive = np.flatnonzero(~finished & (found.bounds <= budget * SCALE))
            layer = self.undominated(found, alive)
            if len(layer.costs) > width:
                kept, status = np.argpartition(layer.bounds, width)[:width], "beam"
                layer = Layer._make(column[kept] for column in layer)
            tau, states = tau + 1, states + len(layer.costs)
        return SearchOutcome(status, best, states)

    def root(self) -> Layer:
        """Return the states at time 0: one state, in which no request has started."""
        layer = Layer._make(
            np.zeros((1, *column.shape[1:]), column.dtype) for column in self._following
        )
        layer.bounds[0], layer.starts[0] = self.prices.root, -1
        return layer

    def children(
        self, tau: int, layer: Layer, budget: int, should_stop: Callable[[], bool], most: int
    ) -> Layer | SearchStatus:
        """Return the children of the states of an epoch, or the status with which the search ends.

        A state is a partial schedule with all starts before its epoch, the time between two rounds.
        Its children are states at epoch tau + 1, each with a different set of requests that start
        at epoch ``tau``.

        Parameters
        ----------
        tau : int
            Epoch of the states in ``layer``.
        layer : Layer
            The states at epoch ``tau``.
        budget : int
            Largest total latency to search for, in rounds.
        should_stop : Callable[[], bool]
            Polled before a state if about `PATIENCE` children were built since the last poll.
        most : int
            Largest number of children. If there are more, the status ``"states"`` is returned.
        """
        # Clear the hash table ``_table``: write 0 to the slots that the previous call of this
        # method has used.
        self._table[self._slots[: self._used]] = 0
        arrays = layer, self._following, self._table, self._slots
        search = Expansion(*arrays, *self._given, self.prices, self._child)
        count = position = self._used = 0
        while position < len(layer.costs):
            if should_stop():
                return "stopped"
            count, position = expand(tau, position, count, budget * SCALE, search, PATIENCE)
            self._used = count
            if position < 0 or count > most:
                return "states"
        return Layer._make(column[:count] for column in self._following)

    def undominated(self, found: Layer, alive: IntArray) -> Layer:
        """Return a copy of the states ``alive``, without those that another state dominates.

        ``alive`` has the indices in ``found`` of the states to compare. Of two states with the same
        started requests, one dominates the other if it costs no more and holds no more memory in
        any later round.
        """
        # Sort the states by started requests, then by cost. States with the same started requests
        # form a group.
        flags = np.packbits(found.starts[alive] >= 0, axis=1)
        words = np.pad(flags, ((0, 0), (0, -flags.shape[1] % 8))).view(np.uint64)
        order = np.lexsort((found.costs[alive], *words.T))
        is_first = np.append(True, (np.diff(words[order], axis=0) != 0).any(axis=1))[: len(order)]
        places = np.arange(len(order))
        begin = np.maximum.accumulate(np.where(is_first, places, 0))
        rows = found.memory[alive[order]].astype(np.int16)
        gone = np.zeros(len(order), np.bool_)
        dominated(rows, begin, np.minimum(places, begin + DOMINANCE_WINDOW), gone)
        kept = np.delete(alive, order[gone])
        return Layer._make(column[kept] for column in found)


def _twins(requests: RequestColumns) -> IntArray:
    """Return, for each request, the request that must start before it or with it, shape (n,).

    Requests with equal prompt and output lengths are *twins*, and may be required to start in order
    of arrival. The entry of a request is one of its twins: of those that have a smaller index and
    arrive no later, the last to arrive. It is -1 if there is none.
    """
    rows = zip(*(column.tolist() for column in requests[:3]), strict=True)
    classes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    twin = []
    for i, (s, o, a) in enumerate(rows):
        alike = classes.setdefault((s, o), [])
        twin.append(max((each for each in alike if each[0] <= a), default=(0, -1))[1])
        alike.append((a, i))
    return np.array(twin, dtype=np.int64)

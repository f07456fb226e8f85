"""Exact forward search (dynamic programming) over epochs, pruned by prices.

`StateSearch.run` enumerates, epoch by epoch, every partial schedule that may still end with a total
latency of at most ``budget``. States are removed by these rules, which are proved in
`hindsight.exact.state_kernels` (bound, merge) and `hindsight.exact.state_pruning`:

* *bound*: a state is removed if its lower bound from prices exceeds the budget;
* *fixing*: a request does not start now if the bound would then exceed the budget;
* *merge*: of states with equal started sets and equal future memory, only the cheapest is kept;
* *dominance*: a state is removed if another one has the same started set, no larger cost, and no
  more memory in any later round;
* *improvable*: a state is removed if every schedule that extends it has a strictly cheaper variant;
* *twins*: requests of the same lengths start in order of arrival.

All arithmetic is on integers.

(Sharper bounds were tried and dropped. Bounds from starts that fit together with the active
requests, and from the slack of the memory these leave free: a tenth fewer states at twice the time.
Capacities of the requests that can run within the start windows: the same at n = 15 and 20, better
by 0.015 of 9241 rounds at n = 50. Pruning branches by what skipped requests add to the bound: no
faster. Dominance between different started sets: no state removed.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np

from hindsight.prices.states import SCALE, start_values
from hindsight.runtime.clock import never
from instances.arrays import IntArray, RequestColumns

from .state_kernels import COST_SHIFT, Child, Expansion, Layer, Prices, expand
from .state_pruning import dominated

SearchStatus = Literal["exhausted", "beam", "states", "stopped", "epochs"]

Found = TypeVar("Found")

DOMINANCE_WINDOW = 200
"""Number of cheapest partial schedules of the same requests that may exclude a partial schedule."""

PATIENCE = 5_000
"""Largest number of partial schedules built between two polls of ``should_stop``."""

ANY = 1 << 40
"""Default limit on total latency and on numbers of states, too large to matter."""


class SearchOutcome(NamedTuple, Generic[Found]):
    """Outcome of a search through states of partial schedules.

    Attributes
    ----------
    status : SearchStatus
        ``"exhausted"``: every schedule within the budget on total latency was covered. ``"beam"``:
        only the most promising states of each epoch or round were kept. ``"states"``: the limit on
        states was exceeded. ``"stopped"``: ``should_stop`` returned True. ``"epochs"``: start times
        did not fit into the integers of a state. Only ``"exhausted"`` proves that ``found`` is
        optimal or that no schedule is within the budget.
    found : Found or None
        The cheapest schedule found within the budget. For `StateSearch` it is an int64 array of
        start times, shape (n,).
    states : int
        Number of states kept, over all epochs or rounds.
    """

    status: SearchStatus
    found: Found | None
    states: int


class StateSearch:
    """Exact forward search over partial schedules of one instance, epoch by epoch.

    A *state* at an epoch is a partial schedule whose starts are all before this epoch. An epoch is
    the time between two rounds. Prices for lower bounds of states are 0 until `set_prices` is
    called. It may be called again for better prices. For n requests, the search needs up to 2
    ``max_states`` * (60 + 2 n + 2 (largest o) + H) bytes of memory. H is the number of past rounds
    whose memory each state stores: the least power of two that is at least 64 and at least the
    largest output length o plus 24.

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
        self._past = max(64, 1 << (rounds + 23).bit_length())
        # Last epoch (time between two rounds) up to which the search can go. Starts t must fit into
        # int16. The second part of a cost, the sum of (s + o) t over all requests with prompt s and
        # output o, must fit into COST_SHIFT bits.
        most = ((1 << COST_SHIFT) - 1) // int((s + o).sum())
        self._last_epoch = min(np.iinfo(np.int16).max, most)
        marks = np.random.default_rng(1).integers(1, 2**63, n + rounds, dtype=np.int64)
        self._given = requests, _twins(requests), marks.astype(np.uint64), self._past
        # An uninitialised array takes memory only where it is written, so these arrays have the
        # largest size that they may need.
        self._following = Layer(
            np.empty(max_states, np.uint64),
            np.empty(max_states, np.int64),
            np.empty(max_states, np.int64),
            np.empty((max_states, self._past + rounds), np.uint8),
            np.empty((max_states, n), np.int16),
        )
        self._table = np.zeros(1 << (2 * max_states).bit_length(), np.int64)
        self._slots, self._used = np.empty(max_states, np.int64), 0
        sizes = n, self._past + rounds + 1, n, n, n, n + 1, n + 1, 1
        self._child = Child._make(np.zeros(size, np.int64) for size in sizes)
        self.set_prices(np.zeros((1, limit + 1, limit + 1), np.int64), np.zeros(1, np.int64))

    def set_prices(self, prices: IntArray, capacities: IntArray) -> None:
        """Set the prices from which lower bounds of states are computed.

        Parameters
        ----------
        prices : int64 array
            Prices Q >= 0, shape (T, M + 1, M + 1), in units of 1 / SCALE rounds. Q[tau, m, r] is
            the price at epoch tau of a request that holds m tokens and has r rounds to go.
        capacities : int64 array
            Capacity W of each epoch, shape (T,), in units of 1 / SCALE rounds: at least the largest
            total price of requests that run together, as computed by
            `hindsight.prices.states.integer_capacities`. It is not checked.
        """
        # An epoch is the time between two rounds. If the epochs with prices end before the last
        # arrival, append epochs up to it, with prices and capacities of 0. The lower bounds from
        # prices hold only if all requests have arrived by the end of the epochs with prices.
        missing = max(0, int(self.requests.arrival_times.max()) + 1 - len(capacities))
        Q = np.ascontiguousarray(np.pad(prices, ((0, missing), (0, 0), (0, 0))))
        P, u = start_values(Q, *self.requests[:3])
        self.prices = Prices(Q, np.pad(capacities, (0, missing)), P, u)

    def run(
        self, budget: int = ANY, should_stop: Callable[[], bool] = never, state_limit: int = ANY
    ) -> SearchOutcome[IntArray]:
        """Search epoch by epoch for schedules of total latency <= ``budget``.

        Parameters
        ----------
        budget : int, default 2^40
            Largest total latency to search for, in rounds.
        should_stop : Callable[[], bool], default never
            Polled many times per second.
        state_limit : int, default 2^40
            Largest value of (states kept so far, over all epochs) + (children found so far of the
            states of the present epoch). If it is exceeded, the search ends with status
            ``"states"``.
        """
        status: SearchStatus = "exhausted"
        layer, best = self.root(), None
        states, tau = 1, 0
        while len(layer.costs):
            if tau > self._last_epoch:
                status = "epochs"
                break
            found = self.children(tau, layer, budget, should_stop, state_limit - states)
            if not isinstance(found, Layer):
                status = found
                break
            finished = (found.starts >= 0).all(axis=1)
            if finished.any():
                # If all requests have started, the total latency is the lower bound plus the slacks
                # of all later epochs. The slack is the capacity of the epoch (at least the largest
                # total price of requests that fit in memory) minus the prices of the requests that
                # run then. So the bound may be within the budget although the total latency is not.
                winner = np.flatnonzero(finished)[np.argmin(found.costs[finished])]
                latency = int(found.costs[winner]) >> COST_SHIFT
                if latency <= budget:
                    budget, best = latency - 1, found.starts[winner].astype(np.int64)
            alive = np.flatnonzero(~finished & (found.bounds <= budget * SCALE))
            layer = self.undominated(found, alive)
            tau, states = tau + 1, states + len(layer.costs)
        return SearchOutcome(status, best, states)

    def root(self) -> Layer:
        """Return the states of epoch 0: one state, in which no request has started."""
        layer = Layer._make(
            np.zeros((1, *column.shape[1:]), column.dtype) for column in self._following
        )
        layer.bounds[0], layer.starts[0] = self.prices.root, -1
        return layer

    def children(
        self,
        tau: int,
        layer: Layer,
        budget: int,
        should_stop: Callable[[], bool] = never,
        most: int = ANY,
    ) -> Layer | SearchStatus:
        """Return the children of the states of an epoch, or the status with which the search ends.

        A state is a partial schedule with all starts before its epoch. Its children are states at
        epoch tau + 1, each with a different set of requests that start at epoch ``tau``.

        Parameters
        ----------
        tau : int
            Epoch of the states in ``layer``.
        layer : Layer
            The states at epoch ``tau``.
        budget : int
            Largest total latency to search for, in rounds.
        should_stop : Callable[[], bool], default never
            Polled every `PATIENCE` children.
        most : int, default 2^40
            Largest number of children. If there are more, the status ``"states"`` is returned.
        """
        # Clear the hash table: write 0 to all slots in which the last call of this method stored
        # children.
        self._table[self._slots[: self._used]] = 0
        arrays = layer, self._following, self._table, self._slots
        search = Expansion(*arrays, *self._given, self.prices, self._child)
        count = position = self._used = self._child.depth[0] = 0
        while position < len(layer.costs):
            if should_stop():
                return "stopped"
            count, position = expand(tau, position, count, budget * SCALE, search, PATIENCE)
            self._used = count
            if position < 0 or count > most:
                return "states"
        return Layer._make(column[:count] for column in self._following)

    def undominated(self, found: Layer, alive: IntArray) -> Layer:
        """Return a copy of the states ``alive``, without those that another one dominates.

        ``alive`` are indices of states in ``found``. Of two states with the same started requests,
        one dominates the other if it costs no more and holds no more memory in any later round.
        """
        # Sort the states by started requests, then by cost. States with the same started requests
        # form a group.
        flags = np.packbits(found.starts[alive] >= 0, axis=1)
        words = np.pad(flags, ((0, 0), (0, -flags.shape[1] % 8))).view(np.uint64)
        order = np.lexsort((found.costs[alive], *words.T))
        is_first = np.append(True, (np.diff(words[order], axis=0) != 0).any(axis=1))[: len(order)]
        places = np.arange(len(order))
        begin = np.maximum.accumulate(np.where(is_first, places, 0))
        rows = found.memory[alive[order], self._past :].astype(np.int16)
        gone = np.zeros(len(order), np.bool_)
        dominated(rows, begin, np.minimum(places, begin + DOMINANCE_WINDOW), gone)
        kept = np.delete(alive, order[gone])
        return Layer._make(column[kept] for column in found)


def _twins(requests: RequestColumns) -> IntArray:
    """Return, for each request, the request that must start before it or with it, shape (n,).

    Requests with equal prompt and output lengths are *twins* and start in order of arrival. Each
    waits for one of its twins. Among the twins that have a smaller index and arrive no later, it is
    the last to arrive. The entry is -1 if there is none.
    """
    rows = zip(*(column.tolist() for column in requests[:3]), strict=True)
    classes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    twin = []
    for i, (s, o, a) in enumerate(rows):
        alike = classes.setdefault((s, o), [])
        twin.append(max((each for each in alike if each[0] <= a), default=(0, -1))[1])
        alike.append((a, i))
    return np.array(twin, dtype=np.int64)

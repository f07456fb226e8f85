"""Exact forward search (dynamic programming) over epochs, pruned by prices.

`StateSearch.run` enumerates, epoch by epoch, every partial schedule that may still end with a total
latency of at most ``budget``. States are removed by these rules, each of which is stated and proved
in `hindsight.exact.state_kernels` or `hindsight.exact.state_pruning`:

* *bound*: the lower bound of the state from the prices exceeds the budget;
* *fixing*: a request does not start now if the bound would then exceed the budget;
* *merge*: of states with equal started sets and equal future memory only the cheapest stays;
* *dominance*: another state has the same started set, no larger cost and nowhere more memory;
* *improvable*: every schedule that extends the state has a strictly cheaper variant;
* *twins*: requests of the same lengths start in order of arrival.

Why the rules are valid together is proved in `hindsight.exact.state_pruning`. All arithmetic is on
integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from hindsight.prices.states import SCALE, start_values
from hindsight.runtime.clock import StoppedEarlyError, never
from instances.arrays import IntArray, RequestColumns

from .state_arrays import COST_SHIFT, Child, Expansion, Flags, Layer, Prices
from .state_kernels import expand, insert_states
from .state_pruning import dominate

SearchStatus = Literal["exhausted", "beam", "states", "stopped", "epochs"]

Found = TypeVar("Found")

DOMINANCE_WINDOW = 200
"""Number of cheaper states of the same started set with which a state is compared."""

PATIENCE = 5_000
"""Children or comparisons between two polls of ``should_stop``; for copied rows, ten times that."""

ANY = 1 << 40
"""Default of limits: more than any total latency and any number of states."""

_HASH = np.uint64(0x9E3779B97F4A7C15)


class SearchOutcome(NamedTuple, Generic[Found]):
    """Outcome of a search through states.

    Attributes
    ----------
    status : SearchStatus
        ``"exhausted"``: every schedule within the budget was covered, which is a proof; ``"beam"``:
        states were dropped to keep the width; ``"states"``: the limit on states was exceeded;
        ``"stopped"``: ``should_stop`` returned True; ``"epochs"``: start times did not fit into the
        integers of a state. Only ``"exhausted"`` proves anything.
    found : Found or None
        The cheapest schedule found within the budget; for `StateSearch`, int64 start times, shape
        (n,).
    states : int
        Number of states kept, over all epochs.
    peak : int
        Largest number of states kept in one epoch.
    """

    status: SearchStatus
    found: Found | None
    states: int
    peak: int


class StateSearch:
    """Forward search for one instance.

    `set_prices` may be called again whenever better prices are known; until then, prices are 0. The
    search needs up to 2 ``max_states`` * (16 + 8 ceil(n / 64) + 2 n + largest o + H) bytes of
    memory, where H is a power of two, at least 64 and at least the largest o + 24.

    Parameters
    ----------
    requests : RequestColumns
        The problem: at least one request, each of which fits in memory alone, and M < 256.
    max_states : int, default 2000000
        Most states of one epoch.
    room : int, default 4096
        Number of states of one epoch for which arrays are allocated at first.
    """

    def __init__(
        self, requests: RequestColumns, max_states: int = 2_000_000, room: int = 4096
    ) -> None:
        s, o, _, limit = self.requests = requests
        self.max_states, self._n, self._rounds = max_states, len(s), int(o.max())
        self._history = max(64, 1 << (self._rounds + 23).bit_length())
        # Starts fit into int16 and the second part of costs into COST_SHIFT bits up to this epoch.
        most = ((1 << COST_SHIFT) - 1) // int((s + o).sum())
        self._last_epoch = min(np.iinfo(np.int16).max, most)
        keys = np.random.default_rng(1).integers(1, 2**63, self._rounds, dtype=np.int64)
        self._given = requests, _twins(requests), keys.astype(np.uint64)
        self._current, self._following = self._layer(room), self._layer(room)
        side = limit + 1
        self.set_prices(np.zeros((1, side, side), np.int64), np.zeros(1, np.int64))

    def set_prices(self, prices: IntArray, capacities: IntArray) -> int:
        """Use these epoch prices; return the bound of the empty schedule, in units of 1 / SCALE.

        Parameters
        ----------
        prices : int64 array
            Q >= 0, shape (T, M + 1, M + 1), in units of 1 / SCALE.
        capacities : int64 array
            W, shape (T,): at least the heaviest configuration of each epoch, as computed by
            `hindsight.prices.states.integer_capacities`. They are not checked.
        """
        # Prices must reach past the last arrival, so that beyond them every request has arrived.
        missing = max(0, int(self.requests.arrival_times.max()) + 1 - len(capacities))
        Q = np.pad(prices, ((0, missing), (0, 0), (0, 0))) if missing else prices
        Q = np.ascontiguousarray(Q)
        P, u = start_values(Q, *self.requests[:3])
        self.prices = Prices(Q, np.pad(capacities, (0, missing)), P, u)
        return self.prices.root

    def run(
        self, budget: int = ANY, should_stop: Callable[[], bool] = never, state_limit: int = ANY
    ) -> SearchOutcome[IntArray]:
        """Search epoch by epoch for schedules of total latency <= ``budget``.

        Parameters
        ----------
        budget : int, default 2^40
            Largest total latency to search for.
        should_stop : Callable[[], bool], default never
            Polled many times per second.
        state_limit : int, default 2^40
            Most states over all epochs, including the children of the last one.
        """
        self.begin(budget, should_stop, state_limit)
        status: SearchStatus = "exhausted"
        count, tau = 1, 0
        try:
            while count:
                if tau > self._last_epoch:
                    status = "epochs"
                    break
                children = self.expand_layer(tau, count)
                if children is None:
                    status = "states"
                    break
                tau += 1
                finished = self._finished(children)
                self._take_cheapest(np.flatnonzero(finished))
                count = self._select(~finished)
        except StoppedEarlyError:
            status = "stopped"
        return SearchOutcome(status, self._best, self._states, self._peak)

    def begin(self, budget: int, should_stop: Callable[[], bool], state_limit: int) -> None:
        """Begin a run from the empty schedule."""
        self._budget, self._should_stop, self._state_limit = budget, should_stop, state_limit
        self._best: IntArray | None = None
        self._states = self._peak = 1
        arrays: Any = self._current
        for array, value in zip(arrays, (0, 0, self.prices.root, 0, 0, -1), strict=True):
            array[0] = value

    def _layer(self, capacity: int) -> Layer:
        return Layer(
            np.empty((capacity, -(-self._n // 64)), np.uint64),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int64),
            np.empty((capacity, self._rounds), np.uint8),
            np.empty((capacity, self._history), np.uint8),
            np.empty((capacity, self._n), np.int16),
        )

    def _check(self) -> None:
        if self._should_stop():
            raise StoppedEarlyError

    def expand_layer(self, tau: int, count: int) -> int | None:
        """Write the children of ``count`` states at tau to the next layer.

        Return the number of children, or None if there are too many.
        """
        layers, child = (self._current, self._following), Child.room_in(self._current)
        fixed = *self._given, self.prices, child
        search = Expansion._make([*layers, self._empty_table(), *fixed])
        children, position, limit = 0, 0, self._budget * SCALE
        while position < count:
            self._check()
            children, position, full = expand(
                tau, position, count, children, limit, search, PATIENCE
            )
            capacity = len(self._following.masks)
            if self._states + children > self._state_limit or (
                full and capacity >= self.max_states
            ):
                return None
            if full:
                table = self._grow(children, min(2 * capacity, self.max_states))
                search = search._replace(following=self._following, table=table)
        return children

    def _empty_table(self) -> IntArray:
        return np.full(1 << (2 * len(self._following.masks)).bit_length(), -1, np.int64)

    def _grow(self, count: int, capacity: int) -> IntArray:
        """Move the following layer into larger arrays; return a larger hash table."""
        bigger, (_, _, random_keys) = self._layer(capacity), self._given
        self.copy(bigger, self._following, np.arange(count))
        self._following = bigger
        table = self._empty_table()
        for first in range(0, count, 10 * PATIENCE):
            self._check()
            insert_states(table, bigger, random_keys, first, min(count, first + 10 * PATIENCE))
        return table

    def copy(self, target: Layer, source: Layer, kept: IntArray) -> None:
        """Copy the rows ``kept`` of ``source`` to the first rows of ``target``."""
        for first in range(0, len(kept), 10 * PATIENCE):
            self._check()
            rows = kept[first : first + 10 * PATIENCE]
            pairs: Any = zip(target, source, strict=True)
            for to, array in pairs:
                to[first : first + len(rows)] = array.take(rows, axis=0)

    def _finished(self, children: int) -> Flags:
        """Return for each child whether it has started every request."""
        finished = np.ones(children, np.bool_)
        left = self._n
        for word in self._following.masks[:children].T:
            finished &= word == np.uint64((1 << min(64, left)) - 1)
            left -= min(64, left)
        return finished

    def _take_cheapest(self, done: IntArray) -> None:
        """Keep the cheapest complete schedule within the budget, and lower the budget below it.

        The bound of a complete state leaves out the slacks of later epochs, so it may be within the
        budget although the total latency is above it.
        """
        if not len(done):
            return
        winner = done[np.argmin(self._following.costs[done])]
        latency = int(self._following.costs[winner]) >> COST_SHIFT
        if latency <= self._budget:
            self._budget = latency - 1
            self._best = self._following.starts[winner].astype(np.int64)

    def _select(self, alive: Flags) -> int:
        """Drop states that are dominated or above the budget, and advance by one epoch."""
        alive &= self._following.bounds[: len(alive)] <= self._budget * SCALE
        self._dominate(alive)
        kept = np.flatnonzero(alive)
        count = len(kept)
        self._states, self._peak = self._states + count, max(self._peak, count)
        if count > len(self._current.masks):
            self._current = self._layer(len(self._following.masks))
        self.copy(self._current, self._following, kept)
        return count

    def _dominate(self, alive: Flags) -> None:
        """Clear ``alive`` where a state is dominated.

        Large layers are split into buckets by started set, so that ``should_stop`` can be polled
        between buckets. Only states with equal started sets dominate each other.
        """
        members, masks = np.flatnonzero(alive), self._following.masks
        bits = min(12, (len(members) // (10 * PATIENCE)).bit_length() + 2)
        buckets = [members]
        if len(members) > 10 * PATIENCE:
            mixed = np.zeros(len(members), np.uint64)
            for word in masks.T:
                mixed = (mixed ^ word[members]) * _HASH
            number = (mixed >> np.uint64(64 - bits)).astype(np.uint16)
            sizes = np.bincount(number, minlength=1 << bits)
            buckets = np.split(members[np.argsort(number, kind="stable")], np.cumsum(sizes)[:-1])
        for bucket in buckets:
            self._check()
            words = [word[bucket] for word in masks.T]
            order = bucket[np.lexsort((self._following.costs[bucket], *words))]
            group = 0
            for begin in range(0, len(order), PATIENCE):
                self._check()
                end = min(len(order), begin + PATIENCE)
                group = dominate(order, begin, end, group, self._following, alive, DOMINANCE_WINDOW)


def _twins(requests: RequestColumns) -> IntArray:
    """Return for each request its latest twin of smaller index and no later arrival, or -1."""
    rows = zip(*(column.tolist() for column in requests[:3]), strict=True)
    classes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    twin = []
    for i, (s, o, a) in enumerate(rows):
        alike = classes.setdefault((s, o), [])
        twin.append(max((each for each in alike if each[0] <= a), default=(0, -1))[1])
        alike.append((a, i))
    return np.array(twin, dtype=np.int64)

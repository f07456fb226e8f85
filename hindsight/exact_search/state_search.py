"""Exact forward search over epochs, pruned by table prices: it proves bounds and optima.

`StateSearch.run` enumerates, epoch by epoch, every partial schedule that may still end with a total
latency of at most ``budget``, merged and pruned by the rules that
`hindsight.exact_search.state_search_kernels` and `hindsight.exact_search.state_pruning` state and
prove one by one. All but the first can be switched off (`Rules`), which changes no optimum:

* *bound*: the exact integer price bound of the state exceeds the budget;
* *fixing*: so would that of every state in which a request starts now;
* *merge*: same started set, same future memory: the lexicographically cheapest stays;
* *dominance*: same started set, no dearer, memory nowhere larger: the other goes;
* *improvable* (*earlier*, *fits*, *exchange*): every extension has a strictly cheaper variant;
* *twins*: requests of the same lengths start in order of arrival.

Why they are sound together is proved in `hindsight.exact_search.state_pruning`. All arithmetic is
in integers.

With ``width`` only the most promising states of each epoch are kept: a beam search, whose schedules
are feasible but which proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hindsight.configurations.prices import SCALE, start_values
from instances import InvalidTypeError, InvalidValueError
from instances.arrays import IntArray, RequestColumns

from .state_pruning import Flags, Rules, dominate
from .state_search_kernels import (
    COST_SHIFT,
    NO_BUDGET,
    Layer,
    Prices,
    SearchedRequests,
    expand,
    insert_states,
)

SearchStatus = Literal["exhausted", "beam", "states", "stopped", "epochs"]

DOMINANCE_WINDOW = 200
"""Cheaper states of the same started set that a state is compared with."""

PATIENCE = 5_000
"""Children or comparisons between two questions whether to stop; rows: ten times that."""

_HASH = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class SearchOutcome:
    """What a run of `StateSearch` found.

    Attributes
    ----------
    status : SearchStatus
        ``"exhausted"``: every schedule within the budget was covered, a proof; ``"beam"``: states
        were dropped for ``width``; ``"states"``: more than ``max_states`` in one epoch or
        ``state_limit`` over all; ``"stopped"``: the caller said so; ``"epochs"``: starts too late
        for the compact states. All but the first prove nothing.
    total_latency : int or None
        Of the cheapest schedule found within the budget, or None.
    start_times : int64 array or None
        That schedule, int64, shape (n,), or None.
    states : int
        Kept, over all epochs.
    peak : int
        Kept in one epoch, at most.
    """

    status: SearchStatus
    total_latency: int | None
    start_times: IntArray | None
    states: int
    peak: int


class _StoppedError(Exception):
    """The caller wants the run to end."""


class StateSearch:
    """Forward search for one instance.

    `set_prices` may be called again whenever better prices are known; before it is called, prices
    are 0. Memory: about ``max_states`` * (16 + 8 ceil(n / 64) + 2 n + (largest o + H) * w) bytes
    twice, where H is the power of two, at least 64, that holds the largest o + 24, and w = 1, 2 or
    8 is the width of M.

    Parameters
    ----------
    prompt_lengths, output_lengths : array_like
        Tokens, shape (n,).
    arrival_times : array_like
        Rounds, shape (n,).
    memory_limit : int
        M, tokens.
    max_states : int, default 2000000
        States of one epoch, at most.
    room : int, default 4096
        States of one epoch that there is room for to begin with.
    background : array_like or None, default None
        Memory that requests outside the search hold in round r, int64 >= 0, at most M, shape
        (rounds,); 0 in later rounds. None for none at all.

    Attributes
    ----------
    rules : Rules
        Those in force, at first all.
    counts : dict[str, int]
        After a run, states that each rule removed, and branches that *fixing* left; twins are not
        counted.

    Raises
    ------
    InvalidValueError
        No request, or one that cannot run under M.
    """

    def __init__(
        self,
        prompt_lengths: npt.ArrayLike,
        output_lengths: npt.ArrayLike,
        arrival_times: npt.ArrayLike,
        memory_limit: int,
        max_states: int = 2_000_000,
        room: int = 4096,
        background: npt.ArrayLike | None = None,
    ) -> None:
        self.prompt_lengths, self.output_lengths, self.arrival_times = (
            np.ascontiguousarray(v, dtype=np.int64)
            for v in (prompt_lengths, output_lengths, arrival_times)
        )
        self.memory_limit = int(memory_limit)
        self.max_states = max_states
        self.rules = Rules()
        self.counts: dict[str, int] = {}
        self._n = len(self.prompt_lengths)
        self._check_requests()
        self._background = np.array([0] if background is None else background, dtype=np.int64)
        if self._background.min() < 0 or self._background.max() > self.memory_limit:
            raise InvalidValueError(
                None, "background", background, f"is not in 0 .. {self.memory_limit} everywhere"
            )
        self._words = -(-self._n // 64)
        self._cell = _narrowest(self.memory_limit)
        self._rounds = int(self.output_lengths.max())
        self._history = 64
        while self._history < self._rounds + 24:
            self._history *= 2
        # Starts fit into int16, and the second component of costs below COST_SHIFT bits, up to:
        weights = int((self.prompt_lengths + self.output_lengths).sum())
        self._last_epoch = min(np.iinfo(np.int16).max, ((1 << COST_SHIFT) - 1) // weights)
        keys = np.random.default_rng(1).integers(1, 2**63, self._rounds, dtype=np.int64)
        columns = (self.prompt_lengths, self.output_lengths, self.arrival_times, self.memory_limit)
        self._requests = SearchedRequests(
            RequestColumns(*columns), self._twins(), self._background, keys.astype(np.uint64)
        )
        self._layers = (self._layer(room), self._layer(room))
        side = self.memory_limit + 1
        self._prices = self._priced(np.zeros((1, side, side), np.int64), np.zeros(1, np.int64))

    @property
    def prices(self) -> Prices:
        """The prices in force, and what follows from them."""
        return self._prices

    @property
    def root_bound(self) -> int:
        """The lower bound on total latency that the prices in force prove without any search."""
        return -(-self._prices.root // SCALE)

    def set_prices(self, prices: IntArray, capacities: IntArray) -> int:
        """Put epoch prices in force.

        Parameters
        ----------
        prices : int64 array
            Q, int64 >= 0, shape (T, M + 1, M + 1), in units of 1 / SCALE.
        capacities : int64 array
            W, int64, shape (T,): at least the heaviest configuration of each epoch, as
            `hindsight.configurations.prices.epoch_prices` computes them. They are not checked
            again.

        Returns
        -------
        int
            The bound at the root, in units of 1 / SCALE.

        Raises
        ------
        InvalidTypeError, InvalidValueError
            Another type or shape.
        """
        side = self.memory_limit + 1
        for name, array, shape in (
            ("prices", prices, (len(capacities), side, side)),
            ("capacities", capacities, (len(capacities),)),
        ):
            if array.dtype != np.int64:
                raise InvalidTypeError("epoch prices", name, str(array.dtype), "is not int64")
            if array.shape != shape:
                raise InvalidValueError(
                    "epoch prices", f"shape of {name}", array.shape, f"is not {shape}"
                )
        self._prices = self._priced(prices, capacities)
        return self._prices.root

    def run(
        self,
        budget: int | None = None,
        width: int | None = None,
        should_stop: Callable[[], bool] | None = None,
        state_limit: int | None = None,
        prices: Prices | None = None,
    ) -> SearchOutcome:
        """Search for schedules of total latency <= ``budget``.

        Parameters
        ----------
        budget : int or None, default None
            Largest total latency of interest; None for any.
        width : int or None, default None
            States kept per epoch: a beam search. None for all: an exact search.
        should_stop : Callable[[], bool] or None, default None
            Asked all the time, between pieces of work of a small fraction of a second.
        state_limit : int or None, default None
            States over all epochs, children of the last one included, at most.
        prices : Prices or None, default None
            Used in this run instead of those in force.
        """
        return _Run(self, budget, width, should_stop, state_limit, prices).search()

    def _check_requests(self) -> None:
        shape = (self._n,)
        if self.output_lengths.shape != shape or self.arrival_times.shape != shape:
            raise InvalidValueError(
                None,
                "shapes",
                (shape, self.output_lengths.shape, self.arrival_times.shape),
                "of prompt_lengths, output_lengths and arrival_times differ",
            )
        if not self._n:
            raise InvalidValueError(None, "number of requests", 0, "is below 1")
        for i in range(self._n):
            s, o = int(self.prompt_lengths[i]), int(self.output_lengths[i])
            a = int(self.arrival_times[i])
            for name, value, least in (
                ("prompt_length", s, 0),
                ("output_length", o, 1),
                ("arrival_time", a, 0),
            ):
                if value < least:
                    raise InvalidValueError(f"request {i}", name, value, f"is below {least}")
            if s + o > self.memory_limit:
                raise InvalidValueError(
                    f"request {i}",
                    "prompt_length + output_length",
                    s + o,
                    f"exceeds memory_limit {self.memory_limit}",
                )

    def _twins(self) -> IntArray:
        """For each request the last to arrive of those before it that are its twins, or -1."""
        columns = (self.prompt_lengths, self.output_lengths, self.arrival_times)
        classes: dict[tuple[int, int], list[tuple[int, int]]] = {}
        twin = np.full(self._n, -1, dtype=np.int64)
        for i, (s, o, a) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            alike = classes.setdefault((s, o), [])
            twin[i] = max((each for each in alike if each[0] <= a), default=(0, -1))[1]
            alike.append((a, i))
        return twin

    def _layer(self, capacity: int) -> Layer:
        return Layer(
            np.empty((capacity, self._words), np.uint64),
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int64),
            np.empty((capacity, self._rounds), self._cell),
            np.empty((capacity, self._history), self._cell),
            np.empty((capacity, self._n), np.int16),
        )

    def _priced(self, Q: IntArray, W: IntArray) -> Prices:
        """Prices reach past the last arrival, so that beyond them every request has arrived."""
        missing = int(self.arrival_times.max()) + 1 - len(W)
        if missing > 0:
            Q = np.concatenate([Q, np.zeros((missing, *Q.shape[1:]), np.int64)])
            W = np.concatenate([W, np.zeros(missing, np.int64)])
        Q = np.ascontiguousarray(Q)
        P, u = start_values(Q, self.prompt_lengths, self.output_lengths, self.arrival_times)
        return Prices(Q, W, P, u)


class _Run:
    """One call of `StateSearch.run`: the layers at tau and tau + 1, and the best schedule."""

    def __init__(
        self,
        search: StateSearch,
        budget: int | None,
        width: int | None,
        should_stop: Callable[[], bool] | None,
        state_limit: int | None,
        prices: Prices | None,
    ) -> None:
        self._search = search
        self._prices = search.prices if prices is None else prices
        self._budget = budget
        self._limit = NO_BUDGET if budget is None else int(budget) * SCALE
        self._width = width
        self._should_stop = should_stop
        self._state_limit = state_limit
        self._current, self._following = search._layers
        self._table: IntArray = np.zeros(0, np.int64)
        self._best: int | None = None
        self._best_starts: IntArray | None = None
        self._states = self._peak = 1
        self._stats = np.zeros(5, np.int64)
        self._dominated = 0
        self._requests = search._requests
        if not search.rules.twins:
            self._requests = self._requests._replace(twin=np.full(search._n, -1, np.int64))

    def search(self) -> SearchOutcome:
        """Epoch by epoch until no state is left, or a limit is reached."""
        status: SearchStatus = "beam" if self._width else "exhausted"
        first = (0, 0, self._prices.root, 0, 0, -1)
        for array, value in zip(self._current, first, strict=True):
            array[0] = value
        held = self._search._background[1 : 1 + self._search._rounds]
        self._current.profiles[0, : len(held)] = held
        count, tau = 1, 0
        try:
            while count:
                if tau > self._search._last_epoch:
                    status = "epochs"
                    break
                children = self._expand_layer(tau, count)
                if children is None:
                    status = "states"
                    break
                tau += 1
                finished = self._finished(children)
                self._take_cheapest(np.flatnonzero(finished))
                count = self._select(~finished)
        except _StoppedError:
            status = "stopped"
        self._search._layers = (self._current, self._following)
        counted = ("earlier", "fits", "exchange", "merge", "fixing")
        self._search.counts = dict(zip(counted, self._stats.tolist(), strict=True))
        self._search.counts["dominance"] = self._dominated
        return SearchOutcome(status, self._best, self._best_starts, self._states, self._peak)

    def _check(self) -> None:
        if self._should_stop is not None and self._should_stop():
            raise _StoppedError

    def _expand_layer(self, tau: int, count: int) -> int | None:
        """Children of the ``count`` states at tau, into the following layer; None: too many."""
        search = self._search
        capacity = len(self._following.masks)
        self._table = np.full(1 << (2 * capacity).bit_length(), -1, np.int64)
        resume = np.full(search._n + 1, -1, np.int64)
        children, position = 0, 0
        while position < count:
            self._check()
            children, position, full = expand(
                *(tau, position, count, self._current, children, self._following, self._table),
                *(self._requests, self._prices, self._limit, search.rules),
                *(self._stats, resume, PATIENCE),
            )
            if self._state_limit is not None and self._states + children > self._state_limit:
                return None
            if full:
                if capacity >= search.max_states:
                    return None
                capacity = min(2 * capacity, search.max_states)
                self._grow(children, capacity)
        return children

    def _grow(self, count: int, capacity: int) -> None:
        """Move the following layer into larger arrays, with a larger hash table."""
        bigger = self._search._layer(capacity)
        self._copy(bigger, self._following, np.arange(count))
        self._following = bigger
        self._table = np.full(1 << (2 * capacity).bit_length(), -1, np.int64)
        for first in range(0, count, 10 * PATIENCE):
            self._check()
            last = min(count, first + 10 * PATIENCE)
            insert_states(self._table, bigger, self._search._requests.random_keys, first, last)

    def _copy(self, target: Layer, source: Layer, kept: IntArray) -> None:
        """Rows ``kept`` of ``source`` to the first rows of ``target``.

        Both may be the same layer when ``kept`` increases: then no row moves to a higher place, and
        blocks may be copied one after the other.
        """
        for first in range(0, len(kept), 10 * PATIENCE):
            self._check()
            rows = kept[first : first + 10 * PATIENCE]
            for to, array in zip(target, source, strict=True):
                to[first : first + len(rows)] = array.take(rows, axis=0)

    def _finished(self, children: int) -> Flags:
        """Which of the children have started every request."""
        finished = np.ones(children, np.bool_)
        left = self._search._n
        for word in self._following.masks[:children].T:
            finished &= word == np.uint64((1 << min(64, left)) - 1)
            left -= min(64, left)
        return finished

    def _take_cheapest(self, done: IntArray) -> None:
        """Keep the cheapest complete schedule within the budget; from now on only better ones.

        The bound of a complete state leaves future slacks out, so it may pass the budget where its
        total latency does not.
        """
        if not len(done):
            return
        winner = done[np.argmin(self._following.costs[done])]
        latency = int(self._following.costs[winner]) >> COST_SHIFT
        if self._budget is not None and latency > self._budget:
            return
        if self._best is None or latency < self._best:
            self._best = latency
            self._best_starts = self._following.starts[winner].astype(np.int64)
            self._limit = min(self._limit, (latency - 1) * SCALE)

    def _select(self, alive: Flags) -> int:
        """Drop too dear and dominated states too, and those beyond the width; advance."""
        bounds = self._following.bounds[: len(alive)]
        alive &= bounds <= self._limit
        if self._search.rules.dominance:
            before = int(alive.sum())
            self._dominate(alive)
            self._dominated += before - int(alive.sum())
        kept = np.flatnonzero(alive)
        if self._width and len(kept) > self._width:
            kept = kept[np.argpartition(bounds[kept], self._width)[: self._width]]
        count = len(kept)
        self._states, self._peak = self._states + count, max(self._peak, count)
        if count > len(self._current.masks):
            self._current = self._search._layer(len(self._following.masks))
        self._copy(self._current, self._following, kept)
        return count

    def _dominate(self, alive: Flags) -> None:
        """Clear ``alive`` where a state is dominated.

        Large layers are cut into buckets by started set, which dominance never crosses, so that the
        clock is looked at between them.
        """
        members = np.flatnonzero(alive)
        bits = min(12, max(0, (len(members) // (10 * PATIENCE)).bit_length() + 2))
        if len(members) <= 10 * PATIENCE:
            buckets = [members]
        else:
            mixed = np.zeros(len(members), np.uint64)
            for word in self._following.masks.T:
                mixed = (mixed ^ word[members]) * _HASH
            number = (mixed >> np.uint64(64 - bits)).astype(np.uint16)
            by_bucket = members[np.argsort(number, kind="stable")]
            sizes = np.bincount(number, minlength=1 << bits)
            buckets = np.split(by_bucket, np.cumsum(sizes)[:-1])
        for bucket in buckets:
            self._check()
            words = [word[bucket] for word in self._following.masks.T]
            order = bucket[np.lexsort((self._following.costs[bucket], *words))]
            group = 0
            for begin in range(0, len(order), PATIENCE):
                self._check()
                group = dominate(
                    order,
                    begin,
                    min(len(order), begin + PATIENCE),
                    group,
                    self._following.masks,
                    self._following.profiles,
                    alive,
                    DOMINANCE_WINDOW,
                    not self._search._background.any(),
                )


def _narrowest(largest: int) -> type[np.integer[Any]]:
    """The integer type that the memory of a round is stored in."""
    if largest < 1 << 8:
        return np.uint8
    return np.uint16 if largest < 1 << 16 else np.int64

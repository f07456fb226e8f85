"""Path graph: the sets of active requests that prices of states cannot exclude at each epoch.

**The relaxation.** A node is an epoch tau together with the set of requests active at tau and their
starts. Arcs are "i starts at tau" and "go to tau + 1, where requests that have ended are no longer
active". Requests that start at one epoch do so in the order of indices. Every schedule is a path
from the empty set at 0 to an empty set. A path is like a schedule, except that nodes do not record
which requests have completed: it may start some requests never, and some again after their
completion.

**Followed and anonymous requests.** Let nodes record only the active requests of a set A, the
*followed* requests. Every schedule is still a path. All other requests are *anonymous*: they are
only known as states (memory held, rounds to go), as in the configurations of
`hindsight.prices.state_tables`. With more requests in A the graph is *finer*: a node of it, without
the requests that the coarser graph does not follow, is a node of the coarser graph.

**Costs of paths.** Let Q, W be epoch prices and capacities, P_i(t) the priced cost of starts
(`hindsight.prices.states`), u_i any number for the followed requests and min P_i for the others,
all in units of 1 / SCALE. A schedule has

    SCALE * TEL = L + sum_i (P_i(t_i) - u_i) + sum_tau (W_tau - price of what is active at tau),
    L = sum_i u_i - sum_tau W_tau.

The *slack* of a node at tau is W_tau, less the price of its followed requests, less the largest
price of anonymous states that fit in memory with them (`hindsight.paths.anonymous_states`). It is
at most the last bracket of every schedule that passes the node. The *regrets* (reduced costs)
P_i(t_i) - u_i of anonymous requests are >= 0. Let the cost of a path be the slacks of its nodes
plus the regrets of its followed requests, each counted when the request completes. Then a schedule
with a total latency of at most ``limit`` is a path that costs at most B = SCALE * limit - L, the
budget.

The graph is built from its end to its start. A node x at tau corresponds to a node y of the coarser
graph. Let G be the least cost of paths from x to the end, and F the least cost of paths of the
coarser graph from its beginning to y. x is left out if F + G > B, or if y is not in the coarser
graph. *Every schedule within the limit is a path of the graph*: slacks do not fall as more requests
are followed, and the requests followed newly add regrets >= 0, so F is at most the cost of the
schedule before x. The coarsest graph follows no request: it is a chain of epochs, and its arcs cost
0.

The graph is built backwards because the requests that run early are short, many, and alike. Their
combinations would be too many forwards, when nothing is known about their costs yet. Long requests
are followed first, because few of them run at once and all others have few rounds to go.

**Starts fixed by reduced cost.** With u_i = min P_i for all i, no term of the sum is negative. So
no schedule within the limit starts i at t if P_i(t) - u_i > B.

**Once at a time.** A node contains a request at most once, like a schedule.

**Twins.** Identical requests (same a, s, o) start in index order: sorting the starts of each class
of a schedule gives one of the same cost. So a node is left out if two of them are active and the
one of larger index started earlier. Identical requests are followed from the same graph on.

**Blocks.** If memory is allocated in blocks, all of this applies to the relaxed instance in tokens
(`instances.problem.memory_translation`), for which every schedule in blocks is feasible. A node
whose followed requests do not fit into memory in *blocks* in round tau + 1 is left out too. The
blocks of a request never decrease while it runs, so if the rounds of completions fit, all rounds
do. So with all requests followed, paths fit in blocks. Requests that are identical in the relaxed
instance hold the same blocks, so twins stay twins (`hindsight.certificates.problem.Rows` proves
it).

**Last epoch.** From the last priced epoch T on, W and Q are 0 and P_i(t) grows by SCALE per round.
With u_i = min P_i, a regret is at most B only for starts up to T + B / SCALE. So all schedules
within the limit end by T + B / SCALE plus the largest output length.

**Order.** Nodes are numbered from the end to the start: arcs lead to smaller numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from hindsight.prices.starts import request_classes
from hindsight.prices.states import SCALE, start_values
from hindsight.runtime.clock import StoppedEarlyError
from instances import Instance
from instances.arrays import IntArray
from instances.problem.memory_translation import relaxed

from . import layers
from .anonymous_states import room_for_states, set_epoch
from .layer_kernels import extend_sets, join_parents, store_epoch
from .path_kernels import costs_from_the_start, costs_of_arcs, grouped

SETS_AT_ONCE = 2_000
"""Largest number of sets extended between two polls of ``should_stop``."""

CELLS_AT_ONCE = 2_000_000
"""Largest number of table entries of anonymous states filled between two polls, if each set needs a
table of its own."""

MOST_NODES = (1 << 30) - 2
"""Largest number of nodes. Up to twice as many completions must have 32-bit numbers."""

MOST_THREADS = 4
"""Largest number of threads that build a graph. Each reserves its own memory, used or not."""

NEVER = 1 << 50
"""Cost that marks a start which no schedule within the limit has."""


class Room(NamedTuple):
    """Limits on the size of a graph.

    Attributes
    ----------
    nodes : int
        Largest number of nodes. One epoch may have an eighth of it, but at least 4096.
    table_bytes : int
        Largest size of the tables of anonymous states of all threads, in bytes.
    threads : int, default 1
        Number of threads, of which `MOST_THREADS` are used. The graph does not depend on it.
    """

    nodes: int
    table_bytes: int
    threads: int = 1


class TooLargeError(Exception):
    """Raised if a graph would exceed its limit on nodes or another limit on sizes."""


def most_at_once(prompt_lengths: IntArray, memory_limit: int) -> int:
    """Return an upper bound on the number of active requests: each holds s + 1 tokens or more."""
    held = np.cumsum(np.sort(prompt_lengths) + 1)
    return max(1, int(np.searchsorted(held, memory_limit, side="right")))


class PricedInstance:
    """An instance, prices of states, and a limit on total latency.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule.
    prices, capacities : int64 array
        Q and W of `hindsight.prices.states`, shapes (T, M + 1, M + 1) and (T,), with T later than
        the last arrival.
    limit : int
        Largest total latency of the schedules considered.

    Attributes
    ----------
    first_prices : int64 array, shape (n,)
        u_i = min P_i, in units of 1 / SCALE.
    starts : int64 array, shape (n, epochs + 1)
        Priced costs P_i(t) of starts. `NEVER` if no schedule within the limit has the start.
    is_within : bool
        Whether a schedule may be within the limit. False if prices prove that none is.

    Raises
    ------
    TooLargeError
        There are too many epochs or requests, or prices are too large.
    """

    def __init__(
        self, instance: Instance, prices: IntArray, capacities: IntArray, limit: int
    ) -> None:
        self.limit, self.prices, self.capacities = limit, prices, capacities
        tokens, rule = relaxed(instance), instance.memory_rule
        s, o, a, _ = self.columns = tokens.columns
        stored = instance.prompt_lengths - rule.unstored
        self.blocks = layers.Blocks(rule.block_size, stored, rule.held(stored + o))
        n, T = len(s), len(capacities)
        P, u = start_values(prices, s, o, a)
        self.first_prices = np.ascontiguousarray(u[:, 0])
        budget = self.budget(self.first_prices)
        self.is_within = budget >= 0
        self.epochs = T + max(0, budget) // SCALE + int(o.max()) + 2
        is_late = max(self.epochs, n) >= 1 << layers.START_BITS
        if is_late or int(capacities.max(initial=0)) >= 1 << 31:
            raise TooLargeError
        self.starts = np.full((n, self.epochs + 1), NEVER, dtype=np.int64)
        for i in range(n):
            self.starts[i, a[i] : T + 1] = P[i, a[i] : T + 1]
            self.starts[i, T + 1 :] = P[i, T] + SCALE * np.arange(1, self.epochs - T + 1)
        self.starts[self.starts - self.first_prices[:, None] > budget] = NEVER
        self.kinds = request_classes(tokens).class_of
        self.most_at_once = most_at_once(s, tokens.memory_limit)
        rng = np.random.default_rng(1)
        self.random_keys = rng.integers(1, 2**63, self.starts.shape).astype(np.uint64)

    def constant(self, u: IntArray) -> int:
        """Return the constant L for start prices u."""
        return int(u.sum()) - int(self.capacities.sum())

    def budget(self, u: IntArray, limit: int | None = None) -> int:
        """Return the budget B for start prices u: the largest cost of a path within a limit."""
        return SCALE * (self.limit if limit is None else limit) - self.constant(u)


def coarsest_graph(priced: PricedInstance) -> layers.PathGraph:
    """Return the graph that follows no request: a chain of epochs whose arcs cost 0."""
    places = np.arange(priced.epochs + 1)
    none, nothing = np.full_like(places, -1), np.zeros_like(places)
    columns = places - 1, none, none, places[::-1], nothing, nothing, nothing
    typed = (column.astype(kind) for column, kind in zip(columns, layers.COLUMNS, strict=True))
    return layers.PathGraph._make([*typed, np.zeros(0, np.int16)])


def finer_graph(
    priced: PricedInstance,
    coarse: layers.PathGraph,
    followed: layers.Flags,
    added: IntArray,
    u: IntArray,
    room: Room,
    should_stop: Callable[[], bool],
) -> layers.PathGraph | None:
    """Build the graph that follows more requests than a coarser one.

    Parameters
    ----------
    priced : PricedInstance
        The problem.
    coarse : PathGraph
        Coarser graph, which holds every schedule within the limit.
    followed : bool array, shape (n,)
        Requests that the coarser graph follows.
    added : int64 array
        Further requests that the finer graph follows, increasing; identical requests together.
    u : int64 array, shape (n,)
        Start prices, in units of 1 / SCALE. For requests that the coarser graph does not follow
        they are those of `PricedInstance.first_prices`.
    room : Room
        Limits on the size of the finer graph.
    should_stop : Callable[[], bool]
        Polled throughout.

    Returns
    -------
    PathGraph or None
        The graph, or None if no path is left: no schedule is within the limit.

    Raises
    ------
    TooLargeError
        The graph needs more nodes than ``room`` allows.
    StoppedEarlyError
        ``should_stop`` returned True.
    """
    arcs = costs_of_arcs(coarse, priced.starts, u, priced.columns.output_lengths)
    paid = costs_from_the_start(coarse, arcs)
    coarser = layers.CoarserGraph(coarse, followed, *grouped(coarse.later), paid)
    del arcs
    room = room._replace(threads=min(room.threads, MOST_THREADS))
    builder = _Builder(priced, coarser, added, u, room)
    with builder.pool:
        for tau in range(priced.epochs - 1, -1, -1):
            builder.add(tau, should_stop)
            if not builder.count:
                return None
    return builder.graph()


class _Builder:
    """Arrays of a path graph to which epochs are added one by one, from the last to the first."""

    def __init__(
        self,
        priced: PricedInstance,
        coarser: layers.CoarserGraph,
        added: IntArray,
        u: IntArray,
        room: Room,
    ) -> None:
        self.priced, self.pool = priced, ThreadPoolExecutor(room.threads)
        self.followed = coarser.followed.copy()
        self.followed[added] = True
        o, side = priced.columns.output_lengths, priced.columns.memory_limit + 1
        longest = int(o[~self.followed].max(initial=0))
        self.unpriced = np.zeros((side, side), dtype=np.int64)
        self.most_nodes = min(room.nodes, MOST_NODES)
        self.room, most = max(4096, self.most_nodes // 8), priced.most_at_once
        # The first set is empty: no request is active after the last epoch.
        self.given = layers.Extension(
            tau=priced.epochs,
            room=self.room,
            capacity=0,
            prices=self.unpriced,
            budget=priced.budget(u),
            regrets=priced.starts - u[:, None],
            requests=priced.columns,
            blocks=priced.blocks,
            added=added,
            kinds=priced.kinds,
            keys=priced.random_keys,
            above=layers.Sets.room(self.room, most),
            coarser=coarser,
        )
        # Arrays of zeros take memory only where they are written.
        self.parts = [
            layers.Found(
                layers.Sets.room(self.room, most),
                layers.Scratch(
                    np.zeros(1 << (2 * self.room).bit_length() if first else 1, np.int64),
                    *(np.zeros(self.room, np.int64) for _ in layers.Scratch._fields[1:]),
                ),
                np.zeros(2 * (room.nodes + 1) if first else 4 * self.room, np.int16),
                room_for_states(longest, most, side - 1, room.table_bytes // room.threads),
                layers.Members(*np.zeros((5, most + 1), np.int64)),
            )
            for first in [True] + [False] * (room.threads - 1)
        ]
        cells = self.parts[0].states.tables[0].size
        self.at_once = max(1, min(SETS_AT_ONCE, CELLS_AT_ONCE // cells))
        columns = (np.zeros(room.nodes + 1, kind) for kind in layers.COLUMNS)
        self.arrays = layers.PathGraph._make([*columns, self.parts[0].ended])
        later, parents, requests, epochs, *_ = self.arrays
        later[0] = parents[0] = requests[0] = -1
        epochs[0] = priced.epochs
        self.size, self.count, self.ended = 1, 1, 0

    def add(self, tau: int, should_stop: Callable[[], bool]) -> None:
        """Add epoch ``tau``, the one before the earliest epoch so far."""
        priced, prices, capacity = self.priced, self.unpriced, 0
        if tau < len(priced.capacities):
            prices, capacity = priced.prices[tau], int(priced.capacities[tau])
        room = min(self.room, self.most_nodes - self.size)
        given = self.given._replace(tau=tau, room=room, capacity=capacity, prices=prices)
        # Each thread gets a range of sets in order, so that the graph does not depend on the
        # number of threads.
        borders = [-(-self.count * k // len(self.parts)) for k in range(len(self.parts) + 1)]
        if self.count < self.at_once:
            borders[1:] = [self.count] * len(self.parts)

        def extend(k: int) -> tuple[int, int]:
            part, nodes, taken = self.parts[k], 0, self.ended if k == 0 else 0
            set_epoch(tau, prices, priced.columns, self.followed, part.states)
            for begin in range(borders[k], borders[k + 1], self.at_once):
                if should_stop():
                    raise StoppedEarlyError
                stop = min(borders[k + 1], begin + self.at_once)
                nodes, taken = extend_sets(given, begin, stop, (nodes, taken), part)
                if nodes < 0:
                    raise TooLargeError
            return nodes, taken

        busy = [k for k in range(len(self.parts)) if borders[k] < borders[k + 1]]
        results = [extend(0)] if len(busy) == 1 else list(self.pool.map(extend, busy))
        nodes, self.ended = results[0]
        for k, (more, taken) in zip(busy[1:], results[1:], strict=True):
            self._append(self.parts[k], nodes, more, taken, room)
            nodes += more
        nodes = join_parents(given, nodes, self.parts[0])
        if nodes < 0:
            raise TooLargeError
        self.count = store_epoch(given, nodes, self.size, self.parts[0], self.arrays)
        self.size += nodes

    def _append(self, part: layers.Found, nodes: int, more: int, taken: int, room: int) -> None:
        """Append the nodes that another thread found to those of the first thread."""
        first = self.parts[0]
        if nodes + more > room or self.ended + taken > len(first.ended):
            raise TooLargeError
        part.scratch.ended_first[:more] += self.ended
        # Only the first thread has a hash table.
        both: Any = [(*one.here, *one.scratch[1:]) for one in (first, part)]
        for target, source in zip(*both, strict=True):
            target[nodes : nodes + more] = source[:more]
        first.ended[self.ended : self.ended + taken] = part.ended[:taken]
        self.ended += taken

    def graph(self) -> layers.PathGraph:
        """Return the graph built so far, in the arrays of this object."""
        for column in self.arrays[:-1]:
            # Shrink in place: a copy would take the memory twice.
            column.resize(self.size, refcheck=False)
        self.arrays.ended.resize(self.ended, refcheck=False)
        return self.arrays

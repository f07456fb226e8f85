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
all in units of 1 / SCALE rounds. A schedule has

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
"""Largest number of nodes whose predecessors are found between two calls of ``should_stop``."""

TABLE_BYTES = 400_000_000
"""Approximate size in bytes of `AnonymousStates.tables`: largest total prices of requests that fit
in memory together and whose starts the path graph does not record."""

CELLS_AT_ONCE = 2_000_000
"""Largest number of entries of `AnonymousStates.tables` computed between two calls of
``should_stop``, while a graph is built. This assumes that each node needs a separate table."""

MOST_NODES = (1 << 30) - 2
"""Largest number of nodes N of a path graph. The indices of 2 N array entries must fit in int32."""

NEVER = 1 << 50
"""Cost, above all real costs, of a start that no schedule within the latency limit has."""


class TooLargeError(Exception):
    """Raised if a path graph would have too many nodes, epochs or requests, or too large prices."""


def most_at_once(prompt_lengths: IntArray, memory_limit: int) -> int:
    """Return an upper bound on the number of requests that run at once.

    In the round after its start, a request holds s + 1 tokens, its prompt and one output token, and
    later more. The bound is the largest number of requests with the shortest prompts for which
    these tokens fit in the memory limit.
    """
    held = np.cumsum(np.sort(prompt_lengths) + 1)
    return max(1, int(np.searchsorted(held, memory_limit, side="right")))


class PricedInstance:
    """An instance, prices of the states of its requests, and a limit on total latency.

    The state of a running request is (tokens held, rounds to go). Epoch tau is the time between
    rounds tau and tau + 1.

    Parameters
    ----------
    instance : Instance
        The problem, with any memory rule.
    prices, capacities : int64 array
        Prices Q, shape (T, M + 1, M + 1): Q[tau, m, r] is the price at epoch tau < T of a request
        that holds m tokens and has r rounds to go. Capacities W, shape (T,): for each of these
        epochs, at least the largest total price of requests that fit into memory together. Both are
        in units of 1 / SCALE rounds (`hindsight.prices.states`). T must be later than the last
        arrival.
    limit : int
        Largest total latency of the schedules that are searched, in rounds.

    Attributes
    ----------
    first_prices : int64 array, shape (n,)
        First start price u_i of each request i, which is the multiplier of the constraint "request
        i starts once". It is the least priced cost P_i(t) (latency plus prices of states) of any
        start t, in units of 1 / SCALE rounds.
    starts : int64 array, shape (n, epochs + 1)
        Entry (i, t) is the priced cost P_i(t): the latency of request i if it starts at t, plus the
        prices of its states, in units of 1 / SCALE rounds. It is `NEVER` if no schedule within the
        limit starts request i at t.
    is_within : bool
        False if the prices prove that no schedule is within the limit.

    Raises
    ------
    TooLargeError
        There are too many epochs or requests, or a capacity is too large.
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
            raise TooLargeError("too many epochs or requests, or too large capacities")
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
        """Return L = sum of start prices u - sum of epoch capacities W, in 1 / SCALE rounds.

        u_i is the multiplier of "request i starts once". W is the capacity of an epoch (time
        between two rounds): at least the largest total price of the states of requests that fit
        into memory together.

        The nodes of a path are sets of requests that run at an epoch. The cost of the path has two
        parts. The first is, for each epoch, W minus the total price of the requests of its last
        node and of the most expensive other requests that fit in memory with them. The second is
        the regret of each start on the path: the priced cost of the start (latency plus prices of
        states) minus u_i. Every schedule that is a path has SCALE * (total latency) >= L + (cost of
        the path).
        """
        return int(u.sum()) - int(self.capacities.sum())

    def budget(self, u: IntArray, limit: int | None = None) -> int:
        """Return the largest cost that a schedule within a limit on total latency has as a path.

        Costs depend on the start prices u, the multipliers of "request i starts once". A schedule
        that is a path of a path graph has SCALE * (total latency) >= L + (cost of the path). L is
        the result of `constant` for u, which also defines the cost of a path. So the path of a
        schedule within the limit costs at most B = SCALE * limit - L, in units of 1 / SCALE rounds.
        If ``limit`` is None, the limit of this object is used.
        """
        return SCALE * (self.limit if limit is None else limit) - self.constant(u)


def coarsest_graph(priced: PricedInstance) -> layers.PathGraph:
    """Return the path graph whose nodes record the start of no request.

    A path graph contains all schedules within a limit on total latency as paths. This one is a
    chain with one node per epoch (time between two rounds). Its only arcs go from the node of each
    epoch to the node of the next epoch, and cost 0.
    """
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
    most_nodes: int,
    should_stop: Callable[[], bool],
) -> layers.PathGraph | None:
    """Build a path graph that records the starts of more requests than a given, coarser graph.

    A path graph contains all schedules within the limit on total latency as paths. Its *followed*
    requests are those whose starts its nodes record while these requests run. The least costs of
    paths in the coarser graph are lower bounds on those in the finer graph. A node of the finer
    graph is not built if these bounds show that every path through the node costs more than the
    path of any schedule within the limit.

    Parameters
    ----------
    priced : PricedInstance
        The problem with its prices and the limit on total latency.
    coarse : PathGraph
        Coarser graph. Every schedule within the limit is one of its paths.
    followed : bool array, shape (n,)
        Whether each request is followed in the coarser graph.
    added : int64 array
        Indices of the requests that are followed in the finer graph only, in increasing order. They
        contain all or none of each class of identical requests.
    u : int64 array, shape (n,)
        Start prices u_i, the multipliers of "request i starts once", in units of 1 / SCALE rounds.
        Requests that are not followed in the coarser graph have the prices
        `PricedInstance.first_prices`.
    most_nodes : int
        Largest number of nodes of the finer graph. Each epoch (time between two rounds) may have at
        most max(4096, most_nodes // 8) of them.
    should_stop : Callable[[], bool]
        Polled while the graph is built.

    Returns
    -------
    PathGraph or None
        The finer graph, or None if it has no path. Then no schedule is within the limit.

    Raises
    ------
    TooLargeError
        The graph needs more than ``most_nodes`` nodes.
    StoppedEarlyError
        ``should_stop`` returned True.
    """
    arcs = costs_of_arcs(coarse, priced.starts, u, priced.columns.output_lengths)
    paid = costs_from_the_start(coarse, arcs)
    coarser = layers.CoarserGraph(coarse, followed, *grouped(coarse.later), paid)
    del arcs
    most_nodes = min(most_nodes, MOST_NODES)
    start, found, arrays = _first_epoch(priced, coarser, added, u, most_nodes)
    is_followed, unpriced = followed.copy(), start.prices
    is_followed[added] = True
    at_once = max(1, min(SETS_AT_ONCE, CELLS_AT_ONCE // found.states.tables[0].size))
    size, count, ended = 1, 1, 0
    for tau in range(priced.epochs - 1, -1, -1):
        prices, capacity = unpriced, 0
        if tau < len(priced.capacities):
            prices, capacity = priced.prices[tau], int(priced.capacities[tau])
        room, nodes = min(start.room, most_nodes - size), 0
        given = start._replace(tau=tau, room=room, capacity=capacity, prices=prices)
        found.states.counts.fill(0)
        set_epoch(tau, prices, priced.columns, is_followed, found.states)
        for begin in range(0, count, at_once):
            if should_stop():
                raise StoppedEarlyError
            end = min(count, begin + at_once)
            nodes, ended = extend_sets(given, begin, end, (nodes, ended), found)
            if nodes < 0:
                break
        nodes = join_parents(given, nodes, found) if nodes >= 0 else nodes
        if nodes < 0:
            raise TooLargeError("too many nodes of a path graph at one epoch")
        count = store_epoch(given, nodes, size, found, arrays)
        size += nodes
        if not count:
            return None
    for column in arrays[:-1]:
        # Shrink each array in place: a shortened copy would need the memory a second time.
        column.resize(size, refcheck=False)
    arrays.ended.resize(ended, refcheck=False)
    return arrays


def _first_epoch(
    priced: PricedInstance,
    coarser: layers.CoarserGraph,
    added: IntArray,
    u: IntArray,
    most_nodes: int,
) -> tuple[layers.Extension, layers.Found, layers.PathGraph]:
    """Return the inputs, the workspace and the graph with which `finer_graph` starts.

    An epoch is the time between two rounds. The inputs and the workspace are those of the functions
    that build the nodes of one epoch. The graph has one node: the last epoch, when no request runs.
    Its arrays have room for ``most_nodes`` further nodes.
    """
    room, most, limit = max(4096, most_nodes // 8), priced.most_at_once, priced.columns.memory_limit
    is_followed = coarser.followed.copy()
    is_followed[added] = True
    longest = int(priced.columns.output_lengths[~is_followed].max(initial=0))
    # When the nodes of epoch tau (time between rounds tau and tau + 1) are built, ``above`` has
    # nodes of epoch tau + 1. Each node is a set of running requests. At the last epoch no request
    # runs, so ``above`` has one empty set then.
    given = layers.Extension(
        tau=priced.epochs,
        room=room,
        capacity=0,
        prices=np.zeros_like(priced.prices[0]),
        budget=priced.budget(u),
        regrets=priced.starts - u[:, None],
        requests=priced.columns,
        blocks=priced.blocks,
        added=added,
        kinds=priced.kinds,
        keys=priced.random_keys,
        above=layers.Sets.room(room, most),
        coarser=coarser,
    )
    # An array of zeros takes memory only where it is written, so these arrays have the largest size
    # that they may need.
    table = np.zeros(1 << (2 * room).bit_length(), np.int64)
    found = layers.Found(
        layers.Sets.room(room, most),
        layers.Scratch(table, *np.zeros((7, room), np.int64)),
        np.zeros(2 * (most_nodes + 1), np.int16),
        room_for_states(longest, most, limit, TABLE_BYTES),
        layers.Members(*np.zeros((5, most + 1), np.int64)),
    )
    columns = (np.zeros(most_nodes + 1, kind) for kind in layers.COLUMNS)
    graph = layers.PathGraph._make([*columns, found.ended])
    graph.later[0] = graph.parents[0] = graph.requests[0] = -1
    graph.epochs[0] = priced.epochs
    return given, found, graph

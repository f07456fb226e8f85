"""The graph of paths: all that configuration prices leave of what may run at each epoch.

**The relaxation.** A schedule is a walk through epochs: at tau the set of active requests, each
with its start, loses what completes, then takes in what starts, one request after the other in the
order of indices. Forget which requests have run and completed: nodes are (tau, active requests with
their starts), arcs are "i starts at tau" and "on to tau + 1". Every schedule is a path from the
empty set at 0 to an empty set, and a path is a schedule but for how often each request is started:
it may start some never and some again after their completion.

**What prices leave.** Let Q, W be epoch prices and capacities, P_i(t) the priced cost of starts and
u_i = min P_i (`hindsight.configurations.prices`), all in units of 1 / SCALE. A schedule has

    SCALE * TEL = L + sum_i (P_i(t_i) - u_i) + sum_tau (W_tau - price of what is active at tau),
    L = sum_i u_i - sum_tau W_tau,

in which all brackets, *regrets* of starts and *slacks* of epochs, are >= 0. So a schedule with a
total latency of at most ``limit`` has brackets of at most B = SCALE * limit - L together, and so
has any part of them. The graph is built from its end to its start. For a node at tau let G be the
least total, over its ways to the end, of the slacks from tau on and the regrets of the requests
that are active at tau or start later. It is left out when G > B: every schedule through it costs
more than the limit. Nothing else is left out but by the rules below, so *every schedule within the
limit is a path of the graph*.

Backwards, because the requests that run early are short, many, and alike: forwards their
combinations abound before anything is known of what they cost.

**Once at a time.** A node holds a request once at most: so does a schedule.

**Twins.** Identical requests (same a, s, o) start in index order: sorting the starts of each class
of a schedule gives one of the same cost. So a node with two of them active in which the one of
larger index started earlier may be left out.

**Where it ends.** From the last priced epoch T on, W and Q are 0 and P_i(t) grows by SCALE a
round. A regret is at most B only up to T + B / SCALE, so the epochs up to there and one output
length more hold all schedules within the limit.

**Order.** Nodes are numbered from the end to the start: arcs lead to smaller numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hindsight.configurations.prices import SCALE, start_values
from instances import Instance
from instances.arrays import IntArray, RequestColumns

from .layer_kernels import START_BITS, Codes, Scratch, Sets, extend_sets, join_parents, store_epoch

SETS_AT_ONCE = 20_000
"""Sets extended between two looks at the clock."""


class TooLargeError(Exception):
    """A graph with more nodes than there is room for."""


class StoppedError(Exception):
    """The caller wants the work to end."""


@dataclass(frozen=True, eq=False)
class PathGraph:
    """A graph of paths, see the module docstring; node N - 1 is its beginning.

    Attributes
    ----------
    later : int32 array, shape (N,)
        The node reached when nothing more starts, or -1.
    parents : int32 array, shape (N,)
        The node before the last start, or -1 where nothing starts.
    requests : int16 array, shape (N,)
        What started last, or -1.
    epochs : int16 array, shape (N,)
        tau.
    ends : bool array, shape (N,)
        Whether a path may end here.
    """

    later: Codes
    parents: Codes
    requests: npt.NDArray[np.int16]
    epochs: npt.NDArray[np.int16]
    ends: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.later)


def most_at_once(prompt_lengths: IntArray, memory_limit: int) -> int:
    """An upper limit on the requests active at once: each holds s + 1 or more in its next round."""
    held = np.cumsum(np.sort(prompt_lengths) + 1)
    return max(1, int(np.searchsorted(held, memory_limit, side="right")))


def kinds_of(instance: Instance) -> IntArray:
    """Numbers of the requests, equal for identical ones."""
    rows = np.column_stack(
        [instance.arrival_times, instance.prompt_lengths, instance.output_lengths]
    )
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def build_graph(
    instance: Instance,
    prices: IntArray,
    capacities: IntArray,
    limit: int,
    most_nodes: int,
    should_stop: Callable[[], bool],
    *,
    twins: bool = True,
) -> PathGraph | None:
    """The graph that holds every schedule with a total latency of at most ``limit``.

    Parameters
    ----------
    instance : Instance
        The problem.
    prices, capacities : int64 array
        Q and W of `hindsight.configurations.prices`, int64, shapes (T, M + 1, M + 1) and (T,), T
        past the last arrival.
    limit : int
        Total latency.
    most_nodes : int
        Of the graph; one epoch has at most an eighth of them, but 4096 in any case.
    should_stop : Callable[[], bool]
        Asked all the time.
    twins : bool, default True
        Whether the rule of twins is used.

    Returns
    -------
    PathGraph or None
        None where no path is left: no schedule is within the limit.

    Raises
    ------
    TooLargeError
        It has more than ``most_nodes`` nodes, or too many epochs.
    StoppedError
        ``should_stop`` said so.
    """
    s, o, a = instance.prompt_lengths, instance.output_lengths, instance.arrival_times
    n, T, M = len(s), len(capacities), instance.memory_limit
    P, u = start_values(prices, s, o, a)
    budget = SCALE * limit - int(u[:, 0].sum()) + int(capacities.sum())
    if budget < 0:
        return None
    epochs = T + budget // SCALE + int(o.max()) + 2
    if epochs >= 1 << START_BITS or n >= 1 << (31 - START_BITS):
        raise TooLargeError
    regrets = np.full((n, epochs + 1), budget + 1, dtype=np.int64)
    for i in range(n):
        regrets[i, a[i] : T + 1] = P[i, a[i] : T + 1] - u[i, 0]
        regrets[i, T + 1 :] = P[i, T] - u[i, 0] + SCALE * np.arange(1, epochs - T + 1)
    kinds = kinds_of(instance) if twins else np.arange(n)
    random_keys = np.random.default_rng(1).integers(1, 2**63, (n, epochs + 1)).astype(np.uint64)
    columns = RequestColumns(s, o, a, M)
    builder = _Builder(max(4096, most_nodes // 8), most_at_once(s, M), most_nodes)
    none = np.zeros((M + 1, M + 1), dtype=np.int64)
    for tau in range(epochs - 1, -1, -1):
        now = (prices[tau], int(capacities[tau])) if tau < T else (none, 0)
        builder.add(tau, columns, kinds, regrets, now[0], now[1], budget, random_keys, should_stop)
        if not builder.count:
            return None
    return builder.graph(epochs)


class _Builder:
    """The arrays of a graph while it grows."""

    def __init__(self, room: int, most: int, most_nodes: int) -> None:
        self.room, self.most_nodes = room, most_nodes
        self.above, self.here = (
            Sets(
                np.empty((room, most), np.int32),
                np.empty(room, np.int64),
                np.empty(room, np.uint64),
                np.empty(room, np.int64),
            )
            for _ in range(2)
        )
        self.scratch = Scratch(
            np.full(1 << (2 * room).bit_length(), -1, np.int64),
            *(np.empty(room, np.int64) for _ in range(5)),
        )
        # After the last epoch nothing is active.
        self.above_nodes = np.zeros(room, np.int64)
        self.above.sizes[0], self.above.keys[0], self.above.costs[0] = 0, 0, 0
        self.later, self.parents = (np.empty(most_nodes + 1, np.int32) for _ in range(2))
        self.requests, self.epochs = (np.empty(most_nodes + 1, np.int16) for _ in range(2))
        self.later[0] = self.parents[0] = self.requests[0] = -1
        self.size = self.count = 1

    def add(
        self,
        tau: int,
        columns: RequestColumns,
        kinds: IntArray,
        regrets: IntArray,
        prices: IntArray,
        capacity: int,
        budget: int,
        random_keys: npt.NDArray[np.uint64],
        should_stop: Callable[[], bool],
    ) -> None:
        """One epoch more."""
        nodes, room = 0, min(self.room, self.most_nodes - self.size)
        for begin in range(0, self.count, SETS_AT_ONCE):
            if should_stop():
                raise StoppedError
            nodes = extend_sets(
                tau,
                begin,
                min(self.count, begin + SETS_AT_ONCE),
                nodes,
                self.above,
                self.above_nodes,
                self.here,
                self.scratch,
                columns,
                kinds,
                regrets,
                prices,
                capacity,
                budget,
                random_keys,
                room,
            )
            if nodes < 0:
                raise TooLargeError
        nodes = join_parents(tau, nodes, self.here, self.scratch, random_keys, room)
        if nodes < 0:
            raise TooLargeError
        self.count = store_epoch(
            *(tau, nodes, self.size, self.here, self.scratch, self.above, self.above_nodes),
            *(self.later, self.parents, self.requests, self.epochs),
        )
        self.size += nodes

    def graph(self, last: int) -> PathGraph:
        """What there is; node 0 is the end."""
        size = self.size
        self.epochs[0] = last
        ends = np.zeros(size, np.bool_)
        ends[0] = True
        return PathGraph(
            self.later[:size].copy(),
            self.parents[:size].copy(),
            self.requests[:size].copy(),
            self.epochs[:size].copy(),
            ends,
        )

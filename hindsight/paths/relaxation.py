"""Paths priced until one of them is a schedule or none is left: successive sublimation.

Let the graph hold every schedule with a total latency of at most ``limit`` as a path
(`hindsight.paths.graph`), and let u be any numbers. A schedule starts every request once, so

    SCALE * TEL = sum_i u_i + sum over starts (SCALE (t + o_i - a_i) - u_i) >= sum_i u_i + V(u),

V(u) the least cost of a path when a start of i at t costs SCALE (t + o_i - a_i) - u_i. That is
the Lagrangian bound of "every request is started once". All of it is in integers. From it follow

* *a bound*: every schedule costs at least min(limit + 1, (sum u + V(u)) / SCALE);
* *dropping from both ends*: with F and G the least costs from the start to a node and from there
  to an end, a node with sum u + F + G > SCALE limit is on no path of a schedule within the limit.
  What is dropped for one u stays dropped for all: the graph keeps its property;
* *an optimum*: where the cheapest path starts every request once, it is a schedule of the least
  total latency.

u follows the gradient 1 - (starts of i) of the bound smoothed by Gibbs weights over paths
(`hindsight.paths.path_kernels.gibbs_paths`), which Adam climbs while the heat falls.

**Sublimation.** Where prices alone leave a gap, some requests are *tracked*: nodes are told apart
by which of these have been started, a tracked request is not started again, and a path may end only
when all of them were. Schedules are such paths, so the property is kept, and bounds only rise.
Those that cheapest paths start too often, or not at all, come first. With all of them tracked every
path is a schedule. As bounds from both ends drop nodes all the while, few are ever there:
state-space relaxation (Christofides, Mingozzi and Toth 1981) put back step by step, as in the
successive sublimation of single-machine scheduling (Ibaraki 1987; Tanaka, Fujikuma and Araki 2009,
doi 10.1007/s10951-008-0093-5; with idle time Tanaka and Fujikuma 2012, doi
10.1007/s10951-011-0242-0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hindsight.configurations.prices import SCALE
from hindsight.runtime.adam import Adam
from instances import Instance
from instances.arrays import FloatArray, IntArray

from .graph import PathGraph, StoppedError, TooLargeError
from .layer_kernels import FAR
from .path_kernels import (
    Arcs,
    Split,
    best_path,
    children_of,
    costs_from_the_start,
    costs_to_the_end,
    gibbs_paths,
    kept_arcs,
    split_nodes,
)

CHUNK = 1 << 20
"""Nodes between two looks at the clock."""

PRUNE_EVERY = 10
"""Iterations between two rounds of dropping nodes."""

SETTLED = 0.02
"""Largest difference of expected starts from 1 at which prices are good enough."""


@dataclass(frozen=True, eq=False)
class PathOutcome:
    """What became of a graph.

    Attributes
    ----------
    lower_bound : int
        Proved: no schedule has a smaller total latency.
    start_times : int64 array or None
        An optimal schedule, shape (n,), where one within the limit was found.
    root_bound : int
        Proved by the prices alone, before any request was tracked.
    tracked : int
        Requests tracked at the end.
    nodes : int
        Left at the end.
    """

    lower_bound: int
    start_times: IntArray | None
    root_bound: int
    tracked: int
    nodes: int


class PathRelaxation:
    """The relaxation on one graph.

    Parameters
    ----------
    instance : Instance
        The problem.
    graph : PathGraph
        That holds every schedule with a total latency of at most ``limit``.
    limit : int
        Total latency.
    start_prices : float64 array
        First u, in rounds, shape (n,).
    most_nodes : int
        While nodes are told apart.
    should_stop : Callable[[], bool]
        Asked all the time.
    dropping : bool, default True
        Whether nodes are dropped; the optimum is the same without.
    """

    def __init__(
        self,
        instance: Instance,
        graph: PathGraph,
        limit: int,
        start_prices: FloatArray,
        most_nodes: int,
        should_stop: Callable[[], bool],
        *,
        dropping: bool = True,
    ) -> None:
        self._instance = instance
        self._arcs = Arcs(graph.later, graph.parents, graph.requests, graph.epochs, graph.ends)
        self._limit, self._most_nodes = limit, most_nodes
        self._should_stop = should_stop
        self._dropping = dropping
        self._n = len(instance)
        self._base = SCALE * (instance.output_lengths - instance.arrival_times)
        self._u = np.array(start_prices, dtype=np.float64)
        self._best: int | None = None
        self._best_u = self._u.copy()
        self._tracked: list[int] = []
        self._misses = np.zeros(self._n)
        self._found: IntArray | None = None
        self._children: tuple[IntArray, np.ndarray] | None = None
        self._to_end = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._arcs.later)

    @property
    def start_prices(self) -> FloatArray:
        """The best u so far, in rounds."""
        return self._best_u

    def run(self, iterations: int, heats: tuple[float, float], rate: float) -> PathOutcome:
        """Prices, then tracked requests and prices in turns, until a proof or a stop.

        Parameters
        ----------
        iterations : int
            Of the first ascent; those after a request was tracked have a third of them.
        heats : tuple[float, float]
            First and last, of the paths' weights, in rounds.
        rate : float
            First step of the prices, in rounds; it falls tenfold.
        """
        root = 0
        try:
            self._drop(self._u)
            self._ascend(iterations, heats, (rate, 0.1 * rate))
            root = self._bound()
            cooler = (0.5 * heats[0], heats[1])
            while self._is_open() and len(self._tracked) < self._n:
                self.track(self._most_missed())
                self._ascend(max(1, iterations // 3), cooler, (0.5 * rate, 0.1 * rate))
        except (StoppedError, TooLargeError):
            root = root or self._bound()
        return PathOutcome(
            self._bound(), self._found, root or self._bound(), len(self._tracked), len(self)
        )

    def _is_open(self) -> bool:
        return len(self) > 0 and self._found is None

    def _bound(self) -> int:
        """No schedule costs less."""
        if not len(self):
            return self._limit + 1
        if self._best is None:
            return 0
        return min(self._limit + 1, -(-self._best // SCALE))

    def _in_chunks(self, kernel: Callable[..., object], *arguments: object, up: bool) -> None:
        size = len(self)
        begins = range(0, size, CHUNK)
        for begin in begins if up else reversed(begins):
            if self._should_stop():
                raise StoppedError
            kernel(*arguments, begin, min(size, begin + CHUNK))

    def _evaluate(self, u: FloatArray) -> tuple[int, IntArray]:
        """The bound for prices u, rounded to integers, and what starts cost but for their epoch."""
        prices = np.rint(SCALE * u).astype(np.int64)
        costs = self._base - prices
        self._to_end = np.full(len(self), FAR)
        self._in_chunks(costs_to_the_end, self._arcs, costs, self._to_end, up=True)
        value = int(self._to_end[-1])
        bound = SCALE * (self._limit + 1) if value >= FAR else int(prices.sum()) + value
        if self._best is None or bound > self._best:
            self._best, self._best_u = bound, u.copy()
        return bound, costs

    def _drop(self, u: FloatArray) -> None:
        """Drop nodes from both ends."""
        if not len(self):
            return
        bound, costs = self._evaluate(u)
        if bound > SCALE * self._limit:
            self._keep(np.zeros(len(self), np.bool_))
            return
        if not self._dropping:
            return
        through = np.full(len(self), FAR)
        through[-1] = 0
        self._in_chunks(costs_from_the_start, self._arcs, costs, through, up=False)
        is_reached = through < FAR
        through += self._to_end
        budget = SCALE * self._limit - (bound - int(self._to_end[-1]))
        self._keep(is_reached & (through <= budget))

    def _keep(self, kept: np.ndarray) -> None:
        if not kept.all():
            order = np.arange(len(kept))
            self._arcs = kept_arcs(self._arcs, order, kept)
            self._children = None

    def _ascend(
        self, iterations: int, heats: tuple[float, float], rates: tuple[float, float]
    ) -> None:
        """Prices along the gradient, with nodes dropped now and then."""
        u = self._best_u.copy()
        adam = Adam(u, lowest=-np.inf)
        expected = np.zeros(self._n)
        starts, counts = np.zeros(self._n, np.int64), np.zeros(self._n, np.int64)
        for iteration in range(iterations):
            share = iteration / max(1, iterations - 1)
            heat, rate = (x * (y / x) ** share for x, y in (heats, rates))
            if iteration % PRUNE_EVERY == 0:
                self._drop(self._best_u)
            if not self._is_open():
                return
            bound, costs = self._evaluate(u)
            if bound > SCALE * self._limit:
                self._keep(np.zeros(len(self), np.bool_))
                return
            if self._children is None:
                self._children = children_of(self._arcs.parents)
            first, children = self._children
            best_path(self._arcs, costs, self._to_end, first, children, starts, counts)
            if (counts == 1).all():
                self._found = starts.copy()
                return
            self._misses = 0.9 * self._misses + 0.1 * np.abs(counts - 1)
            weights, shares = np.empty((2, len(self)))
            gibbs_paths(self._arcs, costs, self._to_end, heat * SCALE, weights, shares, expected)
            gradient = 1.0 - expected
            if np.abs(gradient).max() < SETTLED and heat < 1.5 * heats[1]:
                break
            adam.step(gradient, rate)
        self._drop(self._best_u)

    def _most_missed(self) -> list[int]:
        """Requests to track next: fewer of them where each may double many nodes."""
        rest = [i for i in range(self._n) if i not in self._tracked]
        rest.sort(key=lambda i: -self._misses[i])
        return rest[: 1 if len(self) > 300_000 else 2 if len(self) > 30_000 else 4]

    def track(self, new: list[int]) -> None:
        """Tell nodes apart by which of the new tracked requests have been started."""
        bound, costs = self._evaluate(self._best_u)
        budget = SCALE * self._limit - (bound - int(self._to_end[-1]))
        bits = np.zeros(self._n, np.uint64)
        # Those tracked before are told apart already, by different nodes.
        bits[new] = np.uint64(1) << np.arange(len(new), dtype=np.uint64)
        requests, epochs = self._arcs.requests, self._arcs.epochs
        required = np.zeros(int(epochs.max()) + 2, np.uint64)
        for i in new:
            mine = epochs[requests == i]
            required[int(mine.max(initial=-1)) + 1 :] |= bits[i]
        if self._children is None:
            self._children = children_of(self._arcs.parents)
        room = min(self._most_nodes, max(1 << 16, 4 * len(self)))
        while True:
            split = _room_for_split(len(self), room)
            count = self._split(split, costs, bits, required, budget)
            if count >= 0:
                break
            if room >= self._most_nodes:
                raise TooLargeError
            room = min(self._most_nodes, 4 * room)
        self._tracked += new
        old, alive = split.old[:count], split.alive[:count]
        everything = np.bitwise_or.reduce(bits)
        ends = self._arcs.ends[old] & (split.masks[:count] == everything)
        # Along arcs old numbers fall, so the order of old numbers is one for the new nodes.
        later = split.later[:count].copy()
        later[(later >= 0) & ~alive[later]] = -1
        self._arcs = _in_order(
            Arcs(later, split.parents[:count], requests[old], epochs[old], ends), old, alive
        )
        self._children = None
        self._drop(self._best_u)

    def _split(
        self, split: Split, costs: IntArray, bits: np.ndarray, required: np.ndarray, budget: int
    ) -> int:
        assert self._children is not None
        count, size = 1, len(self)
        split.old[0], split.heads[size - 1] = size - 1, 0
        for begin in reversed(range(0, size, CHUNK)):
            if self._should_stop():
                raise StoppedError
            count = split_nodes(
                *(self._arcs, costs, self._to_end, *self._children, bits, required, budget),
                *(split, count, begin, min(size, begin + CHUNK)),
            )
            if count < 0:
                break
        return count


def _room_for_split(nodes: int, room: int) -> Split:
    return Split(
        np.full(nodes, -1, np.int32),
        np.full(room, -1, np.int32),
        np.empty(room, np.int32),
        np.zeros(room, np.uint64),
        np.zeros(room, np.int64),
        np.full(room, -1, np.int32),
        np.full(room, -1, np.int32),
        np.zeros(room, np.bool_),
        np.full(1 << (2 * room).bit_length(), -1, np.int32),
    )


def _in_order(arcs: Arcs, old: np.ndarray, alive: np.ndarray) -> Arcs:
    """The nodes alive in the order of their old numbers."""
    _, rank = np.unique(old, return_inverse=True)
    return kept_arcs(arcs, rank.reshape(-1).astype(np.int64), alive)

"""Successive sublimation: price paths until a cheapest path is a schedule or no path is left.

Let a graph contain every schedule with a total latency of at most ``limit`` as a path
(`hindsight.paths.graph`). Let u be start prices, which are arbitrary for the requests that the
graph follows, L(u) the constant defined there, and V(u) the least cost of a path. A schedule is a
path that starts every request once, so

    SCALE * TEL >= L(u) + V(u):

the Lagrangian bound in which "each followed request is started once" is relaxed, at multipliers u.
All values are integers. This gives

* *a bound*: every schedule costs at least min(limit + 1, (L(u) + V(u)) / SCALE);
* *dropping of nodes*: let F and G be the least costs from the start to a node and from there to the
  end. A node with L(u) + F + G > SCALE * limit is on no path of a schedule within the limit, so it
  is dropped. The graph still contains every schedule within the limit, also for other prices;
* *an optimum*: if all requests are followed and a path within the limit starts each once, it is a
  schedule, and the limit becomes one less than its total latency. When no path is left, the last
  schedule found is optimal.

The bound is maximised by Adam on its smoothed form, in which paths have Gibbs weights
(`hindsight.paths.path_kernels.gibbs_paths`). Its derivative by u_i is 1 - (mean number of
completions of request i on a path). The temperature falls during the ascent.

**Sublimation.** If prices alone leave a gap, some requests are *tracked*: nodes also record which
of these have been started, a tracked request is not started again, and a path may end only when all
tracked requests were started. All schedules are such paths, so the graph still contains them, and
bounds only rise. Requests that cheapest paths start several times or never are tracked first. With
all requests tracked, every path is a schedule. Few nodes exist at any time, because nodes are
dropped after each step. The method inverts a state-space relaxation (Christofides, Mingozzi and
Toth 1981) step by step, like the successive sublimation method of single-machine scheduling
(Ibaraki 1987; Tanaka, Fujikuma and Araki 2009, doi 10.1007/s10951-008-0093-5; with idle time Tanaka
and Fujikuma 2012, doi 10.1007/s10951-011-0242-0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hindsight.prices.ascent import Adam, Settings
from hindsight.prices.states import SCALE, PathStage
from hindsight.runtime.clock import StoppedEarlyError
from instances.arrays import FloatArray, IntArray

from . import path_kernels as kernels
from .graph import PricedInstance, TooLargeError
from .layers import FAR, Flags, PathGraph

FARTHEST = float(1 << 17)
"""Largest absolute start price (multiplier of "request i starts once") in rounds, of 2^20 units
each. A path has <= 2^15 epochs with <= 2^8 completions, so its start prices sum to < 2^60 units."""

STEPS_AT_ONCE = 25
"""Number of steps after which the ascent on start prices chooses again the nodes that it uses."""


CORE_MARGIN = 7.0
"""The ascent first uses nodes on paths at most this many rounds above the least cost of a path."""

CORE_SHARE = 0.5
"""If more than this share of nodes is on paths near the least cost, the ascent uses all nodes."""

SETTLED = 0.02
"""Start prices have converged if paths start each request 1 +- SETTLED times on average."""


class Climb(NamedTuple):
    """Parameters of a gradient ascent on start prices (`PathRelaxation.climb`).

    Start prices are the multipliers of "request i starts exactly once" in a path graph.

    Attributes
    ----------
    iterations : int, default 50
        Number of steps.
    heats : tuple[float, float], default (1.0, 0.2)
        First and last temperature of the weights exp(-cost / temperature) of paths, in rounds.
    rate : float, default 1.0
        First step size, in rounds. The last step size is a tenth of it.
    """

    iterations: int = 50
    heats: tuple[float, float] = (1.0, 0.2)
    rate: float = 1.0


class PathRelaxation:
    """Lagrangian relaxation, on one path graph, of "each request starts exactly once".

    A path graph contains all schedules within a limit on total latency as paths, and further paths
    that start some requests several times or never. The multipliers of the relaxed constraint are
    the start prices u. The *followed* requests of a graph are those whose starts its nodes record
    while the requests run. The *tracked* requests are those for which the nodes also record whether
    they have been started, even after they have completed.

    Parameters
    ----------
    priced : PricedInstance
        The problem with its prices and the first limit on total latency.
    graph : PathGraph
        Path graph: every schedule within the limit is one of its paths.
    followed : bool array, shape (n,)
        Whether each request is followed in the graph.
    u : int64 array, shape (n,)
        Initial start prices, in units of 1 / SCALE rounds.
    most_nodes : int
        Largest number of nodes of the graph once some requests are tracked.
    should_stop : Callable[[], bool]
        Stop callback, called often during all methods.

    Attributes
    ----------
    graph : PathGraph
        The graph of the nodes not dropped yet.
    found : int64 array or None
        Starts of the best schedule found within the first limit, shape (n,), or None.
    limit : int
        Largest total latency still searched: one less than that of ``found``, or the first limit.
    tracked : list[int]
        The tracked requests.
    start_prices : int64 array, shape (n,)
        The start prices u with the best bound so far, in units of 1 / SCALE rounds.
    """

    def __init__(
        self,
        priced: PricedInstance,
        graph: PathGraph,
        followed: Flags,
        u: IntArray,
        most_nodes: int,
        should_stop: Callable[[], bool],
    ) -> None:
        self._priced, self.graph, self._followed = priced, graph, followed
        self._most_nodes, self._should_stop = most_nodes, should_stop
        self._n, self._best = len(u), -(1 << 62)
        self.limit, self.start_prices = priced.limit, u.copy()
        self.tracked: list[int] = []
        self._steps: list[PathStage] = []
        self._unrecorded: list[int] = []
        self.found: IntArray | None = None
        self._misses = np.zeros(self._n)

    def __len__(self) -> int:
        return len(self.graph.later)

    @property
    def is_open(self) -> bool:
        """Return whether the graph still has a path within the limit on total latency."""
        return len(self) > 0

    @property
    def lower_bound(self) -> int:
        """Return the lower bound on total latency proved so far, in rounds."""
        return min(self.limit + 1, -(-self._best // SCALE)) if self.is_open else self.limit + 1

    def stages(self) -> list[PathStage]:
        """Return the stages of the lower bound's proof: start prices and newly tracked requests.

        Start prices are the multipliers of "request i starts once". To track a request is to record
        in the nodes whether it has been started. At the start prices of each stage, nodes were
        dropped that are on no path within the limit on total latency. The last stage has the best
        start prices: at these, all remaining nodes are dropped for any limit below the lower bound.
        """
        # To track a request is to record in the nodes whether it has been started. Each call of
        # `drop` adds a stage with the requests that `track` has added since the previous call of
        # `drop`. If `track` leaves no node in the graph, `drop` adds no stage. Then the requests of
        # the last call of `track` are in no stage yet, so the stage ``last`` has them.
        last = PathStage(self.start_prices, (), tuple(self._unrecorded))
        return [*self._steps, last, PathStage(self.start_prices)]

    def climb(self, ascent: Climb) -> None:
        """Improve start prices by gradient steps, and drop nodes on no path within the limit.

        Start prices are the multipliers of "request i starts exactly once", and the limit is one on
        total latency. Most nodes are on no cheap path and have nearly no weight in the gradient. So
        steps use only the *core* of the graph: the nodes on paths that cost little more than the
        cheapest. After every `STEPS_AT_ONCE` steps, the lower bound that the best prices prove is
        computed on the whole graph.

        Raises
        ------
        StoppedEarlyError
            ``should_stop`` returned True.
        """
        x = np.zeros(self._n)
        adam = Adam(x, Settings(lowest=-FARTHEST, highest=FARTHEST))
        margin = CORE_MARGIN
        steps = 0
        while steps < ascent.iterations:
            through = self.drop()
            if not self.is_open:
                return
            core, u = self._core(through, margin), self.start_prices
            before = self._best
            x[:] = u / SCALE
            trial = u
            best = -1
            for _ in range(min(STEPS_AT_ONCE, ascent.iterations - steps)):
                share = steps / max(1, ascent.iterations - 1)
                heat = ascent.heats[0] * (ascent.heats[1] / ascent.heats[0]) ** share
                value, gradient = self._step(core, u, heat)
                if value > best:
                    best, trial = value, u
                steps += 1
                if np.abs(gradient).max() < SETTLED and heat < 1.5 * ascent.heats[1]:
                    steps = ascent.iterations
                # At a high temperature, the sum of the weights of paths may overflow. The gradient
                # is then not finite, and this step changes only the temperature, not the prices.
                if np.isfinite(gradient).all():
                    adam.step(gradient, ascent.rate * 0.1**share)
                u = np.rint(SCALE * x).astype(np.int64)
            self._evaluate(trial)
            if self._best == before:
                margin = min(2 * margin, FARTHEST)
        self.drop()

    def drop(self) -> IntArray:
        """Drop the nodes that are on no path within the limit on total latency.

        The costs of paths are those at the best start prices found so far, the multipliers of
        "request i starts once".

        Returns
        -------
        int64 array
            Least cost of a path through each remaining node, in units of 1 / SCALE rounds.

        Raises
        ------
        StoppedEarlyError
            ``should_stop`` returned True.
        """
        u = self.start_prices
        if not self.is_open:
            return np.zeros(0, np.int64)
        arcs, to_end = self._evaluate(u)
        self._steps.append(PathStage(u, (), tuple(self._unrecorded)))
        self._unrecorded = []
        self._record(self.graph, arcs, to_end)
        # Paths that cost more than ``budget`` are not schedules within the limit on total latency.
        # Compute ``budget`` after `_record`: if the cheapest path is a schedule, `_record` lowers
        # the limit to below the total latency of this schedule. Then only better schedules are
        # sought.
        budget = self._priced.budget(u, self.limit)
        self._poll()
        through = kernels.costs_from_the_start(self.graph, arcs)
        del arcs
        kept = (through < FAR) & (to_end < FAR)
        through += to_end
        del to_end
        kept &= through <= budget
        if not kept.all():
            through = through[kept]
            self.graph = kernels.keep_nodes(self.graph, np.flatnonzero(kept))
        return through

    def _record(self, graph: PathGraph, arcs: IntArray, to_end: IntArray) -> None:
        """Save the cheapest path if it is a schedule within the limit, and lower the limit.

        A path is a schedule if it starts each request exactly once. The new limit is one less than
        its total latency. ``arcs`` has the cost of each node's arc to the next epoch (time between
        two rounds). All other arcs cost 0. ``to_end`` has the least cost of a path from each node
        to the end.
        """
        if to_end[-1] >= FAR:
            return
        starts, counts = kernels.best_path(graph, arcs, to_end, self._n)
        self._misses = 0.9 * self._misses + 0.1 * np.abs(counts - 1)
        _, o, a, _ = self._priced.columns
        latency = int((starts + o - a).sum())
        if (counts == 1).all() and latency <= self.limit:
            self.found, self.limit = starts, latency - 1

    def _core(self, through: IntArray, margin: float) -> PathGraph:
        """Return the graph of the nodes on paths that cost little more than the cheapest path.

        A node is kept if a path through it costs at most ``margin`` rounds more than the cheapest
        path. through[g] is the least cost of a path through node g, in units of 1 / SCALE rounds.
        Return the whole graph if more than a share `CORE_SHARE` of its nodes would be kept.
        """
        graph = self.graph
        near = through <= through.min() + int(margin * SCALE)
        if near.sum() > CORE_SHARE * len(near):
            return graph
        return kernels.keep_nodes(graph, np.flatnonzero(near))

    def _step(self, graph: PathGraph, u: IntArray, heat: float) -> tuple[int, FloatArray]:
        """Return the Lagrangian value at start prices u and its gradient smoothed by Gibbs weights.

        The start prices u are the multipliers of "request i starts once". The value, in units of 1
        / SCALE rounds, is the least cost of a path plus a constant. It is a lower bound on total
        latency only if ``graph`` is the whole graph, not if it has only the nodes near the cheapest
        paths.

        Entry i of the gradient is 1 - (mean number of starts of request i on a path), or 0 if the
        graph does not record its starts. Paths have weights exp(-cost / heat) in this mean. The
        temperature ``heat`` is in rounds.
        """
        arcs, to_end = self._costs(graph, u)
        self._record(graph, arcs, to_end)
        completions = kernels.gibbs_paths(graph, arcs, to_end, heat * SCALE, self._n)
        gradient = np.where(self._followed, 1.0 - completions, 0.0)
        return self._priced.constant(u) + int(to_end[-1]), gradient

    def sublimate(self, ascent: Climb) -> None:
        """Track more and more requests, and improve start prices each time, until no path is left.

        Start prices are the multipliers of "request i starts exactly once". To track a request is
        to record in the nodes of the path graph whether it has been started, so that paths start it
        exactly once. All schedules within the limit on total latency stay paths. So if no path is
        left, no schedule within the limit exists.

        Raises
        ------
        StoppedEarlyError, TooLargeError
            ``should_stop`` returned True, or the graph exceeds its limit on nodes.
        """
        while self.is_open and len(self.tracked) < self._n:
            self.track(self._most_missed())
            self.climb(ascent)

    def _poll(self) -> None:
        if self._should_stop():
            raise StoppedEarlyError

    def _costs(self, graph: PathGraph, u: IntArray) -> tuple[IntArray, IntArray]:
        """Return the cost of each node's arc to the next epoch, and its least cost to the end.

        A node is an epoch (time between two rounds) and the set of requests that run then. The
        second array has the least cost of a path from each node to the end of the graph. All arcs
        other than those to the next epoch start one more request, and cost 0. Costs are those at
        start prices u (multipliers of "request i starts once"), in units of 1 / SCALE rounds.
        """
        self._poll()
        priced = self._priced
        arcs = kernels.costs_of_arcs(graph, priced.starts, u, priced.columns.output_lengths)
        return arcs, kernels.costs_to_the_end(graph, arcs)

    def _evaluate(self, u: IntArray) -> tuple[IntArray, IntArray]:
        """Return the costs of arcs and the least costs to the end in the whole graph (`_costs`).

        The costs are those of each node's arc to the next epoch (time between two rounds), and of
        paths from each node to the end, at start prices ``u`` (multipliers of "request i starts
        once"). If ``u`` proves a better lower bound on total latency than all start prices before,
        it becomes `start_prices`.
        """
        arcs, to_end = self._costs(self.graph, u)
        value = int(to_end[-1])
        bound = SCALE * (self.limit + 1) if value >= FAR else self._priced.constant(u) + value
        if bound > self._best:
            self._best, self.start_prices = bound, u.copy()
        return arcs, to_end

    def _most_missed(self) -> list[int]:
        """Return the requests to track next: those that cheapest paths most often miss or repeat.

        To track a request is to record in the nodes whether it has been started. Large graphs track
        fewer requests at a time, because each may double the number of nodes.
        """
        rest = [i for i in range(self._n) if i not in self.tracked]
        rest.sort(key=lambda i: -self._misses[i])
        return rest[: 1 if len(self) > 300_000 else 2 if len(self) > 30_000 else 4]

    def track(self, new: list[int]) -> None:
        """Record in the nodes of the graph which of the requests ``new`` have been started.

        Each node is replaced by copies: one for each subset of ``new`` such that some path to the
        node has started this subset and no other requests of ``new``.

        Raises
        ------
        StoppedEarlyError, TooLargeError
            ``should_stop`` returned True, or the copies exceed the limit on nodes.
        """
        arcs, to_end = self._evaluate(self.start_prices)
        self._poll()
        bits = np.zeros(self._n, np.uint64)
        # ``bits`` has one bit for each request that is tracked from now on: nodes will record
        # whether it has been started. Requests tracked before need no bits, as nodes already record
        # them.
        bits[new] = np.uint64(1) << np.arange(len(new), dtype=np.uint64)
        requests, epochs = self.graph.requests, self.graph.epochs
        required = np.zeros(int(epochs.max()) + 2, np.uint64)
        for i in new:
            mine = epochs[requests == i]
            required[int(mine.max(initial=-1)) + 1 :] |= bits[i]
        budget = self._priced.budget(self.start_prices, self.limit)
        first, children = kernels.grouped(self.graph.parents)
        tracking = kernels.Tracking(arcs, to_end, first, children, bits, required, budget)
        # An array of zeros takes memory only where it is written. So the arrays for the copies of
        # nodes have the largest size that they may need.
        empty: Any = (np.zeros(self._most_nodes, kind) for kind in kernels.SPLIT_COLUMNS)
        split = kernels.Split(np.full(len(self), -1, np.int32), *empty)
        count = kernels.split_nodes(self.graph, tracking, split)
        if count < 0:
            raise TooLargeError("too many nodes of a path graph that tracks requests")
        self.tracked += new
        self._unrecorded = self._unrecorded + new
        old, alive = split.old[:count], split.alive[:count]
        # Remove the arcs to copies of nodes that are on no path within the limit on total latency.
        later = split.later[:count].copy()
        later[(later >= 0) & ~alive[later]] = -1
        graph = self.graph
        columns: Any = [column[old] for column in graph[2:-1]]
        split_graph = PathGraph._make([later, split.parents[:count], *columns, graph.ended])
        # Node numbers must decrease along arcs. This holds for the numbers of the nodes that were
        # copied. So sort the copies by the numbers of their nodes.
        order = np.argsort(old, kind="stable")
        reaches_the_end = bool((alive & (old == 0)).any())
        self.graph = kernels.keep_nodes(split_graph, order[alive[order] & reaches_the_end])
        del arcs, to_end, tracking, first, children
        self.drop()

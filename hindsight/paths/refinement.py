"""Path graphs that follow more and more requests, each pruned by the previous graph.

A graph that follows every request is small once built, but far too large while the costs of its
paths before and after an epoch are unknown. So the first graph follows only the longest requests.
Its start prices are improved and its nodes dropped from both ends (`hindsight.paths.relaxation`).
The least cost of its paths up to each node then prunes the next finer graph
(`hindsight.paths.graph`), until all requests are followed. Bounds rise from graph to graph, and a
graph that follows only some requests already proves one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hindsight.prices.states import PathStage
from hindsight.runtime.clock import StoppedEarlyError
from instances.arrays import IntArray

from .graph import PricedInstance, Room, TooLargeError, coarsest_graph, finer_graph
from .relaxation import Climb, PathRelaxation

FOLLOWED_FIRST = 0.4
"""Share of the requests that the first graph follows."""

WORTHWHILE = 0.04
"""Share of the gap between bound and limit that a graph must close; otherwise the next graph adds
twice as many requests."""


class PathOutcome(NamedTuple):
    """Result of the search for paths within a limit.

    Attributes
    ----------
    lower_bound : int
        Proved lower bound on total latency.
    start_times : int64 array or None
        Starts of the best schedule found within the limit, shape (n,), or None.
    root_bound : int
        Lower bound proved by graphs and prices alone, before any request was tracked.
    nodes : int
        Total number of nodes of all graphs when built.
    most_nodes : int
        Number of nodes of the largest graph.
    is_whole : bool
        Whether the search was completed, and not cut short for lack of time or memory.
    stages : tuple[PathStage, ...]
        Stages that prove the bound.
    """

    lower_bound: int
    start_times: IntArray | None
    root_bound: int
    nodes: int
    most_nodes: int
    is_whole: bool
    stages: tuple[PathStage, ...]


class Refinement:
    """Sequence of finer and finer graphs for one limit.

    Parameters
    ----------
    priced : PricedInstance
        The problem and the limit.
    room : Room
        Limits on the size of a graph.
    climb : Climb
        Parameters of the price ascent on a graph.
    should_stop : Callable[[], bool]
        Polled throughout.
    """

    def __init__(
        self, priced: PricedInstance, room: Room, climb: Climb, should_stop: Callable[[], bool]
    ) -> None:
        self._priced, self._climb, self._should_stop = priced, climb, should_stop
        self._room = room
        # The longest requests are followed first, and identical requests are adjacent.
        s, o, _, _ = priced.columns
        self._order = np.lexsort((np.arange(len(s)), priced.kinds, -s, -o))
        self._n = len(self._order)
        self._followed = np.zeros(self._n, np.bool_)
        self._done = 0
        self._graph = coarsest_graph(priced)
        self._u = priced.first_prices.copy()
        self._stages = [PathStage(self._u)]
        self._lower, self._root, self._is_open = 0, 0, True
        self._gained = 1.0
        self._found: IntArray | None = None
        self._nodes: list[int] = []

    def run(self) -> PathOutcome:
        """Build finer and finer graphs, as far as time and the limit on nodes allow."""
        is_whole = False
        try:
            if not self._priced.is_within:
                self._close()
            while self._is_open and self._done < self._n:
                self._refine()
            is_whole = True
        except (StoppedEarlyError, TooLargeError, MemoryError):
            pass
        return PathOutcome(
            lower_bound=self._lower,
            start_times=self._found,
            root_bound=self._root or self._lower,
            nodes=sum(self._nodes),
            most_nodes=max(self._nodes, default=0),
            is_whole=is_whole,
            stages=tuple(self._stages),
        )

    def _close(self) -> None:
        self._lower, self._is_open = self._priced.limit + 1, False

    def _refine(self) -> None:
        """Build one more graph and improve its bound."""
        added = self._next_ones()
        self._stages.append(PathStage(self._u, tuple(added.tolist())))
        priced, room, stop = self._priced, self._room, self._should_stop
        graph = finer_graph(priced, self._graph, self._followed, added, self._u, room, stop)
        self._followed[added] = True
        self._done += len(added)
        if graph is None:
            self._close()
            return
        # The coarser graph is no longer needed, and large graphs take most of the memory.
        self._graph = graph
        self._nodes.append(len(graph.later))
        relaxation = PathRelaxation(priced, graph, self._followed, self._u, room.nodes, stop)
        try:
            relaxation.climb(self._climb)
            if self._done == self._n:
                self._root = relaxation.lower_bound
                climb, (hot, cold) = self._climb, self._climb.heats
                steps = max(1, climb.iterations // 2)
                relaxation.sublimate(Climb(steps, (0.5 * hot, cold), 0.5 * climb.rate))
        finally:
            before, self._lower = self._lower, max(self._lower, relaxation.lower_bound)
            self._gained = (self._lower - before) / max(1, priced.limit - before)
            self._found = relaxation.found
            self._stages += relaxation.stages()
        self._is_open = relaxation.is_open
        self._graph, self._u = relaxation.graph, relaxation.start_prices

    def _next_ones(self) -> IntArray:
        """Return the requests to follow next: many at first, few after large graphs.

        Identical requests are followed together.
        """
        size, step = len(self._graph.later), math.ceil(FOLLOWED_FIRST * self._n)
        if self._done:
            step = 2 if size > 1_000_000 else 3 if size > 100_000 else 4
            step *= 1 + (self._gained < WORTHWHILE)
        end = min(self._n, self._done + step)
        kinds = self._priced.kinds[self._order]
        while end < self._n and kinds[end] == kinds[end - 1]:
            end += 1
        return np.sort(self._order[self._done : end])

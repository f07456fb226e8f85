"""Build path graphs that follow more and more requests, each pruned by the previous graph.

A graph follows a request if its nodes record whether it is active, and since when
(`hindsight.paths.graph`). A graph that follows every request would be far too large unless most of
its nodes are excluded while it is built. So the first graph follows only the longest requests. Its
start prices are improved, and nodes on no cheap path are dropped (`hindsight.paths.relaxation`).
The least cost of its paths up to each node then excludes nodes of the next finer graph, until all
requests are followed. Each graph proves a lower bound, and the bounds rise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hindsight.prices.states import PathStage
from hindsight.runtime.clock import StoppedEarlyError
from instances.arrays import IntArray

from .graph import PricedInstance, TooLargeError, coarsest_graph, finer_graph
from .layers import Flags
from .relaxation import Climb, PathRelaxation

FOLLOWED_FIRST = 0.4
"""Share of all requests whose starts the first path graph of a search records."""

WORTHWHILE = 0.04
"""If a path graph closes less than this share of the gap from the lower bound to the limit on total
latency, the next graph records the starts of 4 to 8 further requests, not of 2 to 4."""


class PathOutcome(NamedTuple):
    """Result of a search on path graphs for schedules within a limit on total latency.

    A path graph contains all such schedules as paths. Its nodes record the starts of some requests
    while they run.

    Attributes
    ----------
    lower_bound : int
        Proved lower bound on total latency, in rounds.
    start_times : int64 array or None
        Starts of the best schedule found within the limit, shape (n,), or None.
    most_nodes : int
        Number of nodes of the largest graph, before any were dropped.
    is_whole : bool
        Whether the search was completed, and not cut short for lack of time or memory.
    stages : tuple[PathStage, ...]
        Stages of the proof of ``lower_bound``. Each has start prices (multipliers of "request i
        starts once") and the requests whose starts the nodes record from this stage on. At these
        prices, the nodes that are on no path within the limit were dropped.
    """

    lower_bound: int
    start_times: IntArray | None
    most_nodes: int
    is_whole: bool
    stages: tuple[PathStage, ...]


def refine(
    priced: PricedInstance, most_nodes: int, climb: Climb, should_stop: Callable[[], bool]
) -> PathOutcome:
    """Search finer and finer path graphs for the best schedule within one limit on total latency.

    A path graph contains all schedules within the limit as paths. It is finer if its nodes record
    the starts of more requests. The search also proves a lower bound. It ends when an optimum is
    proved, no schedule is left, or time or memory runs out.

    Parameters
    ----------
    priced : PricedInstance
        The problem with its prices and the limit.
    most_nodes : int
        Largest number of nodes of a graph.
    climb : Climb
        Parameters of the ascent on start prices (multipliers of "request i starts once") for each
        graph.
    should_stop : Callable[[], bool]
        Polled during the whole search.
    """
    n, graph, u = len(priced.kinds), coarsest_graph(priced), priced.first_prices
    s, o, _, _ = priced.columns
    # Finer graphs record the starts of more requests. Add them in this order: longest outputs
    # first, identical ones together.
    order = np.lexsort((np.arange(n), priced.kinds, -s, -o))
    followed = np.zeros(n, np.bool_)
    stages, largest = [PathStage(u)], 0
    lower, gained, found = 0, 1.0, None
    is_open, is_whole = priced.is_within, False
    if not is_open:
        lower = priced.limit + 1
    try:
        while is_open and not followed.all():
            added = _next_ones(order, priced.kinds, followed, len(graph.later), gained)
            stages.append(PathStage(u, tuple(added.tolist())))
            finer = finer_graph(priced, graph, followed, added, u, most_nodes, should_stop)
            followed[added] = True
            if finer is None:
                lower = priced.limit + 1
                break
            # Assign the finer graph to ``graph``, so that the coarser graph (which records fewer
            # starts) does not stay in memory. Delete ``finer``, so that this graph does not stay in
            # memory later.
            graph = finer
            del finer
            largest = max(largest, len(graph.later))
            relaxation = PathRelaxation(priced, graph, followed, u, most_nodes, should_stop)
            try:
                relaxation.climb(climb)
                if followed.all():
                    steps, (hot, cold) = max(1, climb.iterations // 2), climb.heats
                    relaxation.sublimate(Climb(steps, (0.5 * hot, cold), 0.5 * climb.rate))
            finally:
                before, lower = lower, max(lower, relaxation.lower_bound)
                gained = (lower - before) / max(1, priced.limit - before)
                found = relaxation.found
                stages += relaxation.stages()
            is_open, graph, u = relaxation.is_open, relaxation.graph, relaxation.start_prices
        is_whole = True
    except (StoppedEarlyError, TooLargeError, MemoryError):
        pass
    return PathOutcome(lower, found, largest, is_whole, tuple(stages))


def _next_ones(
    order: IntArray, kinds: IntArray, followed: Flags, size: int, gained: float
) -> IntArray:
    """Return the requests whose starts the next path graph records and the last one does not.

    For the first graph they are a share `FOLLOWED_FIRST` of all requests. For each later graph they
    are 2 to 4 requests, fewer after a large graph, or twice as many if the last graph closed less
    than a share `WORTHWHILE` of the gap. Identical requests are taken together.

    Parameters
    ----------
    order, kinds : int64 array, shape (n,)
        Requests in the order in which graphs begin to record their starts, and the number of the
        class of each request. Identical requests are of one class.
    followed : bool array, shape (n,)
        Whether the last graph records the start of each request.
    size : int
        Number of nodes of the last graph.
    gained : float
        Share of the gap between lower bound and limit on total latency that the last graph closed.
    """
    n, done = len(order), int(followed.sum())
    step = math.ceil(FOLLOWED_FIRST * n)
    if done:
        step = 2 if size > 1_000_000 else 3 if size > 100_000 else 4
        step *= 1 + (gained < WORTHWHILE)
    end = min(n, done + step)
    while end < n and kinds[order[end]] == kinds[order[end - 1]]:
        end += 1
    return np.sort(order[done:end])

"""Exact search on path graphs under given state prices, for growing limits on total latency.

The path graph for a limit contains every schedule whose total latency is at most the limit
(`hindsight.paths.graph`). If refinement removes all paths, no such schedule is left, and the best
schedule found so far is optimal (`hindsight.paths.refinement`). The limits grow towards the upper
bound, as far as the graphs are likely to fit into memory and into the time left. All bounds are
integers.
"""

from __future__ import annotations

from collections.abc import Callable

from hindsight.outcomes.interval import Interval
from hindsight.paths.graph import PricedInstance, TooLargeError
from hindsight.paths.growth import BEYOND, LARGE, GraphGrowth
from hindsight.paths.refinement import refine
from hindsight.paths.relaxation import Climb
from hindsight.prices.states import PathPrices, StatePrices
from hindsight.runtime.clock import Clock
from hindsight.runtime.resources import available_bytes
from instances import Schedule
from instances.arrays import IntArray

BYTES_A_NODE = 80
"""Bytes of memory that a path graph needs per node, as measured on large graphs."""

MOST_NODES, MEMORY_SHARE = 200_000_000, 0.6
"""Largest number of nodes of a path graph. Largest share of the available memory for its nodes."""

EXPECTED = 300_000.0, 0.05
"""Initial estimates for a path graph of all schedules up to a limit on total latency: its nodes N
if the limit is the lower bound from prices, and the increase of log(N) per round of the limit."""

CLIMB = Climb()
"""Number of steps, temperatures and step sizes of the price ascent on each path graph."""

FIRST_PART = 0.03
"""Share of the allowed nodes and time for the first path graph, as first predictions are unsure."""

AT_ONCE = 0.7
"""The first path graph contains all schedules better than the best one if (upper bound) - (bound
from prices) is at most AT_ONCE times the largest value for which a graph is predicted to fit."""

TIME_SHARE = 0.7
"""Largest predicted time to build a path graph, as a share of the time left for the solve."""

SPARE_ROOM = 5.0
"""A path graph is abandoned, and predictions corrected, at this multiple of its predicted nodes."""

LEAST_STEPS = 32
"""Each path graph covers total latencies up to a limit. The limit exceeds the lower bound by at
least (upper bound - bound from prices) / LEAST_STEPS, so that there are not too many graphs."""


class GraphSearch:
    """Search by path graphs for one machine, with memory in tokens or in blocks.

    A path graph contains every schedule whose total latency is at most a given limit as a path. Its
    nodes record, at each time between two rounds, which requests run and their starts.

    Parameters
    ----------
    interval : Interval
        The bounds and the best schedule of the solve, which the search improves.

    Attributes
    ----------
    growth : GraphGrowth
        Prediction of the sizes of further graphs from those built so far.
    root_bound : int
        Largest lower bound on total latency proved by graphs whose paths may start a request
        several times or never (`hindsight.paths.refinement.PathOutcome`).
    proved : int
        Largest lower bound on total latency proved by any graph.
    """

    def __init__(self, interval: Interval) -> None:
        self._interval, self._room = interval, MOST_NODES
        self.growth = GraphGrowth(*EXPECTED, len(interval.source))
        self.root_bound = self.proved = 0

    def run(self, prices: tuple[IntArray, IntArray], must_stop: Callable[[], bool]) -> None:
        """Prove growing lower bounds, each by graphs for a larger limit on total latency.

        The search ends when the solve is done, or when no useful graph is likely to fit into memory
        and into the time left.

        Parameters
        ----------
        prices : tuple[int64 array, int64 array]
            State prices Q and capacities W of the single-machine relaxation in tokens, both in
            units of 1 / SCALE rounds. Q has shape (T, M + 1, M + 1): Q[tau, m, r] is the price of a
            request with m tokens held and r rounds to go at epoch tau, the time between rounds tau
            and tau + 1. W has shape (T,): for each epoch, the largest total price of states of
            requests that fit into memory together.
        must_stop : Callable[[], bool]
            Called many times per second during the search. It returns True once the solve is done:
            the graph under construction is then abandoned. The caller may use these calls to
            improve the best schedule of the solve meanwhile.
        """
        interval = self._interval
        room = int(MEMORY_SHARE * available_bytes()) // BYTES_A_NODE
        self._room = max(1, min(MOST_NODES, room))
        too_large = interval.upper_bound
        while not interval.is_done():
            limit = self.next_limit(too_large)
            if limit is None:
                break
            if not self._refine(prices, limit, must_stop):
                too_large = limit

    def next_limit(self, too_large: int) -> int | None:
        """Return the limit on total latency of the next graph, or None to build no further graph.

        It is the largest limit below the upper bound whose graph is likely to fit into memory and
        into the time left. ``too_large`` is the least limit whose graph did not fit, or the upper
        bound if all graphs did. A limit of ``too_large`` or more is replaced by the mean of
        ``too_large`` and the lower bound. None is returned if the limit would exceed the lower
        bound by too little (`LEAST_STEPS`).
        """
        interval, growth = self._interval, self.growth
        root, last = interval.root_bound or 0, interval.upper_bound - 1
        room, seconds = self._room, TIME_SHARE * interval.clock.seconds_left()
        reach = growth.reach(room, seconds)
        least = min(last, interval.lower_bound + (last - root) // LEAST_STEPS)
        if not growth.is_tried:
            if AT_ONCE * reach < last - root:
                reach = growth.reach(FIRST_PART * room, FIRST_PART * seconds)
            reach = max(reach, least - root)
        limit = min(last, root + int(reach))
        if limit >= too_large:
            limit = (interval.lower_bound + too_large) // 2
        return limit if least <= limit < too_large else None

    def _refine(
        self, prices: tuple[IntArray, IntArray], limit: int, must_stop: Callable[[], bool]
    ) -> bool:
        """Build finer and finer path graphs for one limit, and record the bounds that they prove.

        An epoch is the time between two rounds. The paths of a graph contain all schedules whose
        total latency is at most the limit. The nodes of a finer graph record the starts of more
        requests. ``prices`` are the prices Q of states of requests and the epoch capacities W, as
        for `run`. ``limit`` is the limit on total latency, in rounds. Return False if memory or
        time did not suffice.
        """
        interval, clock = self._interval, Clock()
        root = interval.root_bound or 0
        room = min(self._room, int(max(LARGE, SPARE_ROOM * self.growth.nodes(limit - root))))
        try:
            priced = PricedInstance(interval.source, *prices, limit)
        except (TooLargeError, MemoryError):
            return False
        outcome = refine(priced, room, CLIMB, must_stop)
        self.root_bound = max(self.root_bound, outcome.root_bound)
        if outcome.start_times is not None:
            interval.offer(Schedule(interval.source, outcome.start_times))
        proved = min(outcome.lower_bound, interval.upper_bound)
        if proved > max(self.proved, root):
            self.proved = proved
            interval.proof = PathPrices(StatePrices(prices[0]), proved - 1, outcome.stages)
        interval.prove(proved, "paths")
        nodes, factor = (outcome.most_nodes, 1.0) if outcome.is_whole else (room, BEYOND)
        if nodes and (outcome.is_whole or not interval.is_proved):
            self.growth.learn(limit - root, factor * nodes, factor * clock.seconds())
        return outcome.is_whole

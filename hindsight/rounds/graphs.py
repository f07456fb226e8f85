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
from hindsight.paths.graph import PricedInstance, Room, TooLargeError
from hindsight.paths.growth import LARGE, GraphGrowth
from hindsight.paths.refinement import refine
from hindsight.paths.relaxation import Climb
from hindsight.prices.states import PathPrices, StatePrices
from hindsight.runtime.clock import Clock
from hindsight.runtime.resources import available_bytes
from instances import Schedule
from instances.arrays import IntArray

BYTES_A_NODE = 80
"""Bytes of memory per graph node, as measured on large graphs."""

MOST_NODES, MEMORY_SHARE = 200_000_000, 0.6
"""Most nodes of a graph, and the share of the available memory that the nodes may use."""

TABLE_BYTES = 400_000_000
"""Most bytes of the tables of anonymous states."""

EXPECTED = 300_000.0, 0.05
"""Expected number of nodes of the first graph if its limit is the bound that prices prove, and the
growth of the logarithm of this number per round by which the limit is higher."""

CLIMB = Climb()
"""Settings of the price ascent on a graph."""

FIRST_PART = 0.03
"""Share of the memory and of the time left for the first graph, whose size is unknown."""

AT_ONCE = 0.7
"""The first graph has the highest useful limit if this exceeds the bound of the prices by at most
this share of the rounds that memory and time are predicted to allow."""

TIME_SHARE = 0.7
"""Share of the time left that a graph may take, as predicted."""

SPARE_ROOM = 5.0
"""Most nodes of a graph, relative to the predicted number. A larger graph is not completed. Later
predictions take that into account."""

LEAST_STEPS = 32
"""Each limit exceeds the lower bound by at least the gap between the upper bound and the bound of
the prices, divided by this number."""


class GraphSearch:
    """Path-graph search for one machine, in tokens or blocks, which updates an `Interval`.

    Parameters
    ----------
    interval : Interval
        The bounds and the best schedule of the solve.
    threads : int
        Threads that build a graph.

    Attributes
    ----------
    growth : GraphGrowth
        Sizes of the graphs built so far.
    root_bound, proved : int
        Largest lower bound proved by graphs in which paths may still repeat or omit requests
        (`hindsight.paths.refinement.PathOutcome`), and the largest lower bound of all graphs.
    """

    def __init__(self, interval: Interval, threads: int) -> None:
        self._interval, self._threads = interval, threads
        self._room = MOST_NODES
        self.growth = GraphGrowth(*EXPECTED, len(interval.source))
        self.root_bound = self.proved = 0

    def run(self, prices: tuple[IntArray, IntArray], must_stop: Callable[[], bool]) -> None:
        """Prove growing lower bounds by graphs, while the next graph is likely to fit.

        Parameters
        ----------
        prices : tuple[int64 array, int64 array]
            State prices Q and capacities W of the single-machine relaxation in tokens.
        must_stop : Callable[[], bool]
            Polled throughout. It may also offer schedules of a second thread to the interval.
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
        """Return the largest limit whose graph is likely to fit, or None if it gains too little."""
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
        """Refine graphs for a limit; return False if memory or time did not suffice."""
        interval, clock = self._interval, Clock()
        root = interval.root_bound or 0
        room = min(self._room, int(max(LARGE, SPARE_ROOM * self.growth.nodes(limit - root))))
        try:
            priced = PricedInstance(interval.source, *prices, limit)
        except (TooLargeError, MemoryError):
            return False
        room_of = Room(room, TABLE_BYTES, self._threads)
        outcome = refine(priced, room_of, CLIMB, must_stop)
        interval.nodes += outcome.nodes
        self.root_bound = max(self.root_bound, outcome.root_bound)
        if outcome.start_times is not None:
            interval.offer(Schedule(interval.source, outcome.start_times))
        proved = min(outcome.lower_bound, interval.upper_bound)
        if proved > max(self.proved, root):
            self.proved = proved
            interval.proof = PathPrices(StatePrices(prices[0]), proved - 1, outcome.stages)
        interval.prove(proved, "paths")
        if outcome.is_whole and outcome.most_nodes:
            self.growth.learn(limit - root, outcome.most_nodes, clock.seconds())
        elif not (outcome.is_whole or interval.is_proved):
            self.growth.learn_too_large(limit - root, room)
        return outcome.is_whole

"""Exact search on path graphs under given state prices, for growing limits on total latency.

The path graph for a limit contains every schedule whose total latency is at most the limit
(`hindsight.paths.graph`). If refinement removes all paths, no such schedule is left, and the best
schedule found so far is optimal (`hindsight.paths.refinement`). The limits grow towards the upper
bound, as far as the graphs are likely to fit into memory and into the time left. The first graph
has all schedules better than the best one, if it is likely to fit. All bounds are integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hindsight.outcomes.interval import Interval
from hindsight.paths.graph import PricedInstance, TooLargeError
from hindsight.paths.refinement import refine
from hindsight.paths.relaxation import Climb
from hindsight.prices.states import PathPrices, StatePrices
from hindsight.runtime.resources import available_bytes
from instances import Schedule
from instances.arrays import IntArray

BYTES_A_NODE, SECONDS_A_NODE = 80, 2.5e-6
"""Estimated bytes of memory and seconds that a path graph needs per node."""

MOST_NODES, SHARE, FIRST_PART = 200_000_000, 0.6, 0.03
"""`MOST_NODES`: most nodes of a path graph. `SHARE`: a graph may use this share of free memory and
of the time left. `FIRST_PART`: smaller share of that for a first graph of too many schedules."""

FIRST_NODES, GROWTH, GROWTHS = 300_000.0, 0.05, (0.02, 0.2)
"""`FIRST_NODES`: expected number of nodes of a path graph whose limit on total latency is the lower
bound from prices, before any graph is built. `GROWTH`: increase of ln(nodes) expected then if the
limit is one round larger. `GROWTHS`: range of this increase as measured on graphs."""

CLIMB = Climb()
"""Number of steps, temperatures and step sizes of the price ascent on each path graph."""

LEAST_ROOM, ROOM = 1_500_000, 5.0
"""A path graph has at most `ROOM` times its expected nodes, or `LEAST_ROOM` if that is larger."""

BEYOND = 2.0
"""If a path graph is abandoned at N nodes, its complete size is estimated as BEYOND * N nodes."""

LEAST_STEPS = 32
"""Each path graph covers total latencies up to a limit. The limit exceeds the lower bound by at
least (upper bound - bound from prices) / LEAST_STEPS, so that there are not too many graphs."""


class GraphSearch:
    """Search by path graphs for one machine, with memory in tokens or in blocks.

    A path graph contains every schedule whose total latency is at most a given limit as a path. Its
    nodes record, at each time between two rounds, which requests run and their starts. The *reach*
    of a graph is its limit minus the lower bound on total latency that state prices prove, in
    rounds. The number of nodes grows about exponentially with the reach.

    Parameters
    ----------
    interval : Interval
        The bounds and the best schedule of the solve, which the search improves.
    """

    def __init__(self, interval: Interval) -> None:
        self._interval, self._is_tried = interval, False
        # The reach of a path graph is its limit on total latency minus the lower bound from prices
        # of states of requests. ``_reach`` and ``_nodes`` are the reach and the number of nodes of
        # the last graph. ``_growth`` is the increase of ln(number of nodes) per round of reach.
        # Before the first graph is built, assumed numbers are used.
        self._reach, self._nodes, self._growth = 0, FIRST_NODES, GROWTH

    def nodes(self, reach: float) -> float:
        """Return the expected number of nodes of a path graph with this reach.

        The reach is the limit on total latency of the graph's schedules minus the lower bound that
        prices of states of requests prove, in rounds.
        """
        return self._nodes * math.exp(min(100.0, self._growth * (reach - self._reach)))

    def run(
        self, prices: tuple[IntArray, IntArray], root: int, must_stop: Callable[[], bool]
    ) -> None:
        """Prove growing lower bounds, each by graphs for a larger limit on total latency.

        The limit of the next graph is the largest one below the upper bound whose graph is likely
        to fit into memory and into the time left. It is the mean of the lower bound and the least
        limit whose graph did not fit, if that is smaller. The search ends when the solve is done,
        or when the limit would exceed the lower bound by too little (`LEAST_STEPS`).

        Parameters
        ----------
        prices : tuple[int64 array, int64 array]
            State prices Q and capacities W of the single-machine relaxation in tokens, both in
            units of 1 / SCALE rounds. Q has shape (T, M + 1, M + 1): Q[tau, m, r] is the price of a
            request with m tokens held and r rounds to go at epoch tau, the time between rounds tau
            and tau + 1. W has shape (T,): for each epoch, the largest total price of states of
            requests that fit into memory together.
        root : int
            Lower bound on total latency that the prices prove, in rounds.
        must_stop : Callable[[], bool]
            Called many times per second during the search. It returns True once the solve is done:
            the graph under construction is then abandoned. The caller may use these calls to
            improve the best schedule of the solve meanwhile.
        """
        interval, too_large = self._interval, self._interval.upper_bound
        room = max(1, min(MOST_NODES, int(SHARE * available_bytes()) // BYTES_A_NODE))
        while not interval.is_done():
            most = min(room, SHARE * interval.clock.seconds_left() / SECONDS_A_NODE)
            last = interval.upper_bound - 1
            if not self._is_tried and self.nodes(last - root) > most:
                most *= FIRST_PART
            reach = self._reach + int(math.log(max(1.0, most) / self._nodes) / self._growth)
            least = min(last, interval.lower_bound + (last - root) // LEAST_STEPS)
            limit = min(last, root + reach if self._is_tried else max(least, root + reach))
            if limit >= too_large:
                limit = (interval.lower_bound + too_large) // 2
            if not least <= limit < too_large:
                break
            if not self._refine(prices, root, limit, room, must_stop):
                too_large = limit

    def _refine(
        self,
        prices: tuple[IntArray, IntArray],
        root: int,
        limit: int,
        room: int,
        must_stop: Callable[[], bool],
    ) -> bool:
        """Build finer and finer path graphs for one limit, and record the bounds that they prove.

        An epoch is the time between two rounds. The paths of a graph contain all schedules whose
        total latency is at most the limit. The nodes of a finer graph record the starts of more
        requests. ``prices`` are the prices Q of states of requests and the capacities W of epochs
        (largest total prices of requests that fit in memory), as for `run`, and ``root`` is the
        bound that they prove. ``limit`` is the limit on total latency, in rounds. ``room`` is the
        largest number of nodes that fit into memory. Return False if memory or time did not
        suffice.
        """
        interval = self._interval
        room = min(room, int(max(LEAST_ROOM, ROOM * self.nodes(limit - root))))
        try:
            priced = PricedInstance(interval.source, *prices, limit)
        except (TooLargeError, MemoryError):
            return False
        outcome = refine(priced, room, CLIMB, must_stop)
        if outcome.start_times is not None:
            interval.offer(Schedule(interval.source, outcome.start_times))
        proved = min(outcome.lower_bound, interval.upper_bound)
        proof = PathPrices(StatePrices(prices[0]), proved - 1, outcome.stages)
        interval.prove(proved, "paths", proof=proof)
        nodes = outcome.most_nodes if outcome.is_whole else BEYOND * room
        if nodes and (outcome.is_whole or not interval.is_proved):
            further = limit - root - self._reach
            slope = math.log(nodes / self._nodes) / further if abs(further) > 1 else 0.0
            if slope > 0 and (self._is_tried or not outcome.is_whole):
                self._growth = min(max(slope, GROWTHS[0]), GROWTHS[1])
            self._is_tried, self._reach, self._nodes = True, limit - root, nodes
        return outcome.is_whole

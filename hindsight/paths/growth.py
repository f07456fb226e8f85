"""Estimate the number of nodes and the time of path graphs from earlier graphs of the solve."""

from __future__ import annotations

import math

LEAST_GROWTH, MOST_GROWTH = 0.02, 0.2
"""Bounds on the increase of log(nodes of a path graph) per round of its limit on total latency."""

GROWTH_OF_MANY, MANY = 0.03, 50
"""After the first path graph, largest assumed increase of log(nodes) per round of its limit on
total latency: GROWTH_OF_MANY for n >= MANY requests, else GROWTH_OF_MANY * (MANY / n)."""

SECONDS_A_NODE = 2.5e-6
"""Initial estimate of (seconds of a search on path graphs) / (nodes of the largest of them)."""

LARGE = 1_000_000
"""Only path graphs with more nodes than this update the estimate of seconds per node."""

BEYOND = 2.0
"""A path graph that is abandoned at its limit of N nodes counts as one of BEYOND * N nodes."""


class GraphGrowth:
    """Estimate of the number of nodes of path graphs in one solve: nodes * exp(growth * reach).

    A path graph contains all schedules within a limit on total latency as paths. Its *reach* is
    this limit minus the lower bound on total latency that prices prove, in rounds.

    Parameters
    ----------
    nodes, growth : float
        Initial values: the number of nodes of a graph of reach 0, and the growth of the logarithm
        of this number per round of reach.
    requests : int
        Number of requests of the instance.

    Attributes
    ----------
    is_tried : bool
        Whether a graph was built, or abandoned because it was too large.
    """

    def __init__(self, nodes: float, growth: float, requests: int) -> None:
        self.is_tried, self._reach, self._nodes, self._growth = False, 0.0, nodes, growth
        self._later_growth = GROWTH_OF_MANY * max(1.0, MANY / requests)
        self._seconds_a_node = SECONDS_A_NODE

    def nodes(self, reach: float) -> float:
        """Return the expected number of nodes of a path graph with this reach.

        The reach is the limit on total latency of the graph's schedules minus the proved lower
        bound, in rounds.
        """
        return self._nodes * math.exp(min(100.0, self._growth * (reach - self._reach)))

    def reach(self, room: float, seconds: float) -> float:
        """Return the largest reach at which path graphs are expected to keep within nodes and time.

        The reach is the limit on total latency of the graph's schedules minus the proved lower
        bound, in rounds. ``room`` is the largest number of nodes of one graph. ``seconds`` is the
        largest time to build and search all graphs for one limit on total latency.
        """
        most = max(1.0, min(room, seconds / self._seconds_a_node))
        return self._reach + math.log(most / self._nodes) / self._growth

    def learn(self, reach: float, nodes: float, seconds: float) -> None:
        """Update the predicted sizes and times of path graphs after a search on such graphs.

        The search built one or more graphs, all for the same limit on total latency. Sizes are
        extrapolated from the last search. Its growth of log(nodes) per round of reach since the
        search before is assumed to continue, between LEAST_GROWTH and MOST_GROWTH. It may not be
        positive, because prices improve between graphs. Then the growth stays the same.

        Parameters
        ----------
        reach : float
            Limit on total latency of these graphs minus the lower bound that prices prove, in
            rounds.
        nodes : float
            Number of nodes of the largest of these graphs. `BEYOND` times the largest number of
            nodes allowed, if the search was abandoned because a graph exceeded it.
        seconds : float
            Time in which all of these graphs were built and searched.
        """
        if not self.is_tried:
            self._growth = min(self._growth, self._later_growth)
        elif abs(reach - self._reach) > 1:
            slope = math.log(nodes / self._nodes) / (reach - self._reach)
            if slope > 0:
                self._growth = min(max(slope, LEAST_GROWTH), MOST_GROWTH)
        if nodes > LARGE:
            self._seconds_a_node = seconds / nodes
        self.is_tried, self._reach, self._nodes = True, reach, nodes

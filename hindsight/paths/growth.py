"""Estimate the number of nodes and the time of path graphs from earlier graphs of the solve."""

from __future__ import annotations

import math

LEAST_GROWTH, MOST_GROWTH = 0.02, 0.2
"""Range of the growth of log(nodes) per round of the limit. Measured with 25 to 60 requests."""

GROWTH_OF_MANY, MANY = 0.03, 50
"""Growth of log(nodes) per round of the limit that is assumed for MANY requests or more, after the
first graph and until it is measured."""

SECONDS_A_NODE = 2.5e-6
"""First estimate of the seconds for all graphs of a limit, per node of the largest of them."""

LARGE = 1_000_000
"""Number of nodes above which the time per node is measured."""

BEYOND = 2.0
"""Assumed size of a graph that was too large, as a multiple of its limit on nodes."""


class GraphGrowth:
    """Estimate of the sizes of graphs in one solve: nodes * exp(growth * reach).

    The *reach* of a graph is its limit on total latency less the lower bound that prices prove, in
    rounds.

    Parameters
    ----------
    nodes, growth : float
        Initial values: nodes of a graph of reach 0, and growth of their logarithm per round of
        reach.
    requests : int
        Number of requests of the instance.

    Attributes
    ----------
    is_tried : bool
        Whether a graph was built or abandoned.
    """

    def __init__(self, nodes: float, growth: float, requests: int) -> None:
        self.is_tried = False
        self._reach, self._nodes, self._growth = 0.0, nodes, growth
        self._later_growth = GROWTH_OF_MANY * max(1.0, MANY / requests)
        self._seconds_a_node = SECONDS_A_NODE
        self._measured: tuple[float, float] | None = None
        self._too_far: tuple[float, float] | None = None

    def nodes(self, reach: float) -> float:
        """Return the expected number of nodes of a graph with this reach."""
        return self._nodes * math.exp(min(100.0, self._growth * (reach - self._reach)))

    def reach(self, room: float, seconds: float) -> float:
        """Return the reach at which a graph is expected to take ``room`` nodes or ``seconds``."""
        most = max(1.0, min(room, seconds / self._seconds_a_node))
        return self._reach + math.log(most / self._nodes) / self._growth

    def learn(self, reach: float, nodes: float, seconds: float) -> None:
        """Update the estimate by the largest graph of a limit and the time of all its graphs."""
        before, self._measured = self._measured, (reach, nodes)
        self._reach, self._nodes = self._measured
        if not self.is_tried:
            self._growth = min(self._growth, self._later_growth)
        if self._too_far is not None and self._too_far[0] <= reach:
            self._too_far = None
        if nodes > LARGE and seconds > 0:
            self._seconds_a_node = seconds / nodes
        self.is_tried = True
        self._fit(before, self._too_far)

    def learn_too_large(self, reach: float, room: float) -> None:
        """Update the estimate after a graph exceeded its limit of ``room`` nodes."""
        self._too_far = reach, BEYOND * room
        self.is_tried = True
        self._fit(self._too_far)
        if self.nodes(reach) < room:
            # Even the largest growth predicts too few nodes, so estimate from this graph instead.
            self._reach, self._nodes = self._too_far

    def _fit(self, *known: tuple[float, float] | None) -> None:
        """Set the growth to the steepest slope to a known (reach, nodes), if it is positive.

        Slopes may be negative because prices improve between graphs.
        """
        slopes = [
            math.log(point[1] / self._nodes) / (point[0] - self._reach)
            for point in known
            if point is not None and abs(point[0] - self._reach) > 1
        ]
        steepest = max(slopes, default=0.0)
        if steepest > 0:
            self._growth = min(max(steepest, LEAST_GROWTH), MOST_GROWTH)

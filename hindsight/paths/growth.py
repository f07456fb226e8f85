"""Estimates of the nodes and time that graphs of paths take, learned from earlier graphs."""

from __future__ import annotations

import math

LEAST_GROWTH, MOST_GROWTH = 0.02, 0.2
"""Growth of the logarithm of nodes per round of limit, as measured from 25 to 60 requests."""

GROWTH_OF_MANY, MANY = 0.03, 50
"""That growth for so many requests or more, after the first graph and until others are known."""

SECONDS_A_NODE = 2.5e-6
"""All graphs of a limit together, as a multiple of the nodes of its largest, until measured."""

LARGE = 1_000_000
"""Least nodes of a graph from which its time is learned."""

BEYOND = 2.0
"""Assumed size of a graph that did not fit, as a multiple of the room that it had."""


class GraphGrowth:
    """Estimate of the graphs of one solve: nodes * exp(growth * rounds).

    The *reach* of a graph is its limit less the bound of prices, in rounds.

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
        Whether any graph was built.
    """

    def __init__(self, nodes: float, growth: float, requests: int) -> None:
        self.is_tried = False
        self._reach, self._nodes, self._growth = 0.0, nodes, growth
        self._later_growth = GROWTH_OF_MANY * max(1.0, MANY / requests)
        self._seconds_a_node = SECONDS_A_NODE
        self._measured: tuple[float, float] | None = None
        self._too_far: tuple[float, float] | None = None

    def nodes(self, reach: float) -> float:
        """Return the expected nodes of a graph."""
        return self._nodes * math.exp(min(100.0, self._growth * (reach - self._reach)))

    def reach(self, room: float, seconds: float) -> float:
        """Return the reach of a graph expected to need so many nodes and so much time."""
        most = max(1.0, min(room, seconds / self._seconds_a_node))
        return self._reach + math.log(most / self._nodes) / self._growth

    def learn(self, reach: float, nodes: float, seconds: float) -> None:
        """Learn from the largest graph of a limit, and the time that the whole limit took."""
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
        """Learn that a graph did not fit into its room."""
        self._too_far = reach, BEYOND * room
        self.is_tried = True
        self._fit(self._too_far)
        if self.nodes(reach) < room:
            # Steeper than any growth known: the assumed nodes at reach 0 are wrong.
            self._reach, self._nodes = self._too_far

    def _fit(self, *known: tuple[float, float] | None) -> None:
        """Fit the steepest growth to what is known; better prices may make graphs smaller again."""
        slopes = [
            math.log(point[1] / self._nodes) / (point[0] - self._reach)
            for point in known
            if point is not None and abs(point[0] - self._reach) > 1
        ]
        steepest = max(slopes, default=0.0)
        if steepest > 0:
            self._growth = min(max(steepest, LEAST_GROWTH), MOST_GROWTH)

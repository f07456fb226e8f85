"""How many nodes graphs of paths have, and how long they take, as those before have shown."""

from __future__ import annotations

import math

LEAST_GROWTH, MOST_GROWTH = 0.02, 0.2
"""Of the logarithm of nodes with every round of the limit, as measured from 25 to 60 requests."""

GROWTH_OF_MANY, MANY = 0.03, 50
"""That growth from so many requests on, after the first graph and until others have shown it."""

SECONDS_A_NODE = 2.5e-6
"""Of the largest graph of a limit, for all of its graphs, while they have not shown it."""

LARGE = 1_000_000
"""Nodes of a graph that shows how long they take."""

BEYOND = 2.0
"""What a graph that did not fit may have had, in rooms that it was given."""


class GraphGrowth:
    """What is expected of the graphs of one solve: nodes * exp(growth * rounds).

    The *reach* of a graph is its limit less the bound of prices, in rounds.

    Parameters
    ----------
    nodes, growth : float
        Of a graph of reach 0, and the growth of their logarithm with every round of reach, while
        nothing is known.
    requests : int
        Of the instance.

    Attributes
    ----------
    is_tried : bool
        Whether there was a graph.
    """

    def __init__(self, nodes: float, growth: float, requests: int) -> None:
        self.is_tried = False
        self._reach, self._nodes, self._growth = 0.0, nodes, growth
        self._later_growth = GROWTH_OF_MANY * max(1.0, MANY / requests)
        self._seconds_a_node = SECONDS_A_NODE
        self._measured: tuple[float, float] | None = None
        self._too_far: tuple[float, float] | None = None

    def nodes(self, reach: float) -> float:
        """Expected of a graph."""
        return self._nodes * math.exp(min(100.0, self._growth * (reach - self._reach)))

    def reach(self, room: float, seconds: float) -> float:
        """How far a graph is expected to go with so many nodes, and in so long."""
        most = max(1.0, min(room, seconds / self._seconds_a_node))
        return self._reach + math.log(most / self._nodes) / self._growth

    def learn(self, reach: float, nodes: float, seconds: float) -> None:
        """What the largest graph of a limit had, and how long all of the limit took."""
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
        """That a graph had no room."""
        self._too_far = reach, BEYOND * room
        self.is_tried = True
        self._fit(self._too_far)
        if self.nodes(reach) < room:
            # Steeper than any growth: what was assumed of the beginning is wrong.
            self._reach, self._nodes = self._too_far

    def _fit(self, *known: tuple[float, float] | None) -> None:
        """The steepest growth to what is known; better prices may make graphs smaller again."""
        slopes = [
            math.log(point[1] / self._nodes) / (point[0] - self._reach)
            for point in known
            if point is not None and abs(point[0] - self._reach) > 1
        ]
        steepest = max(slopes, default=0.0)
        if steepest > 0:
            self._growth = min(max(steepest, LEAST_GROWTH), MOST_GROWTH)

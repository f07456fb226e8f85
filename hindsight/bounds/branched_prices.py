"""Lower bounds from memory prices that depend on when some requests start, exact.

Every schedule lies in one leaf of a tree whose splits say "request i starts by round t" or "after
round t". Each leaf has prices of its own, and its bound (`hindsight.bounds.memory_prices`) covers
only the starts that the leaf allows to each request. The least of the leaves' bounds holds for all
schedules. This is a branch and bound over a time-indexed relaxation [1]_ that may stop anywhere.

References
----------
.. [1] M. van den Akker, C. Hurkens, M. Savelsbergh, "Time-indexed formulations for machine
       scheduling problems: column generation", INFORMS Journal on Computing 12 (2000), 111-124.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hindsight.outcomes.proofs import PLAIN, MemoryPrices, Proof, Wanted
from hindsight.runtime.clock import never
from instances import Instance
from instances.arrays import IntArray

from .cheapest_starts import RequestClasses
from .memory_prices import price_bound


@dataclass(frozen=True, eq=False)
class BranchedPrices(Proof):
    """Memory prices that depend on when some requests start: a binary tree of cases.

    Attributes
    ----------
    nodes : tuple
        Preorder. A split (i, t) is followed by the nodes for schedules in which request i starts by
        round t, then by those for the others; a leaf is its prices.
    """

    nodes: tuple[tuple[int, int] | MemoryPrices, ...]

    def _moved(self, arrival_times: IntArray, shifts: IntArray) -> BranchedPrices:
        return BranchedPrices(
            tuple(
                cast(MemoryPrices, node.moved(arrival_times, shifts))
                if isinstance(node, MemoryPrices)
                else (node[0], node[1] + int(shifts[node[0]]))
                for node in self.nodes
            )
        )

    def to_part(self, instance: Instance, wanted: Wanted = PLAIN) -> dict[str, Any]:
        """See `Proof`."""
        return {
            "kind": "branched-memory-prices",
            "scale": 1,
            "nodes": [
                {"scale": node.denominator, "prices": node.numerators.tolist()}
                if isinstance(node, MemoryPrices)
                else list(node)
                for node in self.nodes
            ],
        }


LATEST = int(np.iinfo(np.int64).max)
"""The last start of a request that may start at any time."""


def requests_from(instance: Instance, first: IntArray) -> RequestClasses:
    """Each request by itself, as if it arrived in round ``first[i]``."""
    n = len(instance)
    # Copies, as read-only columns have loops compiled a second time.
    lengths = instance.prompt_lengths.copy(), instance.output_lengths.copy()
    weights = instance.weights.copy()
    return RequestClasses(first.copy(), *lengths, weights, np.ones(n), np.arange(n))


def leaf_bound(
    instance: Instance,
    prices: MemoryPrices,
    first: IntArray,
    last: IntArray,
    should_stop: Callable[[], bool] = never,
) -> int:
    """A bound on schedules in which every request i starts in rounds first[i] .. last[i].

    Parameters
    ----------
    instance : Instance
        The problem.
    prices : MemoryPrices
        Prices of memory in each round.
    first, last : int64 array, shape (n,)
        Earliest and latest start of each request: arrival_times[i] <= first[i] <= last[i].
    should_stop : Callable[[], bool], default never
        Polled; returning True stops the computation.

    Raises
    ------
    StoppedEarlyError
        ``should_stop`` returned True.
    """
    classes = requests_from(instance, first)
    found = price_bound(instance, prices, classes=classes, final=last, should_stop=should_stop)
    return found.bound + int(instance.weights @ (first - instance.arrival_times))

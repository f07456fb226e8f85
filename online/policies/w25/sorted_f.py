"""Sorted-F: batches of small F(X) = (sum of outputs) / |X|^2 first ([W25] Algorithm 1).

Phase 1 builds batches, each of small F among the requests left and ordered by output; phase 2
starts requests in that order, up to the first that does not fit under the look-ahead test
(`online.policies.w25.planned`, `online.policies.w25.batch_builders`). The four policies differ in
how a batch is built.

Guarantee: with batches of least F, less than 48 times the optimum, all at once ([W25] Theorem 3).
"""

from __future__ import annotations

from abc import abstractmethod

from instances.arrays import IntArray
from instances.validation import as_integer, as_number
from online.policy_interface.policy import register_policy

from .batch_builders import exact_batch, quantile_batch, scaled_batch, swap_batch
from .planned import PlannedPrefixPolicy, shortest_output_first


class SortedF(PlannedPrefixPolicy):
    """A batch of small F, shortest output first."""

    def next_batch(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """The batch the builder finds, in order of output."""
        return shortest_output_first(outputs, self.build(prompts, outputs))

    @abstractmethod
    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Positions of a non-empty batch."""


@register_policy("sorted-f-dp")
class SortedFExact(SortedF):
    """Sorted-F with batches of least F by dynamic programming ([W25] Algorithm 2).

    O(n k M) a batch, for n requests waiting and at most k in a batch: for a hundred requests or
    so; a table beyond `LARGEST_TABLE` cells is refused. Of batches of equal F the largest is
    taken ([W25] Algorithm 1, line 4); between equal sizes the paper leaves it open.
    """

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """A batch of least F."""
        return exact_batch(prompts, outputs, self._memory_limit)


@register_policy("sorted-f-scaled-dp")
class SortedFScaled(SortedF):
    """Sorted-F with batches by dynamic programming on rounded numbers ([W25] Algorithm 3).

    Memory rounded down gives F at most the least, but a batch may need more than M; phase 2 then
    starts what fits.

    Parameters
    ----------
    epsilon : float, default 0.1
        Precision of the rounding, > 0.
    precision : int, default 100
        The paper's B, which it leaves open: memory is counted in B / epsilon steps.
    """

    def __init__(self, epsilon: float = 0.1, precision: int = 100) -> None:
        self.epsilon = as_number(epsilon, "policy", "epsilon", above=0, maximum=1)
        self.precision = as_integer(precision, "policy", "precision", minimum=1)

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """A batch of nearly least F."""
        return scaled_batch(prompts, outputs, self._memory_limit, self.epsilon, self.precision)


@register_policy("sorted-f-swap")
class SortedFSwap(SortedF):
    """Sorted-F with smallest peaks first, improved by exchanges ([W25] Algorithm 4).

    No guarantee beyond a batch that no exchange of two requests improves. O(n log n) a batch and
    O(n) an exchange. The paper states no order of exchanges: the best one is made.
    """

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """A batch no exchange improves."""
        return swap_batch(prompts, outputs, self._memory_limit)


@register_policy("sorted-f-quantile")
class SortedFQuantile(SortedF):
    """Sorted-F with requests below two quantiles first, then what fits ([W25] Algorithm 5).

    No guarantee. O(n log n) a batch. The quantiles are those of a random half of the requests.

    Parameters
    ----------
    share : float, default 0.3
        The quantile, in [0, 1]; the paper takes 0.3.
    """

    randomized = True

    def __init__(self, share: float = 0.3) -> None:
        self.share = as_number(share, "policy", "share", minimum=0, maximum=1)

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """A batch by quantiles."""
        return quantile_batch(prompts, outputs, self._memory_limit, self._rng, self.share)

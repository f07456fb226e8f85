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
    """Base class of Sorted-F: starts batches X of small F(X) = (sum of outputs) / |X|^2 first.

    Requests of a batch start in order of output, the shortest first.
    """

    def next_batch(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Return array positions of a batch, shortest output first."""
        return shortest_output_first(outputs, self.build(prompts, outputs))

    @abstractmethod
    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Choose a batch of small F(X) = (sum of outputs) / |X|^2, at least one request.

        ``prompts`` and ``outputs`` are those of all waiting requests. Return array positions.
        """


@register_policy("sorted-f-dp")
class SortedFExact(SortedF):
    """Sorted-F with batches of least F by dynamic programming ([W25] Algorithm 2).

    F of a batch X is (sum of outputs) / |X|^2. Cost: O(n k M) for a batch, with n waiting requests
    of which at most k fit together. This suits about a hundred requests. A table of more than
    `LARGEST_TABLE` cells raises an error. Of batches of equal F the largest is taken ([W25]
    Algorithm 1, line 4). The paper does not order batches of equal F and size.
    """

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Return array positions of a batch X of least F(X) = (sum of outputs) / |X|^2."""
        return exact_batch(prompts, outputs, self._memory_limit)


@register_policy("sorted-f-scaled-dp")
class SortedFScaled(SortedF):
    """Sorted-F with batches by dynamic programming on rounded memory ([W25] Algorithm 3).

    F of a batch X is (sum of outputs) / |X|^2. With memory rounded down, the F found is at most the
    least F of batches that fit in M, but the batch found may need more than M. Then only those of
    its requests start that fit.

    Parameters
    ----------
    epsilon : float, default 0.1
        Relative precision of rounded memory, > 0.
    precision : int, default 100
        The paper's B, which it leaves open: M is divided into B / epsilon units.
    """

    def __init__(self, epsilon: float = 0.1, precision: int = 100) -> None:
        self.epsilon = as_number(epsilon, "policy", "epsilon", above=0, maximum=1)
        self.precision = as_integer(precision, "policy", "precision", minimum=1)

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Return array positions of a batch X of small F(X) = (sum of outputs) / |X|^2.

        The batch may need more memory than M.
        """
        return scaled_batch(prompts, outputs, self._memory_limit, self.epsilon, self.precision)


@register_policy("sorted-f-swap")
class SortedFSwap(SortedF):
    """Sorted-F with smallest peaks s + o first, improved by exchanges ([W25] Algorithm 4).

    The only guarantee is that no exchange of two requests lowers F = (sum of outputs) / |X|^2 of a
    batch X. The paper states no order of exchanges: here the one that lowers F most is made. Cost:
    O(n log n) for a batch and O(n) for each exchange.
    """

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Return array positions of a batch X with small F(X) = (sum of outputs) / |X|^2.

        No exchange of a request in X for another one lowers F.
        """
        return swap_batch(prompts, outputs, self._memory_limit)


@register_policy("sorted-f-quantile")
class SortedFQuantile(SortedF):
    """Sorted-F with requests below two quantiles first, then others ([W25] Algorithm 5).

    No guarantee. The quantiles of s + o and of o are those of a random half of the requests. Cost:
    O(n log n) for a batch.

    Parameters
    ----------
    share : float, default 0.3
        The quantile, in [0, 1]; the paper takes 0.3.
    """

    randomized = True

    def __init__(self, share: float = 0.3) -> None:
        self.share = as_number(share, "policy", "share", minimum=0, maximum=1)

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Return array positions of a batch.

        Requests with small s + o and o (below quantiles) come first, then others that fit.
        """
        return quantile_batch(prompts, outputs, self._memory_limit, self._rng, self.share)

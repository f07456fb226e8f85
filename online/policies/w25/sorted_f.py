"""Sorted-F: batches of small F(X) = (sum of outputs) / |X|^2 first ([W25] Algorithm 1).

Phase 1 divides the requests into batches. Each batch X is chosen from the requests left, so that
F(X) is small, and its requests are sorted by output length (`batch_builders`). Phase 2 starts
requests in this order, up to the first that does not fit under the look-ahead test (`planned`). The
four policies differ in the choice of a batch.

Guarantee: with batches of least F, and all requests at once, the total latency is less than 48
times the optimum ([W25] Theorem 3).
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

    F of a batch X is (sum of outputs) / |X|^2. Cost: O(n k M) for a batch, with memory M and n
    waiting requests of which at most k fit together. This suits about a hundred requests. A table
    of more than `LARGEST_TABLE` cells raises an error. Of batches with equal F, one with the most
    requests is taken ([W25] Algorithm 1, line 4). If several have the most, any of them may be
    taken, since the paper does not say which one.
    """

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Return array positions of a batch X of least F(X) = (sum of outputs) / |X|^2."""
        return exact_batch(prompts, outputs, self._memory_limit)


@register_policy("sorted-f-scaled-dp")
class SortedFScaled(SortedF):
    """Sorted-F with batches by dynamic programming on rounded memory ([W25] Algorithm 3).

    F of a batch X is (sum of outputs) / |X|^2. Because memory is rounded down, F of the chosen
    batch is at most the least F of all batches that fit into memory. But the chosen batch may need
    more memory than there is. Then only those of its requests start that fit.

    Parameters
    ----------
    epsilon : float, default 0.1
        Relative precision of rounded memory, > 0.
    precision : int, default 100
        The number B of the paper, which gives no value for it. Memory is divided into B / epsilon
        units.
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
    """Sorted-F with batches of smallest peaks, improved by exchanges ([W25] Algorithm 4).

    The peak of a request is its prompt plus output length. The only guarantee is that no exchange
    of two requests lowers F = (sum of outputs) / |X|^2 of a batch X. The paper states no order of
    exchanges. Here the exchange that lowers F most is made. Cost: O(n log n) for a batch and O(n)
    for each exchange, with n waiting requests.
    """

    def build(self, prompts: IntArray, outputs: IntArray) -> IntArray:
        """Return array positions of a batch X with small F(X) = (sum of outputs) / |X|^2.

        No exchange of a request in X for another one lowers F.
        """
        return swap_batch(prompts, outputs, self._memory_limit)


@register_policy("sorted-f-quantile")
class SortedFQuantile(SortedF):
    """Sorted-F with requests below two quantiles first, then others ([W25] Algorithm 5).

    No guarantee is known. The quantiles are those of the peaks (prompt + output length) and of the
    output lengths of a random half of the requests. Cost: O(n log n) for a batch, with n waiting
    requests.

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

        Requests whose peak s + o and output o are below quantiles come first, then others that fit.
        """
        return quantile_batch(prompts, outputs, self._memory_limit, self._rng, self.share)

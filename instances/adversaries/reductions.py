"""Number partitioning problems as scheduling instances ([W25] Theorems 2 and EC.2).

These reductions show that scheduling is NP-hard. Each number x becomes a request that runs for one
round. T is the sum that each part of the partition must have. A schedule reaches a target value of
the objective if and only if there is a partition.

[W25] sets the prompt length s = x and the memory M = T. In the model of [J25], which [W25] adopts,
a request then holds s + 1 = x + 1 tokens in its round. So numbers with sum T do not fit together,
and no instance reaches the target value. Here s = x - 1, so that the peak s + o is x, and M = T. If
some x is 1, all numbers and T are doubled first, because s must be at least 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances.errors import InvalidValueError
from instances.generators.registry import Family
from instances.problem.instance import Instance
from instances.validation import LARGEST_INTEGER, as_integer, ranged

LARGEST_DRAWS = 100_000
"""Largest number of draws by `partition-makespan`, after which it raises an error."""

LARGEST_TARGET = 100_000
"""Largest target sum T of drawn numbers. It is limited because draws correct sums in steps of 1."""


class ThreePartition(Family, name="three-partition"):
    """3-Partition as a scheduling instance ([W25] Theorem 2).

    The optimal total latency is 3m(m+1)/2 if and only if the 3m numbers can be partitioned into m
    triples of sum T. At most three requests fit in a round, and three only if their numbers add up
    to at most T. So three requests complete in each of the first m rounds only with such a
    partition.

    Parameters
    ----------
    numbers : Sequence[int] or None, default None
        3m whole numbers x with sum m T and T/4 < x < T/2. None draws them.
    groups, target : int
        m and T for drawn numbers, with 8 < T <= `LARGEST_TARGET`.
    planted : bool, default True
        Whether m triples of sum T are drawn and then shuffled, so that a partition exists. If
        False, only the sum of all numbers is m T, and there may be no partition.
    """

    numbers: Sequence[int] | None = None
    groups: int = ranged(3, minimum=1)
    target: int = ranged(40, minimum=8, maximum=LARGEST_TARGET)
    planted: bool = True

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw the numbers unless they are given, check them, and make the instance."""
        values = _checked(self._drawn(rng) if self.numbers is None else self.numbers)
        count, total, groups = len(values), sum(values), len(values) // 3
        if count % 3 or not groups:
            raise InvalidValueError("numbers", "len(numbers)", count, "is not 3, 6, 9, ...")
        if total % groups:
            raise InvalidValueError("numbers", "sum(numbers)", total, f"is not {groups} times T")
        target = total // groups
        _checked(values, *_between_quarter_and_half(target))
        return _unit_requests(values, target, "three-partition")

    def _drawn(self, rng: np.random.Generator) -> list[int]:
        m, target = self.groups, self.target
        low, high = _between_quarter_and_half(target)
        if not 3 * low <= target <= 3 * high:
            reason = "has no three numbers between T/4 and T/2"
            raise InvalidValueError(None, "target", target, reason)
        size, count, total = (3, m, target) if self.planted else (3 * m, 1, m * target)
        drawn = [_composition(rng, size, total, low, high) for _ in range(count)]
        return [int(one) for one in rng.permutation(np.concatenate(drawn))]


class PartitionMakespan(Family, name="partition-makespan"):
    """Partition as a scheduling instance with the makespan as objective ([W25] Theorem EC.2).

    The optimal makespan is 2 if and only if the numbers can be split into two parts of equal sum.
    Numbers with an odd sum, or with a number above half the sum, cannot be split and are refused.

    Parameters
    ----------
    numbers : Sequence[int] or None, default None
        Whole numbers >= 1 whose sum is even, none above half of the sum. None draws n numbers from
        1 .. ``largest``, again and again until they meet these conditions.
    n, largest : int
        Number of drawn numbers, n >= 2, and the largest of them.
    """

    numbers: Sequence[int] | None = None
    n: int = ranged(10, minimum=2)
    largest: int = ranged(30, minimum=1)

    def draw(self, rng: np.random.Generator) -> Instance:
        """Draw the numbers unless they are given, check them, and make the instance."""
        values = _checked(self._drawn(rng) if self.numbers is None else self.numbers)
        total = sum(values)
        if total % 2 or not values:
            raise InvalidValueError("numbers", "sum(numbers)", total, "is not even and positive")
        _checked(values, 1, total // 2)
        return _unit_requests(values, total // 2, "partition-makespan")

    def _drawn(self, rng: np.random.Generator) -> list[int]:
        if self.largest == 1 and self.n % 2:
            raise InvalidValueError(None, "largest", self.largest, "gives only ones, an odd sum")
        for _ in range(LARGEST_DRAWS):
            drawn = rng.integers(1, self.largest + 1, self.n)
            if drawn.sum() % 2 == 0 and 2 * drawn.max() <= drawn.sum():
                return [int(one) for one in drawn]
        reason = f"gave no instance of numbers up to {self.largest} in many draws"
        raise InvalidValueError(None, "n", self.n, reason)


def _composition(
    rng: np.random.Generator, count: int, total: int, low: int, high: int
) -> np.ndarray:
    """Draw ``count`` numbers in low .. high whose sum is ``total``.

    First they are drawn uniformly. Then randomly chosen numbers change by 1 until the sum is right.
    """
    values = rng.integers(low, high + 1, count)
    while (missing := total - int(values.sum())) != 0:
        step = 1 if missing > 0 else -1
        movable = np.flatnonzero(values < high if step > 0 else values > low)
        values[rng.choice(movable)] += step
    return values


def _between_quarter_and_half(target: int) -> tuple[int, int]:
    """Return the smallest and the largest whole number x with T/4 < x < T/2, for T = target."""
    return target // 4 + 1, (target - 1) // 2


def _checked(numbers: Sequence[int], low: int = 1, high: int = LARGEST_INTEGER) -> list[int]:
    return [
        as_integer(x, f"number {k}", "value", minimum=low, maximum=high)
        for k, x in enumerate(numbers)
    ]


def _unit_requests(values: list[int], target: int, kind: str) -> Instance:
    scale = 2 if min(values) == 1 else 1
    return Instance.from_arrays(
        [scale * value - 1 for value in values],
        [1] * len(values),
        memory_limit=scale * target,
        metadata={"reduction": {"problem": kind, "numbers": values, "target": target}},
    )

"""Number partitioning as scheduling: why the problem is hard ([W25] Theorems 2 and EC.2).

Both reductions give a number x a request that runs one round. [W25] sets s = x and M = T, but a
request then holds s + 1 = x + 1 tokens in its round ([J25]'s model, which [W25] adopts), so that
numbers with sum T do not fit together and no instance ever has the target value. Here s = x - 1,
so that the peak s + o is x, and M = T. Where some x is 1, all numbers and T are doubled first,
because s must be at least 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instances.errors import InvalidValueError
from instances.generators.registry import register_generator
from instances.problem.instance import Instance
from instances.validation import as_flag, as_integer

LARGEST_DRAWS = 100_000
"""Draws of numbers before `partition_makespan` gives up: two large ones are hardly ever equal."""

LARGEST_TARGET = 100_000
"""Largest T of drawn numbers, which reach their sum by single steps."""


def three_partition_instance(numbers: Sequence[int]) -> Instance:
    """An instance whose optimum is `three_partition_target` iff the numbers can be partitioned.

    At most three requests fit a round, and three only where their numbers add up to at most T;
    so the first m rounds can be full only by a partition into m triples of sum T.

    Parameters
    ----------
    numbers : Sequence[int]
        3m whole numbers x with sum m T and T/4 < x < T/2.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        They are not such numbers.
    """
    values = _checked(numbers)
    count, total, groups = len(values), sum(values), len(values) // 3
    if count % 3 or not groups:
        raise InvalidValueError("numbers", "len(numbers)", count, "is not 3, 6, 9, ...")
    if total % groups:
        raise InvalidValueError("numbers", "sum(numbers)", total, f"is not {groups} times T")
    target = total // groups
    for k, value in enumerate(values):
        if not target < 4 * value < 2 * target:
            reason = f"is not between T/4 and T/2, T={target}"
            raise InvalidValueError(f"number {k}", "value", value, reason)
    return _unit_requests(values, target, "three-partition")


def three_partition_target(groups: int) -> int:
    """3 m (m + 1) / 2: m rounds with three completions each ([W25] Theorem 2)."""
    return 3 * groups * (groups + 1) // 2


def partition_makespan_instance(numbers: Sequence[int]) -> Instance:
    """An instance with least makespan 2 iff two parts of the numbers have equal sums.

    Parameters
    ----------
    numbers : Sequence[int]
        At least one whole number >= 1, none above half the sum, which must be even.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        They are not such numbers. (Where one exceeds half the sum or the sum is odd the answer is
        no, and there is no instance to ask.)
    """
    values = _checked(numbers)
    total = sum(values)
    if total % 2 or not values:
        raise InvalidValueError("numbers", "sum(numbers)", total, "is not even and positive")
    for k, value in enumerate(values):
        if 2 * value > total:
            reason = f"exceeds half the sum, {total // 2}"
            raise InvalidValueError(f"number {k}", "value", value, reason)
    return _unit_requests(values, total // 2, "partition-makespan")


@register_generator("three-partition")
def three_partition(
    rng: np.random.Generator,
    *,
    numbers: Sequence[int] | None = None,
    groups: int = 3,
    target: int = 40,
    planted: bool = True,
) -> Instance:
    """3-Partition as total latency: 3m(m+1)/2 iff there is a partition ([W25] Theorem 2).

    Parameters
    ----------
    numbers : Sequence[int] or None, default None
        The 3m numbers; None draws them.
    groups, target : int
        m and T of drawn numbers, 8 < T <= `LARGEST_TARGET`.
    planted : bool, default True
        Draw m triples of sum T and shuffle them, so that there is a partition; otherwise only the
        sum of all numbers is m T, and there may be none.
    """
    if numbers is not None:
        return three_partition_instance(numbers)
    m = as_integer(groups, None, "groups", minimum=1)
    total = as_integer(target, None, "target", minimum=8, maximum=LARGEST_TARGET)
    low, high = total // 4 + 1, (total - 1) // 2
    size, count, wanted = (
        (3, m, total) if as_flag(planted, None, "planted") else (3 * m, 1, m * total)
    )
    if not 3 * low <= total <= 3 * high:
        raise InvalidValueError(None, "target", total, "has no three numbers between T/4 and T/2")
    drawn = [_composition(rng, size, wanted, low, high) for _ in range(count)]
    return three_partition_instance(rng.permutation(np.concatenate(drawn)).tolist())


@register_generator("partition-makespan")
def partition_makespan(
    rng: np.random.Generator,
    *,
    numbers: Sequence[int] | None = None,
    n: int = 10,
    largest: int = 30,
) -> Instance:
    """Partition as makespan: 2 iff the numbers have two parts of equal sum ([W25] Theorem EC.2).

    Parameters
    ----------
    numbers : Sequence[int] or None, default None
        The numbers; None draws n of them from 1 .. ``largest``, again and again until their sum is
        even and none exceeds half of it.
    n, largest : int
        Of drawn numbers, n >= 2.
    """
    if numbers is not None:
        return partition_makespan_instance(numbers)
    n = as_integer(n, None, "n", minimum=2)
    largest = as_integer(largest, None, "largest", minimum=1)
    if largest == 1 and n % 2:
        raise InvalidValueError(None, "largest", largest, "gives an odd number of ones")
    for _ in range(LARGEST_DRAWS):
        drawn = rng.integers(1, largest + 1, n)
        if drawn.sum() % 2 == 0 and 2 * drawn.max() <= drawn.sum():
            return partition_makespan_instance(drawn.tolist())
    raise InvalidValueError(
        None, "n", n, f"gave no instance of numbers up to {largest} in many draws"
    )


def _composition(
    rng: np.random.Generator, count: int, total: int, low: int, high: int
) -> np.ndarray:
    """``count`` numbers in low .. high with the given sum: uniform draws, then single steps."""
    values = rng.integers(low, high + 1, count)
    while (missing := total - int(values.sum())) != 0:
        step = 1 if missing > 0 else -1
        movable = np.flatnonzero(values < high if step > 0 else values > low)
        values[rng.choice(movable)] += step
    return values


def _checked(numbers: Sequence[int]) -> list[int]:
    return [as_integer(x, f"number {k}", "value", minimum=1) for k, x in enumerate(numbers)]


def _unit_requests(values: list[int], target: int, kind: str) -> Instance:
    scale = 2 if min(values) == 1 else 1
    return Instance.from_arrays(
        [scale * value - 1 for value in values],
        [1] * len(values),
        memory_limit=scale * target,
        metadata={"reduction": {"problem": kind, "numbers": values, "target": target}},
    )

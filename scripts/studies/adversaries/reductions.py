"""Deciding 3-Partition and Partition with the hindsight optimum ([W25] Theorems 2 and EC.2)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from instances import generate, three_partition_target


@dataclass(frozen=True, slots=True)
class ReductionCheck:
    """Check of a seeded sample of one kind and size.

    Attributes
    ----------
    problem, drawn, size : str, str, int
        Which numbers: ``size`` is m of 3-Partition, n of Partition.
    instances, proved : int
        How many, and how many of the optima are proved.
    at_target : int
        Optima equal to the target: each is a partition of the numbers.
    seconds : float
        For all of them.
    """

    problem: str
    drawn: str
    size: int
    instances: int
    proved: int
    at_target: int
    seconds: float


def three_partition_checks(
    groups: Sequence[int], seeds: int, target: int = 40, time_limit: float | None = 60.0
) -> Iterator[ReductionCheck]:
    """Instances with a planted partition, then without, for each m."""
    import hindsight

    for planted in (True, False):
        for m in groups:
            began, proved, found = time.monotonic(), 0, 0
            for seed in range(seeds):
                drawn = generate("three-partition", seed, groups=m, target=target, planted=planted)
                result = hindsight.solve(drawn, time_limit, threads=1, method="mip")
                proved += result.status == "optimal"
                found += result.upper_bound == three_partition_target(m)
            yield ReductionCheck(
                "three-partition",
                "planted" if planted else "random",
                m,
                seeds,
                proved,
                found,
                time.monotonic() - began,
            )


def partition_checks(
    sizes: Sequence[int], seeds: int, largest: int = 200, time_limit: float | None = 60.0
) -> Iterator[ReductionCheck]:
    """Random instances of Partition for each n, decided by the makespan."""
    import hindsight

    for n in sizes:
        began, proved, found = time.monotonic(), 0, 0
        for seed in range(seeds):
            drawn = generate("partition-makespan", seed, n=n, largest=largest)
            result = hindsight.solve(drawn, time_limit, threads=1, goal="makespan")
            proved += result.status == "optimal"
            found += result.upper_bound == 2
        yield ReductionCheck(
            "partition-makespan", "random", n, seeds, proved, found, time.monotonic() - began
        )

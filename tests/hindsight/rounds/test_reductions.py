"""3-Partition and Partition decided by optima, against an enumeration that knows no schedules."""

from __future__ import annotations

from itertools import combinations

import pytest

import hindsight
from instances import Schedule, generate


def has_three_partition(numbers: list[int], target: int) -> bool:
    """Give the first number left every pair that completes it to the target."""
    if not numbers:
        return True
    first, rest = numbers[0], numbers[1:]
    for i, j in combinations(range(len(rest)), 2):
        if first + rest[i] + rest[j] == target:
            left = [x for k, x in enumerate(rest) if k not in (i, j)]
            if has_three_partition(left, target):
                return True
    return False


def parts_of(schedule: Schedule) -> list[list[int]]:
    """Return the positions of the numbers that run in each round."""
    starts = schedule.start_times.tolist()
    return [[k for k, start in enumerate(starts) if start == t] for t in sorted(set(starts))]


def has_equal_halves(numbers: list[int]) -> bool:
    """Every sum of a subset."""
    sums = {0}
    for x in numbers:
        sums |= {total + x for total in sums}
    return sum(numbers) // 2 in sums


def check_three_partition(groups: int, target: int, seed: int, *, planted: bool) -> bool:
    drawn = generate("three-partition", seed, groups=groups, target=target, planted=planted)
    numbers = drawn.metadata["reduction"]["numbers"]
    result = hindsight.solve(drawn, threads=1, method="mip", time_limit=60)
    assert result.status == "optimal"
    answer = has_three_partition(numbers, target)
    assert (result.upper_bound == 3 * groups * (groups + 1) // 2) == answer
    assert answer or not planted
    if answer:
        parts = parts_of(result.schedule)
        assert sorted(k for part in parts for k in part) == list(range(3 * groups))
        assert [sum(numbers[k] for k in part) for part in parts] == [target] * groups
    return answer


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_three_partition(groups: int) -> None:
    """[W25] Theorem 2."""
    answers = [
        check_three_partition(groups, target, seed, planted=planted)
        for target in (20, 41)
        for seed in range(3)
        for planted in (True, False)
    ]
    if groups > 1:
        assert set(answers) == {True, False}, "the sample must hold both answers"


def test_partition() -> None:
    """[W25] Theorem EC.2."""
    answers = []
    for n, largest in ((4, 20), (6, 60), (9, 400)):
        for seed in range(8):
            drawn = generate("partition-makespan", seed, n=n, largest=largest)
            numbers = drawn.metadata["reduction"]["numbers"]
            result = hindsight.solve(drawn, threads=1, goal="makespan", time_limit=60)
            assert result.status == "optimal"
            answer = has_equal_halves(numbers)
            assert (result.upper_bound == 2) == answer
            answers.append(answer)
            if answer:
                first, second = parts_of(result.schedule)
                assert sorted(first + second) == list(range(n))
                assert sum(numbers[k] for k in first) == sum(numbers[k] for k in second)
    assert set(answers) == {True, False}, "the sample must hold both answers"

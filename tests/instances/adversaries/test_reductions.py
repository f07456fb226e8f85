"""Numbers to instances and schedules to partitions, without any solver."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from instances import Schedule, generate

# T = 20: 5 < x < 10.
MIXED = [6, 7, 7, 6, 6, 8]


def test_a_schedule_of_the_target_is_a_partition() -> None:
    """[W25] Theorem 2."""
    instance = generate("three-partition", numbers=MIXED)
    assert instance.peak_memories.tolist() == MIXED
    assert instance.memory_limit == 20
    assert instance.output_lengths.tolist() == [1] * 6
    # m = 2: three requests complete in round 1, three in round 2.
    schedule = Schedule(instance, [0, 0, 0, 1, 1, 1])
    assert schedule.is_feasible
    assert schedule.total_latency == 9


def test_partition_by_hand() -> None:
    """[W25] Theorem EC.2."""
    schedule = Schedule(generate("partition-makespan", numbers=[3, 5, 2, 4]), [0, 1, 1, 0])
    assert schedule.is_feasible
    assert schedule.makespan == 2


def test_ones_are_doubled_because_a_prompt_has_a_token() -> None:
    instance = generate("partition-makespan", numbers=[1, 1, 2])
    assert instance.prompt_lengths.tolist() == [1, 1, 3]
    assert instance.memory_limit == 4
    assert Schedule(instance, [0, 0, 1]).is_feasible


@given(st.integers(0, 1000), st.integers(1, 6), st.integers(16, 60), st.booleans())
def test_drawn_numbers_are_valid(seed: int, groups: int, target: int, planted: bool) -> None:
    drawn = generate("three-partition", seed, groups=groups, target=target, planted=planted)
    numbers = drawn.metadata["reduction"]["numbers"]
    assert len(numbers) == 3 * groups
    assert sum(numbers) == groups * target
    assert all(target / 4 < x < target / 2 for x in numbers)


@given(st.integers(0, 1000), st.integers(2, 12), st.integers(2, 50))
def test_drawn_numbers_of_partition(seed: int, n: int, largest: int) -> None:
    drawn = generate("partition-makespan", seed, n=n, largest=largest)
    numbers = drawn.metadata["reduction"]["numbers"]
    assert len(numbers) == n
    assert sum(numbers) % 2 == 0
    assert 1 <= min(numbers) <= max(numbers) <= min(largest, sum(numbers) // 2)

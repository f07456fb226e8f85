"""MC-SF and MC-Benchmark against [J25] Algorithms 1 and 2 written round by round.

The rendering asks every round, and checks *every* later round of every candidate by adding up
memory from the definition: it skips no epoch and knows no completion-time shortcut.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from brute_force import is_feasible_by_definition, memory_by_definition
from drawn_instances import drawn_instance

import online
from instances import Instance, Request


def random_instance(seed: int) -> Instance:
    last = (0, 9, 59)[seed % 3]
    return drawn_instance([11, seed], (1, 14), (4, 29), prompts=(1, 7), last_arrival=last)


def algorithm(instance: Instance, key: Callable[[int, Request], tuple[int, ...]]) -> list[int]:
    """One decision a round: the longest prefix of the sorted queue within M in all later rounds."""
    starts: dict[int, int] = {}
    now = 0
    while len(starts) < len(instance):
        queue = sorted(
            (i for i, q in enumerate(instance) if i not in starts and q.arrival_time <= now),
            key=lambda i: key(i, instance[i]),
        )
        for i in queue:
            trial = {**starts, i: now}
            last = max(t + instance[j].output_length for j, t in trial.items())
            if any(
                sum(
                    instance[j].prompt_length + r - t
                    for j, t in trial.items()
                    if t < r <= t + instance[j].output_length
                )
                > instance.memory_limit
                for r in range(now + 1, last + 1)
            ):
                break
            starts = trial
        now += 1
    return [starts[i] for i in range(len(instance))]


def by_output(index: int, request: Request) -> tuple[int, ...]:
    # Ties by order of appearance: arrival, then position.
    return (request.output_length, request.arrival_time, index)


def by_arrival(index: int, request: Request) -> tuple[int, ...]:
    return (request.arrival_time, index)


@pytest.mark.parametrize("chunk", range(10))
def test_policies_are_their_algorithms(chunk: int) -> None:
    """[J25] Algorithms 1, 2; [W25] Section 7."""
    for seed in range(chunk, 300, 10):
        instance = random_instance(seed)
        expected = algorithm(instance, by_output)
        run = online.simulate(instance, "mc-sf")
        assert run.status == "completed"
        assert run.start_rounds.tolist() == expected, seed
        assert run.schedule.start_times.tolist() == expected, seed
        assert is_feasible_by_definition(instance, expected)
        assert run.memory_profile().tolist() == memory_by_definition(instance, expected), seed
        assert run.memory_profile().tolist() == run.schedule.memory_profile().tolist(), seed
        assert run.evictions == 0
        expected = algorithm(instance, by_arrival)
        for name in ("mc-benchmark", "fcfs"):
            assert online.simulate(instance, name).start_rounds.tolist() == expected, (seed, name)

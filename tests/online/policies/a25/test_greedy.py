"""Greedy first come, first served, on the trajectories of [A25] Example 2."""

from __future__ import annotations

from collections import Counter

import pytest

import online
from instances import Instance, generate


def completions(run: online.Run, first: int, last: int) -> list[int]:
    counts = Counter(run.completion_rounds.tolist())
    return [counts[r] for r in range(first, last + 1)]


def test_level_stages_stay_level() -> None:
    level = generate("fcfs-cascade", arrivals="constant", rounds=40)
    run = online.simulate(level, "fcfs-greedy", service_model=online.PREFILL_ROUND)
    assert run.status == "completed"
    assert run.evictions == 0
    assert completions(run, 2, 40) == [4] * 39


@pytest.mark.parametrize("seed", range(3))
def test_poisson_arrivals_lose_a_quarter_of_the_throughput(seed: int) -> None:
    drawn = generate("fcfs-cascade", seed, rounds=1000)
    run = online.simulate(drawn, "fcfs-greedy", service_model=online.PREFILL_ROUND, max_rounds=1000)
    done = int((run.completion_rounds >= 0).sum())
    assert abs(done / 1000 - 3) < 0.1


def test_looking_ahead_avoids_the_evictions_but_not_the_loss() -> None:
    drawn = generate("fcfs-cascade", arrivals="constant", imbalanced=True, rounds=400)
    run = online.simulate(drawn, "mc-sf", service_model=online.PREFILL_ROUND, max_rounds=400)
    assert run.evictions == 0
    assert abs(int((run.completion_rounds >= 0).sum()) / 400 - 3) < 0.1


def test_the_latest_admitted_goes_and_returns_last() -> None:
    """[A25] Section 2.4."""
    # M = 6. a and b start at 0 and hold 2 each in round 1, 3 each in round 2; in round 3 they
    # would hold 8, so b goes. c, waiting since 1, fits beside a (4 + 2); b follows c.
    instance = Instance.from_arrays([1, 1, 1], [4, 4, 1], [0, 0, 1], memory_limit=6)
    run = online.simulate(instance, "fcfs-greedy")
    assert run.eviction_counts.tolist() == [0, 1, 0]
    # c at 2 completes at 3; then b (2 tokens) waits for a (5 tokens) to complete at 4.
    assert run.start_rounds.tolist() == [0, 4, 2]
    assert run.completion_rounds.tolist() == [4, 8, 3]

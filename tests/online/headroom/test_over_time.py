"""Queue and memory over time against a count at many moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scripted import Scripted

import instances
import online
from instances import Workload
from instances.batch_time import AffineTime
from online.headroom import waiting
from online.headroom.waiting import OverTime, over_time, stretch_seconds
from online.policy_interface import Decision
from online.simulation import memory_over_time


@pytest.mark.parametrize("policy", ["fcfs", "sarathi", "vllm", "vllm-v0"])
def test_means_are_those_of_a_fine_count(policy: str) -> None:
    drawn = instances.generate("conversations", 5, n=60, rate=30)
    columns = (drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths)
    workload = Workload(*columns, memory_limit=3000, batch_time=AffineTime(0.02, 2e-4, 1e-6))
    run = online.simulate(workload, policy)
    found = over_time(run, 2.0)
    # In the batch from the round after start_round to the end of end_round.
    ends = run.round_end_times
    steps = memory_over_time(run)
    moments = (np.arange(4000 * len(found.queue)) + 0.5) * (2.0 / 4000)
    there = (run.arrival_times[:, None] <= moments) & (moments < run.completion_times[:, None])
    batch = np.zeros(len(moments), dtype=int)
    for start, end in zip(
        run.attempts.start_round.tolist(), run.attempts.end_round.tolist(), strict=True
    ):
        if end > start:
            batch += (steps.starts[start] <= moments) & (moments < ends[end - 1])
    queue = (there.sum(axis=0) - batch).reshape(len(found.queue), -1).mean(axis=1)
    assert found.queue == pytest.approx(queue, abs=0.05)
    place = np.searchsorted(steps.ends, moments, side="right")
    inside = place < len(steps.starts)
    held = np.zeros(len(moments))
    held[inside] = steps.values[place[inside]] * (steps.starts[place[inside]] <= moments[inside])
    memory = held.reshape(len(found.queue), -1).mean(axis=1) / 3000
    assert found.memory == pytest.approx(memory, abs=0.01)
    assert found.waiting.sum() == pytest.approx(2 * queue.sum(), rel=0.01)


def dither(policy: Any, state: Any) -> Decision:
    """Start the second request, hold it, and send it back when the third arrives."""
    if len({request.index for request in policy.seen}) == 3 and state.running:
        return Decision(evict=[1])
    return Decision(start=policy.waiting, hold=[1] if len(policy.seen) == 2 else [])


def test_who_is_sent_back_before_its_first_round_has_waited_all_the_time() -> None:
    machine = {"memory_limit": 50, "batch_time": AffineTime(1.0)}
    workload = Workload([0.0, 5.0, 15.0], [4, 4, 4], [3, 3, 3], **machine)
    run = online.simulate(workload, Scripted(dither, pauses=True))
    attempts = run.attempts
    empty = attempts.start_round == attempts.end_round
    assert attempts.request[empty].tolist() == [1]
    # Three rounds of a second for the first; the second waits ten seconds for the third.
    assert run.completion_times.tolist() == [3.0, 18.0, 18.0]
    assert over_time(run, 5.0).queue.tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("queue", "worst"),
    [
        # The worst first, equal ones in order of time, none in which nobody waits.
        ([0.0, 2.0, 0.0, 3.0], [3, 1]),
        ([0.0, 0.0], []),
        ([1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0], [2, 0, 1, 3, 4]),
    ],
)
def test_the_worst_stretches_are_those_in_which_someone_waits(
    queue: list[float], worst: list[int]
) -> None:
    found = OverTime(5.0, np.array(queue), np.zeros(len(queue)))
    assert found.worst == worst


def test_stretches_are_round_numbers_of_seconds() -> None:
    for last, expected in ((1.0, 1), (120.0, 1), (121.0, 2), (3543.0, 30), (26_244.0, 300)):
        assert stretch_seconds(Workload([0.0, last], [1, 1], [1, 1], memory_limit=9)) == expected


def test_a_long_run_is_seen_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload([0.0, 0.0], [1, 1], [20, 20], memory_limit=21, batch_time=AffineTime(1.0))
    run = online.simulate(workload, "fcfs")
    monkeypatch.setattr(waiting, "LONGEST", 7)
    found = over_time(run, 1.0)
    # The second request waits for the twenty rounds of the first: forty seconds in seven stretches.
    assert (found.seconds, len(found.queue)) == (6.0, 7)
    assert found.waiting.sum() == pytest.approx(20.0)

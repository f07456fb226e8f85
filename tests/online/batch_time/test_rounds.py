"""Rounds of unequal length against a slow simulation, one round at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scripted import Scripted

import online
from instances import Workload
from online import AffineTime, Decision


def timed(requests: Sequence[Sequence[float]], memory_limit: int, batch_time: Any) -> Workload:
    """Requests as (arrival time, prompt, output)."""
    times, prompts, outputs = zip(*requests, strict=True)
    return Workload(times, prompts, outputs, memory_limit=memory_limit, batch_time=batch_time)


def slow(
    work: Workload, d0: float, d1: float, d2: float, prefill: int, by_output: bool
) -> dict[str, list[float]]:
    """Every round by itself; look-ahead over every later round."""
    times, prompts, outputs = (
        column.tolist() for column in (work.arrival_times, work.prompt_lengths, work.output_lengths)
    )
    n, limit = len(times), work.memory_limit
    clock, rounds = 0.0, 0
    running: dict[int, int] = {}
    start: dict[int, float] = {}
    end: dict[int, float] = {}
    token: dict[int, float] = {}
    memory_track: list[int] = []

    def held(i: int, age: int) -> int:
        """Tokens in its age-th round."""
        total = outputs[i] + prefill
        return prompts[i] + age - prefill if 1 <= age <= total else 0

    while len(end) < n:
        queue = [i for i in range(n) if i not in start and times[i] <= clock]
        queue.sort(key=lambda i: (outputs[i] if by_output else times[i], i))
        started = []
        for i in queue:
            trial = {**running, i: rounds}
            if any(
                sum(held(j, r - begun) for j, begun in trial.items()) > limit
                for r in range(rounds + 1, rounds + 2 + 2 * limit)
            ):
                break
            running = trial
            start[i] = clock
            started.append(i)
        if not running:
            clock = min(time for i, time in enumerate(times) if i not in start)
            continue
        rounds += 1
        memory = sum(held(i, rounds - begun) for i, begun in running.items())
        processed = sum(prompts[i] if i in started else 1 for i in running)
        clock += d0 + d1 * processed + d2 * memory
        memory_track.append(memory)
        for i, begun in list(running.items()):
            age = rounds - begun
            if age == 1 + prefill:
                token[i] = clock
            if age == outputs[i] + prefill:
                end[i] = clock
                del running[i]
    return {
        "start": [start[i] for i in range(n)],
        "token": [token[i] for i in range(n)],
        "end": [end[i] for i in range(n)],
        "memory": [0.0, *memory_track],
    }


@pytest.mark.parametrize("silent", [0, 1])
@pytest.mark.parametrize("policy", ["mc-sf", "fcfs"])
def test_affine_time_against_one_round_at_a_time(policy: str, silent: int) -> None:
    for seed in range(60):
        rng = np.random.default_rng([21, seed])
        n = int(rng.integers(1, 10))
        limit = int(rng.integers(5, 25))
        # Dyadic numbers: sums are exact, so arrivals can fall exactly on the end of a round.
        d0, d1, d2 = (float(x) / 8 for x in (*rng.integers(1, 8, 1), *rng.integers(0, 4, 2)))
        times = sorted(float(t) / 4 for t in rng.integers(0, (1, 100, 400)[seed % 3], n))
        arrivals = []
        for time in times:
            prompt = int(rng.integers(1, min(limit, 7)))
            arrivals.append((time, prompt, int(rng.integers(1, limit - prompt + 1))))
        source = timed(arrivals, limit, AffineTime(d0, d1, d2))
        expected = slow(source, d0, d1, d2, silent, policy == "mc-sf")
        run = online.simulate(source, policy, prefill_rounds=silent)
        assert run.status == "completed"
        assert run.start_times.tolist() == expected["start"], seed
        assert run.first_token_times.tolist() == expected["token"], seed
        assert run.completion_times.tolist() == expected["end"], seed
        assert run.memory_profile().tolist() == expected["memory"], seed
        assert run.total_latency == sum(expected["end"]) - sum(times)


def test_long_stretches_are_cut_where_an_arrival_falls() -> None:
    # 1000 rounds without an event but for an arrival in the middle of round 700.
    source = timed([(0.0, 1, 1000), (699.5, 1, 1)], 2000, AffineTime(1.0))
    run = online.simulate(source, "fcfs")
    assert run.start_times.tolist() == [0.0, 700.0]
    assert run.completion_times.tolist() == [1000.0, 701.0]


def test_start_time_of_a_request_that_an_idle_machine_let_wait() -> None:
    """The policy waits for the second request: both start at its arrival, not at their own."""

    def pairs(policy: Any, state: Any) -> Decision:
        if len(policy.waiting) < 2:
            return Decision()
        started, policy.waiting = policy.waiting, []
        return Decision(start=started)

    source = timed([(5.0, 1, 2), (9.0, 1, 2)], 50, AffineTime(1.0))
    run = online.simulate(source, Scripted(pairs))
    assert run.completion_times.tolist() == [11.0, 11.0]
    assert run.start_times.tolist() == [9.0, 9.0]


def test_a_held_newcomer_costs_its_prompt_when_it_is_processed() -> None:
    """Started and held in round 1, processed in round 2: its prompt tokens are paid there."""

    def rule(policy: Any, state: Any) -> Decision:
        if state.round_index == 0:
            return Decision(start=[0, 1], hold=[1], wake=1)
        return Decision()

    source = timed([(0.0, 1, 3), (0.0, 6, 1)], 50, AffineTime(1.0, 1.0))
    run = online.simulate(source, Scripted(rule))
    assert run.round_end_times is not None
    # Round 1: one prompt token of request 0. Round 2: one token of 0 and six of 1. Round 3: one.
    assert np.diff(run.round_end_times, prepend=0.0).tolist() == [2.0, 8.0, 2.0]

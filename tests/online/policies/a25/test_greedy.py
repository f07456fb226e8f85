"""Greedy first come, first served, on the trajectories of [A25] Example 2."""

from __future__ import annotations

import heapq

import numpy as np
from iterations import EXAMPLE_2_TIME, serve

import online
from instances import Instance, Workload
from online import Decision, Policy, Run
from online.policies.a25.greedy import GreedyFirstComeFirstServed
from online.policy_interface import State


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


class Primed(GreedyFirstComeFirstServed):
    """Prefills so many prompts in each of the first iterations, then does as it always does."""

    def __init__(self, *first: int) -> None:
        self.first = first

    def decide(self, state: State) -> Decision:
        now = state.round_index
        if now < len(self.first):
            chosen = [heapq.heappop(self._queue)[1] for _ in range(self.first[now])]
            return Decision(start=chosen, wake=now + 1)
        return super().decide(state)


BACKLOG = Workload([0.0] * 200, [1] * 200, [1] * 200, memory_limit=12)
"""Example 2: all prompts wait from the beginning; 12 units of memory."""


def stage_counts(run: Run) -> list[tuple[int, int, int]]:
    """(in prefill, in decode, evicted afterwards) of each iteration of a run without pauses."""
    attempts = run.attempts
    length = int(attempts.end_round.max(initial=0))
    prefill = np.bincount(attempts.start_round + 1, minlength=length + 1)
    resident = np.cumsum(
        np.bincount(attempts.start_round + 1, minlength=length + 2)
        - np.bincount(attempts.end_round + 1, minlength=length + 2)
    )
    lost = attempts.end_round[~attempts.completed]
    evicted = np.bincount(lost, minlength=length + 1)
    return [
        (int(prefill[r]), int(resident[r] - prefill[r]), int(evicted[r]))
        for r in range(1, length + 1)
    ]


def counted(policy: Policy) -> list[tuple[int, int, int]]:
    """(prefill, decode, evicted) of each iteration."""
    return stage_counts(serve(BACKLOG, policy, EXAMPLE_2_TIME))


def test_example_2_falls_into_a_cascade() -> None:
    """12 units, 6 + 3 prompts and a backlog: evictions in every other iteration for ever."""
    counts = counted(Primed(3, 6))
    # Iteration 1 of the example is the second here.
    assert counts[1] == (6, 3, 0)
    # 6 decodes fill the memory, so nothing is prefilled; then 12 prefills, of which 6 must go.
    assert counts[2:8] == [(0, 6, 0), (12, 0, 6), (0, 6, 0), (12, 0, 6), (0, 6, 0), (12, 0, 6)]
    completions = [decode for _, decode, _ in counts[2:22]]
    assert sum(completions) / 20 == 3


def test_wait_holds_the_equilibrium() -> None:
    """The same backlog under WAIT: 4 at each stage, 12 units, 4 completions an iteration."""
    policy = online.make_policy("wait", thresholds={(1, 1): 4})
    run = serve(BACKLOG, policy, EXAMPLE_2_TIME)
    counts = stage_counts(run)
    assert counts[0] == (4, 0, 0)
    assert set(counts[1:50]) == {(4, 4, 0)}
    assert run.evictions == 0
    assert set(run.memory_profile()[2:51].tolist()) == {12}
    assert abs(run.round_end_times[49] - run.round_end_times[9] - 40) < 1e-9

"""[A25] Equation (1), and what happens while everything is held in continuous time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import online
from instances import Workload
from instances.batch_time import BatchStretch
from instances.batch_time.models import IterationTime
from online import AffineTime, Decision, Policy


class Scripted(Policy):
    name = "scripted"

    def __init__(self, rule: Any, drains: bool = False) -> None:
        self.rule, self.drains = rule, drains

    def reset(self, setup: Any) -> None:
        self.waiting: list[int] = []
        self.told: list[float] = []

    def arrive(self, requests: Sequence[Any], state: Any) -> None:
        self.waiting.extend(q.index for q in requests)

    def drain(self, state: Any) -> bool:
        self.told.append(state.time)
        return self.drains

    def decide(self, state: Any) -> Decision:
        return self.rule(self, state)


@given(
    rounds=st.integers(1, 5),
    requests=st.integers(0, 4),
    advancing=st.integers(1, 50),
    held=st.integers(0, 50),
)
def test_seconds_count_what_advances(rounds: int, requests: int, advancing: int, held: int) -> None:
    stretch = BatchStretch(rounds, requests, 3, 1, advancing + held, requests, held_memory=held)
    expected = [0.5 + 0.25 * (advancing + requests * k) for k in range(rounds)]
    assert IterationTime(0.5, 0.25).durations(stretch).tolist() == expected
    if not held:
        assert AffineTime(0.5, 0.0, 0.25).durations(stretch).tolist() == expected


def test_the_machine_tells_what_is_held() -> None:
    """(1, 3) runs beside a held (4, 2), which has 4 + 1 tokens after one round."""

    def rule(policy: Any, state: Any) -> Decision:
        if not state.running:
            return Decision(start=[0, 1], wake=1)
        return Decision(hold=[1], wake=2) if state.round_index == 1 else Decision()

    time = IterationTime(1.0, 1.0)
    source = Workload([0.0, 0.0], [1, 4], [3, 2], memory_limit=50, batch_time=time)
    run = online.simulate(source, Scripted(rule))
    assert run.round_end_times is not None
    # 2 + 5 tokens; 3 beside 5 held; 4 + 6.
    assert np.diff(run.round_end_times, prepend=0.0).tolist() == [8.0, 4.0, 11.0]
    assert run.memory_profile().tolist() == [0, 7, 8, 10]


def pause_until_two(policy: Any, state: Any) -> Decision:
    """Starts everything; whoever runs is held until two have come."""
    if not state.running:
        started, policy.waiting = policy.waiting, []
        return Decision(start=started, wake=1)
    if not policy.waiting and state.round_index == 1 and not policy.told:
        return Decision(hold=list(state.running))
    started, policy.waiting = policy.waiting, []
    return Decision(start=started)


def test_a_batch_held_as_a_whole_waits_for_the_next_arrival() -> None:
    time = IterationTime(2.0)
    source = Workload([0.0, 7.3], [1, 1], [2, 2], memory_limit=50, batch_time=time)
    run = online.simulate(source, Scripted(pause_until_two))
    assert run.start_times.tolist() == [0.0, 7.3]
    assert run.completion_times.tolist() == [9.3, 11.3]
    assert run.rounds_run == 3
    assert run.drain_round is None


def test_a_policy_is_told_once_that_nothing_more_comes() -> None:
    source = Workload([0.0], [1], [2], memory_limit=50, batch_time=IterationTime(2.0))
    stubborn, willing = Scripted(pause_until_two), Scripted(pause_until_two, drains=True)
    run = online.simulate(source, willing)
    assert (run.status, run.drain_round, willing.told) == ("completed", 1, [2.0])
    assert run.completion_times.tolist() == [4.0]
    stubborn.rule = lambda policy, state: (
        Decision(hold=list(state.running)) if state.running else Decision(start=[0], wake=1)
    )
    run = online.simulate(source, stubborn)
    assert (run.status, run.drain_round) == ("stalled", None)

"""[A25] Equation (1), and what happens while everything is held in continuous time."""

from __future__ import annotations

from typing import Any

import numpy as np
from scripted import Scripted

import online
from instances import Workload
from online import Decision, IterationTime


class Draining(Scripted):
    """Notes when it is told that nothing more comes."""

    def __init__(self, rule: Any, drains: bool = False) -> None:
        super().__init__(rule)
        self.drains = drains
        self.told: list[float] = []

    def drain(self, state: Any) -> bool:
        self.told.append(state.time)
        return self.drains


def test_the_machine_tells_what_is_held() -> None:
    """(1, 3) runs beside a held (4, 2), which has 4 + 1 tokens after one round."""

    def rule(policy: Any, state: Any) -> Decision:
        if not state.running:
            return Decision(start=[0, 1], wake=1)
        return Decision(hold=[1], wake=2) if state.round_index == 1 else Decision()

    time = IterationTime(1.0, 1.0)
    source = Workload([0.0, 0.0], [1, 4], [3, 2], memory_limit=50, batch_time=time)
    run = online.simulate(source, Draining(rule))
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
    run = online.simulate(source, Draining(pause_until_two))
    assert run.start_times.tolist() == [0.0, 7.3]
    assert run.completion_times.tolist() == [9.3, 11.3]
    assert run.rounds_run == 3
    assert run.drain_round is None


def test_a_policy_is_told_once_that_nothing_more_comes() -> None:
    source = Workload([0.0], [1], [2], memory_limit=50, batch_time=IterationTime(2.0))
    stubborn, willing = Draining(pause_until_two), Draining(pause_until_two, drains=True)
    run = online.simulate(source, willing)
    assert (run.status, run.drain_round, willing.told) == ("completed", 1, [2.0])
    assert run.completion_times.tolist() == [4.0]
    stubborn.rule = lambda policy, state: (
        Decision(hold=list(state.running)) if state.running else Decision(start=[0], wake=1)
    )
    run = online.simulate(source, stubborn)
    assert (run.status, run.drain_round) == ("stalled", None)

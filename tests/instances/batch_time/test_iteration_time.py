"""[A25] Equation (1) in continuous time: what is held costs no time, and waits for arrivals."""

from __future__ import annotations

from typing import Any

import numpy as np
from scripted import Scripted

import online
from instances import Workload
from online import Decision, IterationTime


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


class Pausing(Scripted):
    """Start everything; hold a batch until a second request comes, or until nothing more does."""

    def __init__(self) -> None:
        super().__init__(pause)
        self.drained: list[float] = []

    def drain(self, state: Any) -> bool:
        self.drained.append(state.time)
        return True


def pause(policy: Any, state: Any) -> Decision:
    if state.running and not policy.waiting and state.round_index == 1 and not policy.drained:
        return Decision(hold=list(state.running))
    started, policy.waiting = policy.waiting, []
    return Decision(start=started, wake=None if state.running else 1)


def test_a_batch_held_as_a_whole_waits_for_the_next_arrival_or_is_drained() -> None:
    time = IterationTime(2.0)
    source = Workload([0.0, 7.3], [1, 1], [2, 2], memory_limit=50, batch_time=time)
    run = online.simulate(source, Pausing())
    assert run.start_times.tolist() == [0.0, 7.3]
    assert run.completion_times.tolist() == [9.3, 11.3]
    assert (run.rounds_run, run.drain_round) == (3, None)
    policy = Pausing()
    run = online.simulate(source.of([0]), policy)
    assert (run.status, run.drain_round, policy.drained) == ("completed", 1, [2.0])
    assert run.completion_times.tolist() == [4.0]

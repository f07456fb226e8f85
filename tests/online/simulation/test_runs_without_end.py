"""Runs that would never end: how long the simulator looks on."""

from __future__ import annotations

from typing import Any

import pytest
from scripted import Scripted, start_all

import online
from instances import Instance, Workload
from online import AffineTime, Decision
from online.simulation import loop

# What these conditions keep from happening is mostly a run without end.
pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 decisions at an epoch beyond the queue, 5 + 2 lifetimes of rounds."""
    monkeypatch.setattr(loop, "IDLE_EPOCHS", 5)
    monkeypatch.setattr(loop, "FRUITLESS_LIFETIMES", 2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("waiting", [1, 2])
def test_decisions_at_one_epoch_run_out(waiting: int) -> None:
    """In continuous time nothing passes while all is held and one is swapped for another."""

    def rule(policy: Any, state: Any) -> Decision:
        chosen = [policy.waiting[0]]
        if not state.running:
            return Decision(start=chosen, wake=1)
        return Decision(evict=list(state.running), start=chosen, hold=chosen)

    count = waiting + 1
    instance = Instance.from_arrays([1] * count, [2] * count, memory_limit=9)
    run = online.simulate(Workload.from_instance(instance, AffineTime(1.0)), Scripted(rule))
    # One decision at the first epoch; at the second the queue is ``waiting`` long.
    assert (run.status, run.decisions) == ("livelock", 1 + 5 + waiting)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("arrival", [0, 3])
def test_rounds_without_progress_run_out(arrival: int) -> None:
    """A lifetime is a prompt of 2 and an output of 3; progress is counted from the arrival."""
    policy = Scripted(lambda p, s: Decision(wake=s.round_index + 1))
    instance = Instance.from_arrays([2], [3], [arrival], memory_limit=9)
    run = online.simulate(instance, policy)
    assert run.status == "stalled"
    patience = 5 + 2 * (2 + 3)
    assert policy.asked == [arrival + round_index for round_index in range(patience + 1)]


@pytest.mark.usefixtures("impatient")
def test_waiting_for_a_late_arrival_is_no_loop() -> None:
    def rule(policy: Any, state: Any) -> Decision:
        if len(policy.waiting) == 2:
            return start_all(policy, state)
        return Decision(wake=state.round_index + 1)

    instance = Instance.from_arrays([1, 1], [1, 1], [0, 100], memory_limit=9)
    run = online.simulate(instance, Scripted(rule))
    assert run.completion_rounds.tolist() == [101, 101]

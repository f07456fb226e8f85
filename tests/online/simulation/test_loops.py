"""Runs in which nothing gets further: policies that start nothing, wait, or go in circles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scripted import Scripted, again, start_all

import online
from instances import Instance, Request, Workload
from online import AffineTime, Decision
from online.simulation import loop

# What these conditions keep from happening is mostly a run without end.
pytestmark = pytest.mark.timeout(60)

TWO = Instance([Request(0, 1, 3, "first"), Request(0, 1, 3, "second")], 4)
THREE_ROUNDS = Instance.from_arrays([1], [3], memory_limit=9)


@pytest.mark.parametrize("wake", [None, math.inf])
def test_a_policy_that_starts_nothing_is_stalled(wake: float | None) -> None:
    run = online.simulate(TWO, Scripted(lambda p, s: Decision(wake=wake)))
    assert (run.status, run.decisions) == ("stalled", 1)
    assert run.completion_rounds.tolist() == [-1, -1]
    assert np.isnan(run.completion_times).all()


@pytest.mark.parametrize("limit", [None, 50])
@pytest.mark.parametrize(
    "rule",
    [
        # Runs one round, evicts, and so on.
        lambda p, s: Decision(evict=list(s.running)) if s.running else again(s, start=[0]),
        # Holds what it started for ever.
        lambda p, s: Decision(start=[] if s.running else [0], hold=[0]),
        # The same, and asks for nothing.
        lambda p, s: Decision(start=[] if s.running else [0], hold=[0], wake=math.inf),
        # Starts nothing and asks to be woken in the next round, for ever.
        lambda p, s: again(s),
    ],
)
def test_no_policy_can_hang_the_simulator(
    rule: Callable[[Any, Any], Decision], limit: int | None
) -> None:
    run = online.simulate(TWO, Scripted(rule), max_rounds=limit)
    assert run.status in ("livelock", "stalled", "round-limit")
    assert limit is None or run.rounds_run <= limit


@pytest.mark.parametrize("waiting", [150, 151])
def test_decisions_at_one_epoch_run_out(waiting: int) -> None:
    """In continuous time nothing passes while all is held and one is swapped for another.

    They are so many that no batch comes back often enough to be a loop.
    """

    def rule(policy: Any, state: Any) -> Decision:
        chosen = [policy.waiting[0]]
        if not state.running:
            return Decision(start=chosen, wake=1)
        return Decision(evict=list(state.running), start=chosen, hold=chosen)

    count = waiting + 1
    instance = Instance.from_arrays([1] * count, [2] * count, memory_limit=9)
    run = online.simulate(Workload.from_instance(instance, AffineTime(1.0)), Scripted(rule))
    # One decision at the first epoch; at the second the queue is ``waiting`` long.
    assert (run.status, run.decisions) == ("livelock", 1 + loop.IDLE_EPOCHS + waiting)


@pytest.mark.parametrize("arrival", [0, 3])
def test_rounds_without_progress_run_out(arrival: int) -> None:
    """A lifetime is a prompt of 2 and an output of 3; progress is counted from the arrival."""
    policy = Scripted(lambda p, s: again(s))
    run = online.simulate(Instance.from_arrays([2], [3], [arrival], memory_limit=9), policy)
    assert run.status == "stalled"
    rounds = loop.IDLE_EPOCHS + loop.FRUITLESS_LIFETIMES * (2 + 3)
    assert policy.asked == [arrival + r for r in range(rounds + 1)]


def test_waiting_for_a_late_arrival_is_no_loop() -> None:
    rule = Scripted(lambda p, s: start_all(p, s) if len(p.waiting) == 2 else again(s))
    late = 2 * loop.IDLE_EPOCHS
    run = online.simulate(Instance.from_arrays([1, 1], [1, 1], [0, late], memory_limit=9), rule)
    assert run.completion_rounds.tolist() == [late + 1] * 2


# --- loops of evictions ------------------------------------------------------------------------


def evict_until(done: Callable[[Any, Any], bool]) -> Scripted:
    """Run request 0 a round at a time and evict it, over and over until ``done``."""

    def rule(policy: Any, state: Any) -> Decision:
        if done(policy, state):
            return start_all(policy, state)
        return Decision(evict=[0]) if state.running else again(state, start=[0])

    return Scripted(rule)


def test_a_batch_that_comes_back_too_often_is_a_loop() -> None:
    run = online.simulate(THREE_ROUNDS, evict_until(lambda policy, state: False))
    assert (run.status, run.evictions) == ("livelock", loop.FRUITLESS_RETURNS + 2)


def test_a_batch_that_comes_back_is_no_loop_before_the_last_arrival() -> None:
    policy = evict_until(lambda p, s: 1 in {*p.waiting, *s.running} or p.last == "completed")
    run = online.simulate(Instance.from_arrays([1, 1], [3, 1], [0, 6], memory_limit=9), policy)
    assert (run.status, run.evictions) == ("completed", 5)


def test_a_batch_that_comes_back_is_no_loop_if_requests_get_further() -> None:
    """Each of 200 attempts runs a round longer than the one before."""

    def rule(policy: Any, state: Any) -> Decision:
        policy.longest = getattr(policy, "longest", 0)
        if 0 not in state.running:
            return again(state, start=[0])
        if state.running[0].output_tokens <= policy.longest:
            return again(state)
        policy.longest += 1
        return Decision(evict=[0], wake=math.inf)

    run = online.simulate(Instance.from_arrays([1], [200], memory_limit=201), Scripted(rule))
    assert (run.status, run.evictions) == ("completed", 199)


def test_a_batch_that_comes_back_is_no_loop_while_the_queue_gains_tokens() -> None:
    policy = Scripted(lambda p, s: Decision(preempt=[0]) if s.running else again(s, start=[0]))
    run = online.simulate(THREE_ROUNDS, policy)
    assert (run.status, run.evictions) == ("completed", 2)
    assert run.attempts.tokens_kept.tolist() == [0, 1, 2]

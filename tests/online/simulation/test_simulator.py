"""The loop: order of events, epochs, and policies that misbehave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scripted import Scripted

import online
from instances import Instance, Request
from online import Decision, Policy


class Recording(Policy):
    """Starts everything waiting that fits in the next round; keeps a diary."""

    name = "recording"

    def reset(self, setup: Any) -> None:
        self.limit = setup.memory_limit
        self.waiting: list[Any] = []
        self.diary: list[tuple[Any, ...]] = []

    def arrive(self, requests: Sequence[Any], state: Any) -> None:
        self.waiting.extend(requests)
        self.diary.append(("arrive", state.round_index, [q.id for q in requests]))

    def complete(self, requests: Sequence[Any], state: Any) -> None:
        assert all(q.index not in state.running for q in requests)
        self.diary.append(
            ("complete", state.round_index, sorted(q.id for q in requests), state.memory)
        )

    def decide(self, state: Any) -> Decision:
        self.diary.append(("decide", state.round_index))
        free = state.free
        started = []
        for request in list(self.waiting):
            if request.prompt_length + 1 <= free:
                free -= request.prompt_length + 1
                started.append(request.index)
                self.waiting.remove(request)
        return Decision(start=started)


def test_completions_then_arrivals_then_decision() -> None:
    # "b" arrives in the round in which "a" completes, and takes exactly the memory it releases.
    instance = Instance([Request(0, 3, 4, "a"), Request(4, 6, 1, "b")], 7)
    policy = Recording()
    run = online.simulate(instance, policy)
    at_four = [entry for entry in policy.diary if entry[1] == 4]
    assert at_four == [("complete", 4, ["a"], 0), ("arrive", 4, ["b"]), ("decide", 4)]
    assert run.start_rounds.tolist() == [0, 4]
    assert run.completion_rounds.tolist() == [4, 5]


def test_idle_rounds_pass_without_decisions() -> None:
    instance = Instance([Request(2, 1, 1, "a"), Request(10**9, 1, 2, "b")], 4)
    run = online.simulate(instance, "mc-sf")
    assert run.start_rounds.tolist() == [2, 10**9]
    assert run.total_latency == 3
    assert run.decisions <= 4


def test_memory_of_the_state_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(8)
    for _ in range(40):
        n = int(rng.integers(1, 7))
        prompts = rng.integers(1, 6, n).tolist()
        outputs = rng.integers(1, 8, n).tolist()
        arrivals = rng.integers(0, 12, n).tolist()
        instance = Instance.from_arrays(prompts, outputs, arrivals, memory_limit=500)
        wrong = []

        def rule(policy: Any, state: Any) -> Decision:
            now = state.round_index
            held = sum(
                x.request.prompt_length + (now - x.start_round) for x in state.running.values()
            )
            if held != state.memory or 500 - state.free != held + len(state.running):
                wrong.append(now)  # noqa: B023
            waiting = [q.index for q in policy.seen if q.index not in policy.started]
            if list(state.waiting) != waiting:
                wrong.append(now)  # noqa: B023
            policy.started |= set(waiting)
            return Decision(start=waiting, wake=now + 1)

        policy = Scripted(rule)
        policy.started = set()
        run = online.simulate(instance, policy)
        assert wrong == []
        assert run.start_rounds.tolist() == arrivals


def test_wake_is_kept_and_the_loop_asks_before_an_overflow() -> None:
    asked = []

    def rule(policy: Any, state: Any) -> Decision:
        asked.append(state.round_index)
        if state.round_index == 0:
            return Decision(start=[0, 1], wake=2)
        if state.free < 0:
            return Decision(evict=[1])
        if not state.running:
            return Decision(start=[1], wake=math.inf)
        return Decision(wake=math.inf)

    # Together 2 (1 + k) tokens in round k: 10 in round 4, so the epoch before it is 3.
    instance = Instance([Request(0, 1, 8), Request(0, 1, 8)], 9)
    run = online.simulate(instance, Scripted(rule))
    assert asked[:3] == [0, 2, 3]
    assert run.memory_profile().max() <= 9
    assert run.eviction_counts.tolist() == [0, 1]
    assert run.completion_rounds.tolist() == [8, 16]


TWO = Instance([Request(0, 1, 3, "first"), Request(0, 1, 3, "second")], 4)


@pytest.mark.parametrize("wake", [None, math.inf])
def test_a_policy_that_starts_nothing_is_stalled(wake: float | None) -> None:
    run = online.simulate(TWO, Scripted(lambda p, s: Decision(wake=wake)))
    assert run.status == "stalled"
    assert run.decisions == 1
    assert run.completion_rounds.tolist() == [-1, -1]
    assert np.isnan(run.completion_times).all()
    with pytest.raises(online.IncompleteRunError):
        _ = run.total_latency
    with pytest.raises(online.IncompleteRunError):
        _ = run.schedule


def start_and_evict(policy: Any, state: Any) -> Decision:
    """Runs one round, evicts, and so on: nothing ever completes."""
    if state.running:
        return Decision(evict=list(state.running))
    return Decision(start=[0], wake=state.round_index + 1)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("limit", [None, 50])
@pytest.mark.parametrize(
    "rule",
    [
        start_and_evict,
        # Holds what it started for ever.
        lambda p, s: Decision(start=[] if s.running else [0], hold=[0]),
        # Starts nothing and asks to be woken in the next round, for ever.
        lambda p, s: Decision(wake=s.round_index + 1),
    ],
    ids=["evict", "hold", "wake"],
)
def test_no_policy_can_hang_the_simulator(
    rule: Callable[[Any, Any], Decision], limit: int | None
) -> None:
    run = online.simulate(TWO, Scripted(rule), max_rounds=limit)
    assert run.status in ("livelock", "stalled", "round-limit")
    assert limit is None or run.rounds_run <= limit


def test_round_limit_cuts_a_run_where_it_says() -> None:
    instance = Instance([Request(0, 1, 10), Request(20, 1, 5)], 30)
    run = online.simulate(instance, "fcfs", max_rounds=7)
    assert run.status == "round-limit"
    assert run.rounds_run == 7
    assert run.completion_rounds.tolist() == [-1, -1]
    assert run.evictions == 0
    # Nothing runs in rounds 11 .. 20, so a limit of 12 leaves only the first.
    run = online.simulate(instance, "fcfs", max_rounds=12)
    assert run.status == "round-limit"
    assert run.completion_rounds.tolist() == [10, -1]
    assert run.rounds_run <= 12
    assert online.simulate(instance, "fcfs", max_rounds=25).status == "completed"

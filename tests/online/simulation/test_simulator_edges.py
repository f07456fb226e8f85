"""Every condition of the loop by a run that it alone decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from answering_source import Arrival, Observation
from scripted import Scripted, start_all

import online
from instances import Instance, Workload
from online import AffineTime, Decision, Policy
from online.simulation import loop

# What these conditions keep from happening is mostly a run without end.
pytestmark = pytest.mark.timeout(60)


class Listed:
    """Hands over what it is told to, in that order, at the first ``release`` from ``due`` on."""

    name = None
    adaptive = False
    memory_limit = 9

    def __init__(self, *batches: tuple[float, list[Arrival]]) -> None:
        self.batches = batches

    def reset(self, rng: np.random.Generator) -> None:
        self.left = list(self.batches)

    def next_arrival(self) -> float | None:
        return self.left[0][0] if self.left else None

    def release(self, now: float) -> Sequence[Arrival]:
        return self.left.pop(0)[1] if self.left and self.left[0][0] <= now else []

    def observe(self, observation: Observation) -> None:
        """Nothing."""


# --- memory and tokens -------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "token"), [("evict", np.nan), ("preempt", 1.0)])
def test_an_eviction_takes_the_first_token_back_and_a_preemption_does_not(
    how: str, token: float
) -> None:
    def rule(policy: Any, state: Any) -> Decision:
        if state.round_index == 0:
            return Decision(start=[0, 1], wake=2)
        return Decision(**{how: [0]}) if state.round_index == 2 else Decision()

    instance = Instance.from_arrays([1, 1], [5, 9], memory_limit=20)
    run = online.simulate(instance, Scripted(rule), max_rounds=4)
    assert run.eviction_counts.tolist() == [1, 0]
    np.testing.assert_array_equal(run.first_token_times, [token, 1.0])


# --- randomness --------------------------------------------------------------------------------


class Listening(Policy):
    """Starts everything; keeps what its stream said first."""

    name = "listening"
    randomized = True

    def reset(self, setup: Any) -> None:
        self.heard = setup.rng.random()

    def arrive(self, requests: Sequence[Any], state: Any) -> None:
        self.waiting = [q.index for q in requests]

    def decide(self, state: Any) -> Decision:
        return Decision(start=self.waiting)


@pytest.mark.parametrize(
    "use",
    [
        lambda rng: rng.random(),
        lambda rng: rng.shuffle([1, 2]),
        lambda rng: rng.spawn(1),
        lambda rng: rng.bit_generator.random_raw(),
        lambda rng: np.random.default_rng(rng).integers(9),
    ],
)
def test_only_a_policy_that_says_so_draws(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[Any], Any]
) -> None:
    instance = Instance.from_arrays([1], [2], memory_limit=9)

    def reset(self: Any, setup: Any) -> None:
        self.heard = repr(setup.rng)
        use(setup.rng)

    monkeypatch.setattr(Listening, "reset", reset)
    assert online.simulate(instance, Listening).status == "completed"
    monkeypatch.setattr(Listening, "randomized", False)
    with pytest.raises(online.PolicyError, match="'listening' draws .* randomized = True"):
        online.simulate(instance, Listening)


def test_source_predictions_and_policy_have_streams_of_their_own() -> None:
    """Pinned: runs of equal seeds must stay equal from version to version."""
    heard: dict[str, float] = {}

    class Source(Listed):
        def reset(self, rng: np.random.Generator) -> None:
            super().reset(rng)
            heard["source"] = rng.random()

    class Model:
        def predict(self, prompt: int, output: int, rng: np.random.Generator) -> online.Prediction:
            heard["predictions"] = rng.random()
            return online.Prediction(output, output, output)

    policy = Listening()
    source = Source((0, [Arrival(0, 1, 1)]))
    online.simulate(source, policy, seed=7, predictions=Model())
    streams = [np.random.default_rng([7, part]).random() for part in range(3)]
    assert [heard["source"], heard["predictions"], policy.heard] == streams
    assert len(set(streams)) == 3


# --- arrivals ----------------------------------------------------------------------------------


def test_equal_arrival_times_are_in_order() -> None:
    source = Listed((3, [Arrival(3, 1, 1), Arrival(3, 1, 1)]), (4, [Arrival(4, 1, 1)]))
    assert online.simulate(source, Scripted(start_all)).start_rounds.tolist() == [3, 3, 4]


def test_a_round_limit_keeps_what_comes_after_it_out() -> None:
    instance = Instance.from_arrays([1, 1], [2, 2], [0, 9], memory_limit=9)
    policy = Scripted(start_all)
    run = online.simulate(instance, policy, max_rounds=5)
    assert run.status == "round-limit"
    assert len(policy.seen) == 1
    # Up to the limit, and no further, it may come.
    online.simulate(instance, policy, max_rounds=9)
    assert len(policy.seen) == 2


def test_a_round_limit_is_no_time_on_a_clock_of_seconds() -> None:
    """Three rounds of a second each, though the first begins after ten seconds of idling."""
    source = Workload([10.5], [1], [3], memory_limit=9, batch_time=AffineTime(1.0))
    run = online.simulate(source, Scripted(start_all), max_rounds=3)
    assert run.status == "completed"
    assert run.completion_times.tolist() == [13.5]


# --- allotments of prompts ---------------------------------------------------------------------


# --- waiting and waking ------------------------------------------------------------------------


@pytest.mark.parametrize("late", [0, 1, 5])
def test_a_wake_that_is_over_means_the_next_round(late: int) -> None:
    def rule(policy: Any, state: Any) -> Decision:
        now = state.round_index
        return Decision(start=[0]) if now == 8 else Decision(wake=now - late)

    policy = Scripted(rule)
    run = online.simulate(Instance.from_arrays([1], [1], memory_limit=2), policy)
    assert policy.asked == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert run.start_rounds.tolist() == [8]


@pytest.mark.parametrize(("wake", "asked"), [(9, [0, 4]), (3, [0, 3, 4]), (4, [0, 4])])
def test_an_idle_machine_asks_at_the_wake_or_the_arrival_whichever_is_first(
    wake: int, asked: list[int]
) -> None:
    def rule(policy: Any, state: Any) -> Decision:
        if len(policy.waiting) == 2:
            return start_all(policy, state)
        return Decision(wake=wake if state.round_index < 3 else math.inf)

    policy = Scripted(rule)
    instance = Instance.from_arrays([1, 1], [1, 1], [0, 4], memory_limit=9)
    run = online.simulate(instance, policy)
    assert policy.asked == asked
    assert run.start_rounds.tolist() == [4, 4]


class Draining(Scripted):
    """Counts how often it is told that nothing more will come."""

    def __init__(self, rule: Callable[[Any, Any], Decision], *, agree: bool) -> None:
        super().__init__(rule)
        self.agree = agree

    def reset(self, setup: Any) -> None:
        super().reset(setup)
        self.drained: list[int] = []

    def drain(self, state: Any) -> bool:
        self.drained.append(state.round_index)
        return self.agree


ONE = Instance.from_arrays([1], [2], memory_limit=9)


@pytest.mark.parametrize(("agree", "drained_in", "decisions"), [(True, 0, 2), (False, None, 1)])
def test_a_policy_is_drained_once(agree: bool, drained_in: int | None, decisions: int) -> None:
    policy = Draining(lambda p, s: Decision(wake=math.inf), agree=agree)
    run = online.simulate(ONE, policy)
    assert (run.status, run.drain_round, run.decisions) == ("stalled", drained_in, decisions)
    assert policy.drained == [0]


def test_a_policy_that_wants_to_be_woken_is_not_drained() -> None:
    def rule(policy: Any, state: Any) -> Decision:
        return Decision(start=[0]) if state.round_index == 3 else Decision(wake=3)

    policy = Draining(rule, agree=True)
    run = online.simulate(ONE, policy)
    assert (run.status, run.drain_round, policy.drained) == ("completed", None, [])


@pytest.mark.parametrize("how", ["evict", "preempt"])
def test_a_policy_that_empties_the_machine_is_asked_again_before_it_is_drained(how: str) -> None:
    def rule(policy: Any, state: Any) -> Decision:
        if state.round_index == 1 and 0 in state.running:
            return Decision(**{how: [0]})
        return Decision(start=list(policy.waiting), wake=state.round_index + 1)

    policy = Draining(rule, agree=True)
    run = online.simulate(ONE, policy)
    assert policy.asked[:3] == [0, 1, 1]
    assert (run.drain_round, policy.drained) == (None, [])


# --- loops of evictions ------------------------------------------------------------------------


def evict_until(done: Callable[[Any], bool]) -> Callable[[Any, Any], Decision]:
    """Runs request 0 a round at a time and evicts it, over and over until ``done``."""

    def rule(policy: Any, state: Any) -> Decision:
        if done(state):
            return Decision(start=list(policy.waiting))
        if state.running:
            return Decision(evict=[0])
        return Decision(start=[0], wake=state.round_index + 1)

    return rule


THREE_ROUNDS = Instance.from_arrays([1], [3], memory_limit=9)


def test_a_batch_that_comes_back_too_often_is_a_loop() -> None:
    run = online.simulate(THREE_ROUNDS, Scripted(evict_until(lambda state: False)))
    assert (run.status, run.evictions) == ("livelock", loop.FRUITLESS_RETURNS + 2)


def test_a_batch_that_comes_back_is_no_loop_if_requests_get_further() -> None:
    """Each of 200 attempts runs a round longer than the one before."""

    def rule(policy: Any, state: Any) -> Decision:
        running = state.running.get(0)
        if running is None:
            return Decision(start=[0], wake=state.round_index + 1)
        policy.longest = getattr(policy, "longest", 0)
        if running.output_tokens <= policy.longest:
            return Decision(wake=state.round_index + 1)
        policy.longest += 1
        return Decision(evict=[0], wake=math.inf)

    run = online.simulate(Instance.from_arrays([1], [200], memory_limit=201), Scripted(rule))
    assert (run.status, run.evictions) == ("completed", 199)


def test_a_batch_that_comes_back_is_no_loop_before_the_last_arrival() -> None:
    def rule(policy: Any, state: Any) -> Decision:
        if 1 in policy.waiting or 1 in state.running or policy.last == "completed":
            return start_all(policy, state)
        return evict_until(lambda state: False)(policy, state)

    instance = Instance.from_arrays([1, 1], [3, 1], [0, 6], memory_limit=9)
    run = online.simulate(instance, Scripted(rule))
    assert (run.status, run.evictions) == ("completed", 5)


def test_a_batch_that_comes_back_is_no_loop_while_the_queue_gains_tokens() -> None:
    def rule(policy: Any, state: Any) -> Decision:
        if state.running:
            return Decision(preempt=[0])
        return Decision(start=[0], wake=state.round_index + 1)

    run = online.simulate(THREE_ROUNDS, Scripted(rule))
    assert (run.status, run.evictions) == ("completed", 2)
    assert run.attempts.tokens_kept.tolist() == [0, 1, 2]

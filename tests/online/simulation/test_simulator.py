"""The loop: order of events, epochs, waiting, and policies that misbehave."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from answering_source import Arrival, Observation
from scripted import Scripted, again, start_all

import online
from instances import Instance, InvalidValueError, Request, Workload
from online import AffineTime, Decision, Policy

# What these conditions keep from happening is mostly a run without end.
pytestmark = pytest.mark.timeout(60)

ONE = Instance.from_arrays([1], [2], memory_limit=9)


# --- the order of events -----------------------------------------------------------------------


class Diary(Scripted):
    """Notes every call."""

    def reset(self, setup: Any) -> None:
        super().reset(setup)
        self.diary: list[Any] = []

    def arrive(self, requests: Sequence[Any], state: Any) -> None:
        super().arrive(requests, state)
        self.diary.append((state.round_index, "arrive", [q.id for q in requests]))

    def complete(self, requests: Sequence[Any], state: Any) -> None:
        names = [q.id for q in requests]
        self.diary.append((state.round_index, "complete", names, state.memory, len(state.running)))

    def decide(self, state: Any) -> Decision:
        self.diary.append((state.round_index, "decide"))
        return super().decide(state)


def test_completions_then_arrivals_then_decision() -> None:
    # "b" arrives in the round in which "a" completes, and takes exactly the memory it releases.
    policy = Diary(start_all)
    run = online.simulate(Instance([Request(0, 3, 4, "a"), Request(4, 6, 1, "b")], 7), policy)
    at_four = [entry[1:] for entry in policy.diary if entry[0] == 4]
    assert at_four == [("complete", ["a"], 0, 0), ("arrive", ["b"]), ("decide",)]
    assert run.start_rounds.tolist() == [0, 4]
    assert run.completion_rounds.tolist() == [4, 5]


def test_idle_rounds_pass_without_decisions() -> None:
    instance = Instance([Request(2, 1, 1, "a"), Request(10**9, 1, 2, "b")], 4)
    run = online.simulate(instance, "mc-sf")
    assert run.start_rounds.tolist() == [2, 10**9]
    assert run.total_latency == 3
    assert run.decisions <= 4
    with pytest.raises(InvalidValueError, match="above 200000000 rounds"):
        run.memory_profile()


def test_wake_is_kept_and_the_loop_asks_before_an_overflow() -> None:
    def rule(policy: Any, state: Any) -> Decision:
        if state.round_index == 0:
            return Decision(start=[0, 1], wake=2)
        if state.free < 0:
            return Decision(evict=[1])
        return Decision(start=[] if state.running else [1], wake=math.inf)

    # Together 2 (1 + k) tokens in round k: 10 in round 4, so the epoch before it is 3.
    policy = Scripted(rule)
    run = online.simulate(Instance([Request(0, 1, 8), Request(0, 1, 8)], 9), policy)
    assert policy.asked[:3] == [0, 2, 3]
    assert run.memory_profile().max() <= 9
    assert run.eviction_counts.tolist() == [0, 1]
    assert run.completion_rounds.tolist() == [8, 16]


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


# --- limits of a run ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "rounds", "ends"),
    [(7, 7, [-1, -1]), (12, 10, [10, -1]), (20, 10, [10, -1]), (25, 25, [10, 25])],
)
def test_round_limit_cuts_a_run_where_it_says(limit: int, rounds: int, ends: list[int]) -> None:
    # Nothing runs in rounds 11 .. 20, so a limit of 12 leaves only the first.
    instance = Instance([Request(0, 1, 10), Request(20, 1, 5)], 30)
    policy = Scripted(start_all)
    run = online.simulate(instance, policy, max_rounds=limit)
    assert run.status == ("completed" if limit == 25 else "round-limit")
    assert (run.rounds_run, run.completion_rounds.tolist()) == (rounds, ends)
    # Up to the limit, and no further, requests may come.
    assert len(policy.seen) == 1 + (limit >= 20)


def test_a_round_limit_is_no_time_on_a_clock_of_seconds() -> None:
    """Three rounds of a second each, though the first begins after ten seconds of idling."""
    source = Workload([10.5], [1], [3], memory_limit=9, batch_time=AffineTime(1.0))
    run = online.simulate(source, Scripted(start_all), max_rounds=3)
    assert (run.status, run.completion_times.tolist()) == ("completed", [13.5])


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
    """Notes when it is asked whether to drain, and agrees."""

    agrees = True

    def reset(self, setup: Any) -> None:
        super().reset(setup)
        self.drained: list[int] = []

    def drain(self, state: Any) -> bool:
        self.drained.append(state.round_index)
        return self.agrees


@pytest.mark.parametrize(("agrees", "drained_in", "decisions"), [(True, 0, 2), (False, None, 1)])
def test_a_policy_is_drained_once(agrees: bool, drained_in: int | None, decisions: int) -> None:
    policy = Draining(lambda p, s: Decision(wake=math.inf))
    policy.agrees = agrees
    run = online.simulate(ONE, policy)
    assert (run.status, run.drain_round, run.decisions) == ("stalled", drained_in, decisions)
    assert policy.drained == [0]


def test_a_policy_that_wants_to_be_woken_is_not_drained() -> None:
    policy = Draining(lambda p, s: Decision(start=[0] if s.round_index == 3 else [], wake=3))
    run = online.simulate(ONE, policy)
    assert (run.status, run.drain_round, policy.drained) == ("completed", None, [])


@pytest.mark.parametrize("how", ["evict", "preempt"])
def test_a_policy_that_empties_the_machine_is_asked_again_before_it_is_drained(how: str) -> None:
    def rule(policy: Any, state: Any) -> Decision:
        if state.round_index == 1 and 0 in state.running:
            return Decision(**{how: [0]})
        return again(state, start=list(policy.waiting))

    policy = Draining(rule)
    run = online.simulate(ONE, policy)
    assert policy.asked[:3] == [0, 1, 1]
    assert (run.drain_round, policy.drained) == (None, [])


# --- sources and randomness --------------------------------------------------------------------


class Listed:
    """Hands over each list of requests at the first ``release`` from its time on."""

    name = None
    adaptive = False
    memory_limit = 9

    def __init__(self, *batches: tuple[float, list[Arrival]]) -> None:
        self.batches = batches

    def reset(self, rng: np.random.Generator) -> None:
        self.left, self.heard = list(self.batches), rng.random()

    def next_arrival(self) -> float | None:
        return self.left[0][0] if self.left else None

    def release(self, now: float) -> Sequence[Arrival]:
        return self.left.pop(0)[1] if self.left and self.left[0][0] <= now else []

    def observe(self, observation: Observation) -> None:
        """Nothing."""


def test_equal_arrival_times_are_in_order() -> None:
    source = Listed((3, [Arrival(3, 1, 1), Arrival(3, 1, 1)]), (4, [Arrival(4, 1, 1)]))
    assert online.simulate(source, Scripted(start_all)).start_rounds.tolist() == [3, 3, 4]


@pytest.mark.parametrize(
    ("batches", "reason"),
    [
        ([], "is empty: the source released none"),
        ([(1, [Arrival(0.5, 1, 1)])], "arrival time = 0.5 is not a whole number of rounds"),
    ],
)
def test_a_source_in_rounds_releases_requests_at_whole_rounds(batches: Any, reason: str) -> None:
    with pytest.raises(InvalidValueError, match=reason):
        online.simulate(Listed(*batches), "fcfs")


class Listening(Policy):
    """Starts everything; keeps what its stream said first."""

    name = "listening"
    randomized = True

    def reset(self, setup: Any) -> None:
        self.heard = setup.rng.random()

    def decide(self, state: Any) -> Decision:
        return Decision(start=list(state.waiting))


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
    monkeypatch.setattr(Listening, "reset", lambda self, setup: (repr(setup.rng), use(setup.rng)))
    assert online.simulate(ONE, Listening).status == "completed"
    monkeypatch.setattr(Listening, "randomized", False)
    with pytest.raises(online.PolicyError, match="'listening' draws .* randomized = True"):
        online.simulate(ONE, Listening)


def test_source_predictions_and_policy_have_streams_of_their_own() -> None:
    """Pinned: runs of equal seeds must stay equal from version to version."""
    heard = []

    class Model:
        def predict(self, prompt: int, output: int, rng: np.random.Generator) -> online.Prediction:
            heard.append(rng.random())
            return online.Prediction(output, output, output)

    source, policy = Listed((0, [Arrival(0, 1, 1)])), Listening()
    online.simulate(source, policy, seed=7, predictions=Model())
    streams = [np.random.default_rng([7, part]).random() for part in range(3)]
    assert [source.heard, *heard, policy.heard] == streams

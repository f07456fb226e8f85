"""Sources that answer the policy; what was released is what the run reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from answering_source import Arrival, Grudge, Observation
from brute_force import is_feasible_by_definition, memory_by_definition
from scripted import Scripted

import hindsight
import online


class Reactive(Grudge):
    """Releases up to 4 requests ``gap`` rounds after one has started or completed."""

    memory_limit = 12

    def __init__(self, react_to: str, gap: int, rounds: int = 4) -> None:
        super().__init__(gap)
        self.react_to, self.rounds = react_to, rounds

    def reset(self, rng: np.random.Generator) -> None:
        self._queue = [Arrival(0, 2, 3)]
        self.left = self.rounds
        self.heard: list[Observation] = []
        self.released: list[Arrival] = []

    def release(self, now: float) -> Sequence[Arrival]:
        out = super().release(now)
        self.released.extend(out)
        return out

    def observe(self, observation: Observation) -> None:
        self.heard.append(observation)
        if getattr(observation, self.react_to) and self.left:
            self.left -= 1
            size = 1 + self.left % 3
            self._queue.append(Arrival(observation.time + self.gap, size, 2 + size))
            self._queue.sort(key=lambda arrival: arrival.time)


@pytest.mark.parametrize("policy", ["mc-sf", "fcfs"])
@pytest.mark.parametrize("delay", [0, 1, 2, 9])
@pytest.mark.parametrize("react_to", ["started", "completed"])
def test_reactions_are_served_and_realised(react_to: str, delay: int, policy: str) -> None:
    source = Reactive(react_to, delay)
    run = online.simulate(source, policy)
    assert run.status == "completed"
    assert source.left == 0, "the source was not told of every event"
    assert len(source.released) == 5
    assert run.instance.memory_limit == 12
    assert [(q.arrival_time, q.prompt_length, q.output_length) for q in run.instance] == [
        (a.time, a.prompt_length, a.output_length) for a in source.released
    ]
    starts = run.start_rounds.tolist()
    assert is_feasible_by_definition(run.instance, starts)
    assert run.memory_profile().tolist() == memory_by_definition(run.instance, starts)
    # What it heard is what happened, each event once.
    heard_starts = [(i, o.round_index) for o in source.heard for i in o.started]
    assert sorted(heard_starts) == [(i, starts[i]) for i in range(5)]
    heard_ends = [(i, o.round_index) for o in source.heard for i in o.completed]
    if react_to == "completed":
        assert sorted(heard_ends) == [(i, int(c)) for i, c in enumerate(run.completion_rounds)]
    times = [o.time for o in source.heard]
    assert times == sorted(times)
    # The realised instance, replayed, gives the policy the same run, as nothing was foretold.
    # (An answer with delay 0 appears after the decision of its round: not replayable.)
    if delay:
        again = online.simulate(run.instance, policy)
        assert again.start_rounds.tolist() == starts
    optimum = hindsight.solve(run.instance, threads=1, time_limit=60)
    assert online.ratio(run, optimum).lower >= 1


class WhenIdle(Reactive):
    """Releases when it sees that nothing was started though something waits."""

    def observe(self, observation: Observation) -> None:
        self.heard.append(observation)
        if not observation.started and self.left:
            self.left = 0
            self._queue.append(Arrival(observation.time + 2, 1, 2))


def start_pairs(policy: Any, state: Any) -> online.Decision:
    """Start nothing before two requests wait."""
    return online.Decision(start=policy.waiting if len(policy.waiting) > 1 else [])


def test_a_release_triggered_while_nothing_runs() -> None:
    run = online.simulate(WhenIdle("started", 0), Scripted(start_pairs))
    assert run.status == "completed"
    assert run.start_rounds.tolist() == [2, 2]


def test_an_answer_to_the_last_completion_is_not_cut_off_by_a_round_limit() -> None:
    # Request 0 completes at round 3 and is answered at round 3: at a limit of 3, work remains.
    run = online.simulate(Reactive("completed", 0, rounds=1), "fcfs", max_rounds=3)
    assert run.status == "round-limit"

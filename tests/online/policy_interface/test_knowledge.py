"""A policy sees what its knowledge model tells, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import online
from instances import Instance, InvalidValueError, Request
from online import Decision, KnowledgeError, Policy, Prediction


class Interval:
    """The same interval whatever the truth."""

    def predict(
        self, prompt_length: int, output_length: int, rng: np.random.Generator
    ) -> Prediction:
        return Prediction(1, 10, 20)


def reachable(root: Any, depth: int = 6) -> list[Any]:
    """Everything attributes, slots, mappings and sequences lead to."""
    found: list[Any] = []
    seen: set[int] = set()

    def visit(thing: Any, left: int) -> None:
        if id(thing) in seen or left == 0 or isinstance(thing, (type, str)) or callable(thing):
            return
        seen.add(id(thing))
        found.append(thing)
        if isinstance(thing, dict):
            for key, value in thing.items():
                visit(key, left - 1)
                visit(value, left - 1)
        elif isinstance(thing, (list, tuple, set, frozenset)):
            for value in thing:
                visit(value, left - 1)
        elif isinstance(thing, np.random.Generator):
            return
        else:
            for name in dir(thing):
                if name.startswith("__"):
                    continue
                try:
                    visit(getattr(thing, name), left - 1)
                except (KnowledgeError, InvalidValueError):
                    continue

    visit(root, depth)
    return found


class Spy(Policy):
    """One after the other; collects every number it can lay hands on."""

    name = "spy"

    def reset(self, setup: Any) -> None:
        self.loot: list[Any] = reachable(setup)
        self.waiting: list[int] = []

    def arrive(self, requests: Sequence[Any], state: Any) -> None:
        self.loot += reachable(list(requests)) + reachable(state)
        self.waiting.extend(q.index for q in requests)
        self.requests = list(requests)

    def decide(self, state: Any) -> Decision:
        self.loot += reachable(state)
        if state.running:
            return Decision()
        return Decision(start=[self.waiting.pop(0)])


def test_nothing_within_reach_tells_the_output_length() -> None:
    # Lengths that cannot come about otherwise: not sums of prompts, rounds or limits.
    secrets = {7919, 6841}
    instance = Instance([Request(0, 3, 7919), Request(0, 4, 6841)], 50_021)

    class Peek(Spy):
        def decide(self, state: Any) -> Decision:
            decision = super().decide(state)
            if state.round_index > 0:
                # After a completion the length is no secret any more.
                self.loot.clear()
            return decision

    policy = Peek()
    collected: list[Any] = []
    original = policy.decide

    def decide(state: Any) -> Decision:
        decision = original(state)
        if state.round_index == 0:
            collected.extend(policy.loot)
        return decision

    policy.decide = decide  # type: ignore[method-assign]
    run = online.simulate(instance, policy, predictions=Interval())
    assert run.status == "completed"
    numbers = {x for x in collected if isinstance(x, (int, float, np.integer))}
    assert {3, 4, 50_021, 10, 20} <= numbers, "the spy is blind"
    assert not numbers & secrets
    assert not numbers & {3 + 7919, 4 + 6841}
    assert not any(isinstance(x, (Instance, Request)) for x in collected)


def test_a_policy_cannot_write_to_the_machine() -> None:
    """State is documented as read-only: a policy that zeroes the memory must not get away."""

    class Cheat(Spy):
        def decide(self, state: Any) -> Decision:
            state.memory = 0
            started, self.waiting = self.waiting, []
            return Decision(start=started)

    instance = Instance.from_arrays([4, 4, 4], [3, 3, 3], [0, 1, 2], memory_limit=10)
    with pytest.raises((AttributeError, TypeError, RuntimeError)):
        _ = online.simulate(instance, Cheat()).memory_profile()

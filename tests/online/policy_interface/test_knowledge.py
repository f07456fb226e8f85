"""A policy sees what its knowledge model tells, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import online
from instances import Instance, InvalidValueError, Request
from online import Decision, KnowledgeError, Policy, Prediction


class Interval:
    """The same interval whatever the truth."""

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        return Prediction(1, 10, 20)


def reachable(root: Any, depth: int = 6) -> list[Any]:
    """Everything attributes, slots, mappings and sequences lead to."""
    found: dict[int, Any] = {}

    def visit(thing: Any, left: int) -> None:
        hidden = isinstance(thing, type | str | np.random.Generator) or callable(thing)
        if id(thing) in found or left == 0 or hidden:
            return
        found[id(thing)] = thing
        if isinstance(thing, Mapping):
            parts = [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | tuple | set | frozenset):
            parts = [*thing]
        else:
            parts = []
            for name in dir(thing):
                try:
                    parts += [] if name.startswith("__") else [getattr(thing, name)]
                except (KnowledgeError, InvalidValueError):
                    continue
        for part in parts:
            visit(part, left - 1)

    visit(root, depth)
    return [*found.values()]


class Spy(Policy):
    """One after the other; collects every number it can lay hands on before the first decision."""

    def reset(self, setup: Any) -> None:
        self.loot = reachable(setup)

    def arrive(self, requests: Any, state: Any) -> None:
        self.loot += reachable([requests, state])

    def decide(self, state: Any) -> Decision:
        if state.round_index == 0:
            self.loot += reachable(state)
        return Decision() if state.running else Decision(start=[next(iter(state.waiting))])


def test_nothing_within_reach_tells_the_output_length() -> None:
    # Lengths that cannot come about otherwise: not sums of prompts, rounds or limits.
    secrets = {7919, 6841}
    instance = Instance([Request(0, 3, 7919), Request(0, 4, 6841)], 50_021)
    policy = Spy()
    assert online.simulate(instance, policy, predictions=Interval()).status == "completed"
    numbers = {x for x in policy.loot if isinstance(x, int | float | np.integer)}
    assert {3, 4, 50_021, 10, 20} <= numbers, "the spy is blind"
    assert not numbers & (secrets | {3 + 7919, 4 + 6841})
    assert not any(isinstance(x, Instance | Request) for x in policy.loot)


def test_a_policy_cannot_write_to_the_machine() -> None:
    """State is documented as read-only: a policy that zeroes the memory must not get away."""

    class Cheat(Policy):
        def decide(self, state: Any) -> Decision:
            state.memory = 0
            return Decision(start=[*state.waiting])

    instance = Instance.from_arrays([4, 4, 4], [3, 3, 3], [0, 1, 2], memory_limit=10)
    with pytest.raises((AttributeError, TypeError, RuntimeError)):
        _ = online.simulate(instance, Cheat()).memory_profile()

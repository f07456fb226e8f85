"""A policy that decides by a function, for tests of what runs policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from online import Decision, Policy

Rule = Callable[[Any, Any], Decision]


class Scripted(Policy):
    """Decides by a function of (policy, state); notes the rounds in which it is asked."""

    name = "scripted"

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def reset(self, setup: Any) -> None:
        self.asked: list[int] = []
        self.seen: list[Any] = []
        self.waiting: list[int] = []
        self.last = ""

    def arrive(self, requests: Sequence[Any], state: Any) -> None:
        self.seen += requests
        self.waiting += [request.index for request in requests]

    def complete(self, requests: Sequence[Any], state: Any) -> None:
        self.last = "completed"

    def decide(self, state: Any) -> Decision:
        self.asked.append(state.round_index)
        decision = self.rule(self, state)
        self.waiting = [i for i in self.waiting if i not in decision.start]
        if decision.evict:
            self.last = "evicted"
        return decision


def hold_after_the_first_token(policy: Any, state: Any) -> Decision:
    """Start the first, then hold it for three rounds."""
    if 1 <= state.round_index < 4:
        return Decision(hold=[0], wake=state.round_index + 1)
    return Decision(start=list(policy.waiting), wake=1)


def start_all(policy: Any, state: Any) -> Decision:
    """Start whatever waits."""
    return Decision(start=list(policy.waiting))


def again(state: Any, **actions: Any) -> Decision:
    """Decide, and ask in the next round."""
    return Decision(wake=state.round_index + 1, **actions)

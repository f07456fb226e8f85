"""A policy that preempts and keeps tokens, and an instance on which that is better than not to."""

from __future__ import annotations

from collections.abc import Sequence

from instances import Instance
from online import Decision, Policy
from online.policy_interface import Setup, State, VisibleRequest

ELEVEN = Instance.from_arrays(
    [1] + [57] * 10, [62] + [1] * 10, [0, *range(10, 101, 10)], memory_limit=64, name="eleven"
)
"""The long request alone takes 62 rounds, and six short ones cost it one each: 62 + 6 + 10 = 78."""


class Yielding(Policy):
    """One request at a time, the longest prompt first; what runs gives way and keeps its tokens."""

    name = "yielding"

    def reset(self, setup: Setup) -> None:
        """An empty queue."""
        self.queue: list[VisibleRequest] = []

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Join the queue."""
        self.queue += requests

    def decide(self, state: State) -> Decision:
        """The longest prompt, unless what runs has one as long."""
        if not self.queue:
            return Decision()
        best = max(self.queue, key=lambda request: request.prompt_length)
        running = state.running.values()
        if any(one.request.prompt_length >= best.prompt_length for one in running):
            return Decision()
        self.queue.remove(best)
        return Decision(start=[best.index], preempt=list(state.running))

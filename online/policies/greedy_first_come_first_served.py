"""First come, first served without look-ahead ([A25] Proposition 3, Example 2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from online.last_admitted import last_admitted
from online.policy import Decision, Policy, Setup, State, VisibleRequest


class GreedyFirstComeFirstServed(Policy):
    """Start in order of arrival whatever fits into the next round, blind to later growth.

    The baseline of [A25]: running requests come first; where they alone no longer fit, those
    admitted last are evicted, lose everything and queue behind all that wait. At C = M* it loses a
    constant share of the throughput ([A25] Prop. 3): see docs/fluid.md. It knows no output lengths.
    """

    name = "fcfs-greedy"

    def reset(self, setup: Setup) -> None:
        """An empty queue."""
        self._model = setup.service_model
        self._queue: deque[VisibleRequest] = deque()

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Join the end of the queue, evicted ones too."""
        self._queue.extend(requests)

    def decide(self, state: State) -> Decision:
        """Evict what the next round cannot hold, or start what it can."""
        room = state.memory_limit - state.next_round_memory
        if room < 0:
            return Decision(evict=last_admitted(state, self._model, -room))
        start = []
        while self._queue:
            room -= self._model.base(self._queue[0].prompt_length) + 1
            if room < 0:
                break
            start.append(self._queue.popleft().index)
        return Decision(start=start)

"""Greedy first come, first served: what fits now is admitted, the latest is evicted ([A25])."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.token_count import TokenCount


@register_policy("fcfs-greedy")
class GreedyFirstComeFirstServed(Policy):
    """First come, first served, looking no further than the next round ([A25] Example 2).

    Admits in order of arrival while the next round fits; when the next round of what runs already
    would overflow, evicts the latest admitted until it fits, all progress lost, and an evicted
    request queues as if it had just arrived. Output lengths are never looked at.

    No guarantee beyond progress (the earliest admitted is never evicted): at the equilibrium
    memory it evicts for ever ([A25] Proposition 3). On Example 2 under backlog, y decodes are
    followed by 12 - 2 y, so 3, 6, 0, 6, 0, ..: three completions an iteration where four arrive.

    What the paper leaves open: equal arrivals, and requests evicted together, queue in order of
    appearance; what was evicted does not come back in the same round.

    Cost per decision: O(log w) a request started or evicted, for w waiting.
    """

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        self.count = self._tokens = TokenCount(setup)
        self._queue: list[tuple[float, int]] = []
        self._seen = -1

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue by arrival, evicted ones by the time they come back."""
        for request in requests:
            is_new = request.index > self._seen
            self._seen = max(self._seen, request.index)
            time = request.arrival_time if is_new else state.time
            heapq.heappush(self._queue, (time, request.index))

    def decide(self, state: State) -> Decision:
        """Evict from the latest on until the next round fits, then admit what still fits."""
        tokens = self._tokens
        excess = tokens.excess(state)
        evicted = tokens.last_admitted(state, excess)
        excess -= sum(tokens.held(state.running[index]) + 1 for index in evicted)
        started: list[int] = []
        while self._queue:
            excess += tokens.base(state.waiting[self._queue[0][1]].prompt_length) + 1
            if excess > 0:
                break
            started.append(heapq.heappop(self._queue)[1])
        return Decision(start=started, evict=evicted, wake=math.inf)

"""Greedy first come, first served: admission looks only at the next round ([A25])."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.token_count import TokenCount


@register_policy("fcfs-greedy")
class GreedyFirstComeFirstServed(Policy):
    """First come, first served, planned for the next round only ([A25] Example 2).

    Requests are admitted in order of arrival as long as the next round stays within the memory M.
    If the running requests alone would exceed M in the next round, the policy evicts the one
    admitted last, then the one before it, until they fit. An evicted request loses all its progress
    and queues as if it had just arrived. Output lengths are never used.

    The only guarantee is progress: the request admitted first is never evicted. If M is just the
    memory of the fluid equilibrium, evictions never end ([A25] Proposition 3). In Example 2 with a
    queue that never empties, the iterations have 3, 6, 0, 6, 0, ... decodes. So 3 requests complete
    per iteration on average, while 4 arrive.

    The paper leaves ties open. Here requests that arrive together, or are evicted together, queue
    in order of appearance. An evicted request does not start again in the round of its eviction.

    Cost per decision: O(log w) for each request started or evicted, if w requests wait.
    """

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue of waiting requests for a new run."""
        self.count = self._tokens = TokenCount(setup)
        self._queue: list[tuple[float, int]] = []
        self._seen = -1

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Put new requests into the queue by arrival time, and evicted ones by the present time."""
        for request in requests:
            is_new = request.index > self._seen
            self._seen = max(self._seen, request.index)
            time = request.arrival_time if is_new else state.time
            heapq.heappush(self._queue, (time, request.index))

    def decide(self, state: State) -> Decision:
        """Evict the requests admitted last until the next round fits, then admit waiting ones."""
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

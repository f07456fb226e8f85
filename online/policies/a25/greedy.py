"""Greedy first come, first served: what fits now is admitted, the latest is evicted ([A25])."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence

from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.eviction import held_tokens, last_admitted


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

    evicts = True

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        self._service = setup.service_model
        self._queue: list[tuple[float, int]] = []
        self._first_round: dict[int, int] = {}

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue by arrival, evicted ones by the time they come back."""
        for request in requests:
            # A new request arrived before the epoch at which it is seen; an evicted one, just now.
            is_new = request.index not in self._first_round
            self._first_round[request.index] = self._service.base(request.prompt_length) + 1
            time = request.arrival_time if is_new else state.time
            heapq.heappush(self._queue, (time, request.index))

    def decide(self, state: State) -> Decision:
        """Evict from the latest on until the next round fits, then admit what still fits."""
        memory = state.next_round_memory
        evicted = last_admitted(state, self._service, memory - state.memory_limit)
        memory -= sum(held_tokens(state, self._service, index) + 1 for index in evicted)
        started: list[int] = []
        while self._queue and memory + self._first_round[self._queue[0][1]] <= state.memory_limit:
            index = heapq.heappop(self._queue)[1]
            memory += self._first_round[index]
            started.append(index)
        return Decision(start=started, evict=evicted)

    def memory_of_past(self) -> Hashable:
        """The order of the queue, which evictions change."""
        return tuple(index for _, index in sorted(self._queue))

"""Greedy admission below a protected share of memory, clearing on overflow ([J25] Section 5.2)."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from instances.validation import as_fraction, as_number
from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.token_count import TokenCount


@register_policy("alpha-protection")
class AlphaProtection(Policy):
    """First come, first served up to (1 - alpha) M; on overflow every request is sent back.

    Waiting requests are admitted in order of arrival, up to the first that does not fit. A request
    fits if the memory of the next round, its own s + 1 included, is at most (1 - alpha) M. Later
    rounds are not considered. If the next round would hold more than M, all running requests go
    back to the queue and lose their progress. Output lengths are never used.

    No guarantee. For small alpha the same batch may overflow again and again: such a run ends with
    status ``"livelock"``.

    The paper leaves some rules open. Here the requests sent back take their old places in order of
    arrival, and requests start again in the same round. On an empty machine the first request of
    the queue starts even if its s + 1 exceeds (1 - alpha) M: otherwise it could never run.

    Cost per decision: O(log w) for each request started or sent back, if w requests wait.

    Parameters
    ----------
    alpha : float, default 0.25
        Protected share of memory, in [0, 1).
    """

    def __init__(self, alpha: float = 0.25) -> None:
        # alpha is stored as an exact fraction. With alpha = 0.1 and M = 10, (1 - alpha) M is then 9
        # tokens, not 8.999...
        self._protected = as_fraction(alpha, "policy", "alpha", minimum=0, below=1)
        self.alpha = float(self._protected)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue and the threshold (1 - alpha) M for a new run."""
        self.count = self._tokens = TokenCount(setup)
        self._rng = setup.rng
        self._threshold = math.floor((1 - self._protected) * self._tokens.limit)
        self._queue: list[tuple[float, int]] = []

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue requests by arrival time, new ones and those sent back. Ties go by appearance."""
        for request in requests:
            heapq.heappush(self._queue, (request.arrival_time, request.index))

    def decide(self, state: State) -> Decision:
        """Send requests back if the next round would exceed M, else admit up to (1 - alpha) M."""
        excess = self._tokens.excess(state)
        if excess > 0:
            evicted = self.cleared(state)
            emptied = len(evicted) == len(state.running)
            return Decision(evict=evicted, wake=math.inf if emptied else state.round_index + 1)
        memory = self._tokens.limit + excess
        started: list[int] = []
        while self._queue:
            index = self._queue[0][1]
            empty = not state.running and not started
            memory += self._tokens.base(state.waiting[index].prompt_length) + 1
            if memory > self._threshold and not empty:
                break
            heapq.heappop(self._queue)
            started.append(index)
        return Decision(start=started, wake=math.inf)

    def cleared(self, state: State) -> list[int]:
        """Return the running requests to send back on overflow: all of them."""
        return list(state.running)


@register_policy("alpha-beta-clearing")
class AlphaBetaClearing(AlphaProtection):
    """`alpha-protection` in which an overflow sends back each request with probability beta.

    The draw is repeated over the remaining requests until the next round fits. For very small beta
    this takes many repetitions ([J25] Appendix C). The number of draws that a request survives is
    geometric, so the code draws all these numbers at once, and the cost does not depend on beta.

    No guarantee. A run in which no request completes any more ends with status ``"livelock"``.

    The paper leaves the restart open. Here the decision that sends requests back admits none, so
    that they do not return at once while others run. If all are sent back, the empty machine is
    asked again in the same round and starts requests, as with `alpha-protection`.

    Parameters
    ----------
    alpha : float, default 0.2
        Protected share of memory, in [0, 1).
    beta : float, default 0.1
        Probability that a draw sends a request back, in (0, 1].
    """

    randomized = True

    def __init__(self, alpha: float = 0.2, beta: float = 0.1) -> None:
        super().__init__(alpha)
        self.beta = as_number(beta, "policy", "beta", above=0, maximum=1)

    def cleared(self, state: State) -> list[int]:
        """Return the running requests that random draws send back until the others fit."""
        indices = list(state.running)
        draws = self._rng.geometric(self.beta, len(indices))
        excess = self._tokens.excess(state)
        evicted: list[int] = []
        last_draw = 0
        for position in sorted(range(len(indices)), key=lambda position: int(draws[position])):
            draw = int(draws[position])
            if excess <= 0 and draw > last_draw:
                break
            last_draw = draw
            index = indices[position]
            excess -= self._tokens.held(state.running[index]) + 1
            evicted.append(index)
        return evicted

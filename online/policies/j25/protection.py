"""Policies that leave a share of memory free, and send requests back on overflow ([J25])."""

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

    The rule is from [J25] Section 5.2. Waiting requests are admitted in order of arrival, up to the
    first that does not fit. A request with a prompt of s tokens fits if the memory of the next
    round, its own s + 1 tokens included, is at most (1 - alpha) M. Later rounds are not considered.
    If the next round would hold more than the memory M, all running requests go back to the queue
    and lose their progress. Output lengths are never used.

    No guarantee is known. For small alpha the same batch may overflow again and again. Such a run
    ends with status ``"livelock"``.

    The paper leaves some rules open. Here requests that are sent back take their old places in
    order of arrival, and requests may start in the round of the overflow. On an empty machine the
    first request of the queue starts even if its s + 1 tokens exceed (1 - alpha) M. Otherwise it
    could never run.

    Cost per decision: O(log w) for each request started or sent back, if w requests wait.

    Parameters
    ----------
    alpha : float, default 0.25
        Protected share of memory, in [0, 1).
    """

    def __init__(self, alpha: float = 0.25) -> None:
        # alpha is stored as an exact fraction. So for alpha = 0.1 and M = 10, (1 - alpha) M is
        # exactly 9 tokens.
        self._protected = as_fraction(alpha, "policy", "alpha", minimum=0, below=1)
        self.alpha = float(self._protected)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue and the threshold (1 - alpha) M for a new run."""
        self.count = self._tokens = TokenCount(setup)
        self._rng = setup.rng
        self._threshold = math.floor((1 - self._protected) * self._tokens.limit)
        self._queue: list[tuple[float, int]] = []

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue new requests and those sent back by arrival time, then by order of appearance."""
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
    this takes many repetitions ([J25] Appendix C). The number of draws that a request survives has
    a geometric distribution. So the code draws this number for all requests at once, and its cost
    does not depend on beta.

    No guarantee is known. A run in which no request completes any more ends with status
    ``"livelock"``.

    The paper does not say when requests that were sent back may start again. Here no request starts
    in a round that sends requests back, unless all running requests are sent back. In this case the
    policy decides again in the same round, on the empty machine, and starts requests as
    `alpha-protection` does.

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

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
    """First come, first served up to (1 - alpha) M; on overflow everything is cleared.

    A request joins the batch when the next round's memory, its own s + 1 included, stays within
    (1 - alpha) M; the scan stops at the first that does not fit. Nothing is looked ahead: when
    the next round would hold more than M, all active requests go back to the queue unprocessed.
    Output lengths are never looked at.

    No guarantee. For small alpha the same batch may overflow again and again: such a run ends
    with status ``"livelock"``.

    What the paper leaves open: cleared requests take their old places, in order of arrival, and the
    queue starts again in the round of the clearing; on an empty machine the head of the queue
    starts even where its prompt alone exceeds (1 - alpha) M, without which it could never run.

    Cost per decision: O(log w) a request started or cleared, for w waiting.

    Parameters
    ----------
    alpha : float, default 0.25
        Protected share of memory, in [0, 1).
    """

    def __init__(self, alpha: float = 0.25) -> None:
        # 0.1 is a tenth: (1 - 0.1) * 10 is 9 tokens, not 8.999...
        self._protected = as_fraction(alpha, "policy", "alpha", minimum=0, below=1)
        self.alpha = float(self._protected)

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue."""
        self.count = self._tokens = TokenCount(setup)
        self._rng = setup.rng
        self._threshold = math.floor((1 - self._protected) * self._tokens.limit)
        self._queue: list[tuple[float, int]] = []

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Queue by arrival; ties and cleared requests in order of appearance."""
        for request in requests:
            heapq.heappush(self._queue, (request.arrival_time, request.index))

    def decide(self, state: State) -> Decision:
        """Clear if the next round would overflow, else admit below the threshold."""
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
        """The running requests to send back: all."""
        return list(state.running)


@register_policy("alpha-beta-clearing")
class AlphaBetaClearing(AlphaProtection):
    """`alpha-protection` in which an overflow clears each request with probability beta.

    The draw is repeated over the survivors until the next round fits ([J25] Appendix C: for very
    small beta this takes many repetitions). A request then survives a geometric number of draws,
    so all of them are drawn at once; the cost does not depend on beta.

    No guarantee. A run in which nothing completes any more ends with status ``"livelock"``.

    What the paper leaves open: the decision that clears admits nobody, so that the cleared do not
    come straight back while others run. Where everybody is cleared, the emptied machine is asked
    again at the same epoch, and the queue starts in the same round, as with `alpha-protection`.

    Parameters
    ----------
    alpha : float, default 0.2
        Protected share of memory, in [0, 1).
    beta : float, default 0.1
        Probability of being cleared, in (0, 1].
    """

    randomized = True

    def __init__(self, alpha: float = 0.2, beta: float = 0.1) -> None:
        super().__init__(alpha)
        self.beta = as_number(beta, "policy", "beta", above=0, maximum=1)

    def cleared(self, state: State) -> list[int]:
        """The running requests to send back, a draw of which is repeated until it is enough."""
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

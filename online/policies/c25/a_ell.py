"""A_l, and a policy that uses A_l or A_min, for outputs of two lengths ([C25] Section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from instances.validation import as_number
from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.token_count import TokenCount

from .a_min import AMin

SWITCH_RATIO = (3 - math.sqrt(5)) / 2
"""alpha* = 0.382. If alpha = lower / upper is alpha*, A_min and A_l have the same proved ratio."""


@register_policy("a-ell")
class AEll(PriorityPolicy):
    """A_l: outputs planned by their lower bounds, longer ones evicted once ([C25] Algorithm 6).

    The prediction of an output length is an interval from a lower to an upper bound. Requests start
    first come, first served, and the look-ahead test of memory takes the lower bound as the output
    length. A request that has generated that many tokens and is not finished is evicted, and joins
    the end of the queue. From then on the look-ahead test takes its upper bound.

    Guarantee ([C25] Theorem 5.2): let alpha = lower / upper, let prompts be empty and every output
    length equal its lower or its upper bound. As memory grows, the total latency is then at most
    1 + alpha/(2 (1 - alpha)) times that of H-SF for alpha <= 1/2, and at most 1 + 2 alpha^2 times
    for alpha > 1/2. With prompts of length s > 0 the ratio may be larger: if all outputs equal
    their upper bounds, it tends to 1 + 2 alpha as s grows. For other output lengths the schedule is
    feasible, but no bound is known.

    The paper does not say when an evicted request may start again. Here it may start from the next
    round on, or in the same round if no other request runs. A request whose two bounds are equal is
    never evicted.
    """

    def reset(self, setup: Setup) -> None:
        """Prepare an empty queue. Every request is first planned by its lower bound."""
        super().reset(setup)
        self._promoted: set[int] = set()
        self._joined = 0

    def priority(self, request: VisibleRequest) -> int:
        """Return a number that increases with each request that joins the queue, new or evicted."""
        self._joined += 1
        return self._joined

    def expected_output(self, request: VisibleRequest) -> int:
        """Return the output length used for planning, tokens.

        It is the lower bound of the prediction, and after an eviction the upper bound.
        """
        if request.index in self._promoted:
            return request.prediction.upper
        return request.prediction.lower

    def sent_back(self, state: State) -> Iterable[int]:
        """Return the running requests to evict.

        They have just generated as many tokens as their lower bound and are not finished.
        """
        found = [index for index in self._overdue if index not in self._promoted]
        back = []
        for index in sorted(found, key=lambda index: (self._spans[index][0], index)):
            prediction = self._requests[index].prediction
            self._promoted.add(index)
            if not prediction.is_exact:
                back.append(index)
        return back

    def _wake(self, now: int, evicted: bool) -> float:
        return min(super()._wake(now, evicted), self._forecast.next_end() or math.inf)


@register_policy("two-point-switch")
class TwoPointSwitch(Policy):
    """A_l if alpha < alpha* = (3 - sqrt 5)/2, A_min otherwise ([C25] Section 5.1).

    alpha = lower / upper is the quotient of the ends of the interval of output lengths. Guarantee
    ([C25] Theorems 5.1, 5.2): let prompts be empty and every output length equal its lower or its
    upper bound. As memory grows, the total latency is then at most 1 + alpha/(2 (1 - alpha)) times
    that of H-SF for alpha < alpha*, and at most (3 - alpha)/2 times for alpha >= alpha*. Both
    factors are at most (3 + sqrt 5)/4, about 1.309. If prompts are not empty, the ratio may be
    larger.

    The paper does not say how the policy knows alpha. Here alpha is the smallest lower bound
    divided by the largest upper bound of the requests that arrive first. The choice of A_l or A_min
    then holds for the whole run.

    Parameters
    ----------
    threshold : float, default SWITCH_RATIO
        The value of alpha from which A_min is used, in [0, 1].
    """

    randomized = True

    def __init__(self, threshold: float = SWITCH_RATIO) -> None:
        self.threshold = as_number(threshold, "policy", "threshold", minimum=0, maximum=1)

    def reset(self, setup: Setup) -> None:
        """Prepare to choose A_l or A_min when the first requests arrive."""
        self._setup, self.count = setup, TokenCount(setup)
        self._chosen: PriorityPolicy | None = None

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Choose A_l or A_min when the first requests arrive. Pass all requests to it."""
        if self._chosen is None:
            lower = min(request.prediction.lower for request in requests)
            upper = max(request.prediction.upper for request in requests)
            self._chosen = AEll() if lower / upper < self.threshold else AMin()
            self._chosen.reset(self._setup)
        self._chosen.arrive(requests, state)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Pass the finished requests to the chosen policy, A_l or A_min."""
        assert self._chosen is not None
        self._chosen.complete(requests, state)

    def decide(self, state: State) -> Decision:
        """Return the decision of the chosen policy, A_l or A_min."""
        assert self._chosen is not None
        return self._chosen.decide(state)

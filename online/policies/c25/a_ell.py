"""A_l, and the switch between it and A_min, for two lengths ([C25] Section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from instances.validation import as_number
from online.policy_interface import Decision, Policy, Setup, State, VisibleRequest, register_policy
from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.token_count import TokenCount

from .a_min import AMin

SWITCH_RATIO = (3 - math.sqrt(5)) / 2
"""alpha*, where the bounds of [C25] Theorems 5.1 and 5.2 meet: about 0.382."""


@register_policy("a-ell")
class AEll(PriorityPolicy):
    """A_l: everything for its lower bound, the unfinished again at the end ([C25] Algorithm 6).

    First come, first served, each output taken for its lower bound. A request that has generated
    that many tokens and is not done is evicted, joins the end of the queue, and is from then on
    as long as its upper bound.

    Guarantee, where s = 0 and every output is either the lower or the upper bound, as M grows: at
    most 1 + alpha/(2 (1 - alpha)) times H-SF for alpha = lower / upper <= 1/2, and 1 + 2 alpha^2
    above ([C25] Theorem 5.2). With prompts it may be exceeded: the ratio tends to 1 + 2 alpha on
    outputs that are all upper, as s grows. For other outputs it is feasible but nothing is known.

    What the paper leaves open: an evicted request may start again from the next round on, in the
    same round only when nothing else is left to run. Requests whose bounds coincide are never
    evicted.
    """

    def reset(self, setup: Setup) -> None:
        """Forget who was promoted."""
        super().reset(setup)
        self._promoted: set[int] = set()
        self._joined = 0

    def priority(self, request: VisibleRequest) -> int:
        """Order of joining the queue."""
        self._joined += 1
        return self._joined

    def expected_output(self, request: VisibleRequest) -> int:
        """Lower bound at first, upper bound after the promotion."""
        if request.index in self._promoted:
            return request.prediction.upper
        return request.prediction.lower

    def sent_back(self, state: State) -> Iterable[int]:
        """Return the requests that outlived their lower bound."""
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
    """A_l where alpha < alpha* = (3 - sqrt 5)/2, A_min otherwise ([C25] Section 5.1).

    Guarantee, where s = 0 and every output is either the lower or the upper bound, as M grows: at
    most 1 + alpha/(2 (1 - alpha)) times H-SF below alpha*, (3 - alpha)/2 from there on: never more
    than (3 + sqrt 5)/4, about 1.309 ([C25] Theorems 5.1, 5.2). With prompts it may be exceeded.

    What the paper leaves open: alpha is the smallest lower bound over the largest upper bound
    among the requests that arrive first, and the choice holds for the run.

    Parameters
    ----------
    threshold : float, default SWITCH_RATIO
        The switch point, in [0, 1].
    """

    randomized = True

    def __init__(self, threshold: float = SWITCH_RATIO) -> None:
        self.threshold = as_number(threshold, "policy", "threshold", minimum=0, maximum=1)

    def reset(self, setup: Setup) -> None:
        """Wait for the first requests."""
        self._setup, self.count = setup, TokenCount(setup)
        self._chosen: PriorityPolicy | None = None

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Choose on the first arrival, then pass on."""
        if self._chosen is None:
            lower = min(request.prediction.lower for request in requests)
            upper = max(request.prediction.upper for request in requests)
            self._chosen = AEll() if lower / upper < self.threshold else AMin()
            self._chosen.reset(self._setup)
        self._chosen.arrive(requests, state)

    def complete(self, requests: Sequence[VisibleRequest], state: State) -> None:
        """Pass on."""
        assert self._chosen is not None
        self._chosen.complete(requests, state)

    def decide(self, state: State) -> Decision:
        """Pass on."""
        assert self._chosen is not None
        return self._chosen.decide(state)

"""MC-SF, memory-constrained shortest first ([J25] Algorithm 1)."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import VisibleRequest, register_policy


@register_policy("mc-sf")
class MemoryConstrainedShortestFirst(PriorityPolicy):
    """Shortest output first, up to the first request that does not fit ([J25] Algorithm 1).

    Guarantee ([J25] Theorem 4.3): the ratio to the optimum is bounded by a constant if prompts are
    equal, all requests arrive at once, and memory is at least twice the peak (prompt + output
    length) of every request. If the outputs are equal too, the ratio is at most 4. If prompts
    differ, it is unbounded ([W25] Theorem 1). The paper does not order requests with equal outputs.
    Here they start in order of appearance.
    """

    def priority(self, request: VisibleRequest) -> int:
        """Return the upper end of the predicted output length, tokens."""
        return request.prediction.upper

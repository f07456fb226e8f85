"""MC-SF, memory-constrained shortest first ([J25] Algorithm 1)."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import VisibleRequest, register_policy


@register_policy("mc-sf")
class MemoryConstrainedShortestFirst(PriorityPolicy):
    """Shortest output first, up to the first request that does not fit ([J25] Algorithm 1).

    Guarantee: O(1)-competitive when all requests arrive at once with equal prompts and M is at
    least twice the largest s + o; at most 4 when the outputs are equal too ([J25] Theorem 4.3).
    Unbounded when prompts vary ([W25] Theorem 1). The paper leaves ties open: equal output lengths
    go in order of appearance.
    """

    def priority(self, request: VisibleRequest) -> int:
        """Predicted output length."""
        return request.prediction.upper

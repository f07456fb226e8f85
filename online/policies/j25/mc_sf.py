"""MC-SF, memory-constrained shortest first ([J25] Algorithm 1)."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import VisibleRequest, register_policy


@register_policy("mc-sf")
class MemoryConstrainedShortestFirst(PriorityPolicy):
    """Shortest output first, up to the first request that does not fit ([J25] Algorithm 1).

    Guarantee, with equal prompts, all requests at once and M at least twice the largest s + o:
    O(1)-competitive. If the outputs are equal too, the ratio is at most 4 ([J25] Theorem 4.3). If
    prompts differ, the ratio is unbounded ([W25] Theorem 1). The paper leaves ties open: here equal
    output lengths go in order of appearance.
    """

    def priority(self, request: VisibleRequest) -> int:
        """Return the upper end of the predicted output length, tokens."""
        return request.prediction.upper

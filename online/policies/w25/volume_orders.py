"""Policies that order requests by prompt length s and output length o together.

The orders are by s + o, and by the volume s o + o (o + 1) / 2.
"""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import VisibleRequest, register_policy


@register_policy("mc-sf-total")
class TotalLengthFirst(PriorityPolicy):
    """Smallest s + o first, up to the first request that does not fit ([W25] EC.1, MC-SF2).

    s is the prompt length, o the output length. The ratio to the optimum is unbounded on the
    instances of [W25] Theorem EC.1. Ties go in order of appearance.
    """

    def priority(self, request: VisibleRequest) -> int:
        """Return the predicted peak memory s + o, tokens."""
        return request.prompt_length + request.prediction.upper


@register_policy("smallest-volume-first")
class SmallestVolumeFirst(PriorityPolicy):
    """Smallest volume s o + o (o + 1) / 2 first, up to the first request that does not fit.

    The volume is the memory of a request with prompt length s and output length o, summed over its
    rounds. A lower bound on the total latency, the volume bound, adds up volumes in this order
    ([J25] Equation (9)). On instances of mixed lengths this is by far the best simple rule. The
    abstract of arXiv:2606.22327 (version 1) claims that a rule of this name is at most 5 times the
    optimum. The proof is not checked here. If requests arrive over time, no constant holds ([J25]
    Theorem 4.1). Ties go in order of appearance.
    """

    def priority(self, request: VisibleRequest) -> int:
        """Return the predicted volume s o + o (o + 1) / 2, in tokens x rounds."""
        return request.volume

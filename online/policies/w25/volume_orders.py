"""Orders that weigh prompt and output together: s + o, and the volume s o + o (o + 1) / 2."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import VisibleRequest, register_policy


@register_policy("mc-sf-total")
class TotalLengthFirst(PriorityPolicy):
    """Smallest s + o first, up to the first request that does not fit ([W25] Section EC.1, MC-SF2).

    No guarantee: unbounded on the instances of [W25] Theorem EC.1. Ties go in order of appearance.
    """

    def priority(self, request: VisibleRequest) -> int:
        """Predicted peak memory, tokens."""
        return request.prompt_length + request.prediction.upper


@register_policy("smallest-volume-first")
class SmallestVolumeFirst(PriorityPolicy):
    """Smallest volume s o + o (o + 1) / 2 first, up to the first request that does not fit.

    The order in which the volume bound fills the rounds ([J25] Equation (9)), and on mixed lengths
    by far the best simple rule. The abstract of arXiv:2606.22327 (version 1) claims that a rule of
    this name is at most 5 times the optimum; the proof is not checked here. With arrivals no
    constant holds ([J25] Theorem 4.1). Ties go in order of appearance.
    """

    def priority(self, request: VisibleRequest) -> int:
        """Predicted token-rounds."""
        return request.volume

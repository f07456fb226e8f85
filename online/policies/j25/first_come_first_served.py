"""First come, first served, with look-ahead ([J25] Algorithm 2; [W25] Section 7)."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import VisibleRequest, register_policy


@register_policy("mc-benchmark")
class MemoryConstrainedBenchmark(PriorityPolicy):
    """Earliest arrival first, up to the first request that does not fit ([J25] Algorithm 2).

    No guarantee: unbounded on the instances of [W25] Theorem 1 in a bad order. Equal arrivals go in
    order of appearance.
    """

    def priority(self, request: VisibleRequest) -> float:
        """Arrival time."""
        return request.arrival_time


@register_policy("fcfs")
class FirstComeFirstServed(MemoryConstrainedBenchmark):
    """[W25]'s FCFS: each batch filled in order of arrival, output lengths known.

    [W25] Section 7 describes the rule of [J25]'s MC-Benchmark; both names are kept because both
    papers' tables use them.
    """

"""First come, first served, with look-ahead ([J25] Algorithm 2; [W25] Section 7)."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import VisibleRequest, register_policy


@register_policy("mc-benchmark")
class MemoryConstrainedBenchmark(PriorityPolicy):
    """Earliest arrival first, up to the first request that does not fit ([J25] Algorithm 2).

    No guarantee: if the requests of [W25] Theorem 1 arrive in a bad order, the ratio is unbounded.
    Requests that arrive together start in order of appearance.
    """

    def priority(self, request: VisibleRequest) -> float:
        """Return the arrival time, in rounds or seconds."""
        return request.arrival_time


@register_policy("fcfs")
class FirstComeFirstServed(MemoryConstrainedBenchmark):
    """FCFS of [W25]: each batch filled in order of arrival, output lengths known.

    [W25] Section 7 describes the same rule as [J25]'s MC-Benchmark. Both names are registered,
    since the tables of the two papers use them.
    """

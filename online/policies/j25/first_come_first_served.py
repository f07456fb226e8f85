"""First come, first served, with look-ahead ([J25] Algorithm 2; [W25] Section 7)."""

from __future__ import annotations

from online.policy_interface.lookahead import PriorityPolicy
from online.policy_interface.policy import VisibleRequest, register_policy


@register_policy("mc-benchmark")
class MemoryConstrainedBenchmark(PriorityPolicy):
    """Earliest arrival first, up to the first request that does not fit ([J25] Algorithm 2).

    The ratio to the optimum is unbounded, for example if the requests of [W25] Theorem 1 arrive in
    a bad order. Requests that arrive together start in order of appearance.
    """

    def priority(self, request: VisibleRequest) -> float:
        """Return the arrival time, in rounds or seconds."""
        return request.arrival_time


@register_policy("fcfs")
class FirstComeFirstServed(MemoryConstrainedBenchmark):
    """The policy FCFS of [W25]: batches are filled in order of arrival, with known output lengths.

    This rule of [W25] Section 7 is the same as MC-Benchmark of [J25]. Both names are registered,
    since the tables of the two papers use them.
    """

"""What a checked certificate proves."""

from __future__ import annotations

from dataclasses import dataclass

from instances.batch_time import BatchTime


@dataclass(frozen=True)
class Verdict:
    """Bounds that a checked certificate proves, and facts about its proof.

    Attributes
    ----------
    lower_bound : int or float
        Verified: no feasible schedule has a smaller total latency. In rounds, or in seconds where
        there is a ``batch_time``.
    upper_bound : int or None
        Total latency of the certificate's schedule, which is feasible; None in seconds, as those
        certificates have no schedule.
    kind : str
        Kind of the proof: ``"memory-prices"``, ``"state-prices"``, ``"state-search"`` or
        ``"path-search"``; for the preemptive optimum ``"preemptive-memory-prices"`` or
        ``"preemptive-prices"``; in seconds ``"round-length-prices"`` or ``"machine-bounds"``.
    requests : int
        Number of requests.
    price_sets, leaves : int
        Sizes of the proof; 0 where it has no such part. Leaves are the partial schedules of a
        search, or the nodes of graphs of paths.
    digest : str
        Digest of the instance.
    preemptive : bool
        Whether schedules may stop requests and keep their tokens: then the lower bound holds for
        those schedules too, and the certificate's schedule may be one of them.
    memory_rule : str
        How the memory rule differs from counting tokens; empty where it does not. The proof is
        about an instance in tokens for which every schedule of the instance is feasible.
    batch_time : BatchTime or None
        Seconds of a round, where the bound is in seconds.
    replicas : int
        Number of machines. In rounds the proof is about one machine with the memory of them all.
    """

    lower_bound: int | float
    upper_bound: int | None
    kind: str
    requests: int
    price_sets: int
    leaves: int
    digest: str
    preemptive: bool = False
    memory_rule: str = ""
    batch_time: BatchTime | None = None
    replicas: int = 1

    @property
    def is_optimal(self) -> bool:
        """Tell whether the bounds meet, so that the schedule is optimal."""
        return self.lower_bound == self.upper_bound

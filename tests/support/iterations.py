"""Runs in [A25]'s count of iterations."""

from __future__ import annotations

import online
from instances import Workload

EXAMPLE_2_TIME = online.IterationTime(0.4, 0.05)


def serve(source: Workload, policy: online.Policy, time: online.IterationTime) -> online.Run:
    """Simulate with a prefill that takes a round."""
    return online.simulate(source.replaced(batch_time=time), policy, prefill_rounds=1)

"""The fluid model of [A25]: equilibrium, stability, thresholds of WAIT and Nested WAIT, memory."""

from __future__ import annotations

from .balance import Equilibrium, PromptType, equilibrium, is_stable, token_load
from .nested_design import (
    MemoryRequirement,
    NestedPlan,
    Segments,
    decay_rate,
    group,
    nested_thresholds,
)
from .queueing import BatchServiceQueue, batch_service_queue, wait_mean_latency
from .wait_design import (
    WaitPlan,
    batch_cap_thresholds,
    printed_batch_cap_thresholds,
    wait_thresholds,
)

__all__ = [
    "BatchServiceQueue",
    "Equilibrium",
    "MemoryRequirement",
    "NestedPlan",
    "PromptType",
    "Segments",
    "WaitPlan",
    "batch_cap_thresholds",
    "batch_service_queue",
    "decay_rate",
    "equilibrium",
    "group",
    "is_stable",
    "nested_thresholds",
    "printed_batch_cap_thresholds",
    "token_load",
    "wait_mean_latency",
    "wait_thresholds",
]

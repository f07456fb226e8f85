"""A policy played on an instance: the machine, the run, what it measures."""

from __future__ import annotations

from .metrics import Steps, batch_size_over_time, memory_over_time, runs_frame, summarize
from .run import IncompleteRunError, Run
from .simulator import simulate

__all__ = [
    "IncompleteRunError",
    "Run",
    "Steps",
    "batch_size_over_time",
    "memory_over_time",
    "runs_frame",
    "simulate",
    "summarize",
]

"""Traces and logs of real requests as arrays and frames; windows of them as instances."""

from __future__ import annotations

from .cells import PromptBlocks
from .formats import FORMATS
from .prefixes import shared_prefixes
from .request_log import RequestLog, read_log
from .windows import TraceReport, TraceRule, read_trace, read_workload, trace_windows

__all__ = [
    "FORMATS",
    "PromptBlocks",
    "RequestLog",
    "TraceReport",
    "TraceRule",
    "read_log",
    "read_trace",
    "read_workload",
    "shared_prefixes",
    "trace_windows",
]

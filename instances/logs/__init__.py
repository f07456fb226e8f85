"""Traces and logs of real requests as arrays and frames; windows of them as instances."""

from __future__ import annotations

from .formats import FORMATS
from .prefixes import PromptBlocks, shared_prefixes
from .reading import read_log
from .request_log import RequestLog
from .windows import TraceReport, read_trace, read_workload, trace_windows

__all__ = [
    "FORMATS",
    "PromptBlocks",
    "RequestLog",
    "TraceReport",
    "read_log",
    "read_trace",
    "read_workload",
    "shared_prefixes",
    "trace_windows",
]

"""Traces and logs of real requests, read row by row; windows of them as instances."""

from __future__ import annotations

from .formats import FORMATS
from .prefixes import shared_prefixes
from .reading import TraceReader, open_trace
from .request_log import RequestLog, read_log
from .row import Measured, TraceRow
from .trace_format import TraceFormat
from .window import TraceReport, TraceRule, read_trace, read_workload, trace_windows

__all__ = [
    "FORMATS",
    "Measured",
    "RequestLog",
    "TraceFormat",
    "TraceReader",
    "TraceReport",
    "TraceRow",
    "TraceRule",
    "open_trace",
    "read_log",
    "read_trace",
    "read_workload",
    "shared_prefixes",
    "trace_windows",
]

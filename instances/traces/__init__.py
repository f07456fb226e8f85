"""Traces of real requests: published formats, read row by row, windows of them as instances."""

from __future__ import annotations

from .formats import FORMATS
from .reading import TraceReader, open_trace
from .row import TraceFormat, TraceRow
from .window import TraceReport, read_trace, read_workload, trace_windows

__all__ = [
    "FORMATS",
    "TraceFormat",
    "TraceReader",
    "TraceReport",
    "TraceRow",
    "open_trace",
    "read_trace",
    "read_workload",
    "trace_windows",
]

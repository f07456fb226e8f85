"""The problem and where it comes from: requests, instances, schedules, their checker, generators.

Symbols and the time convention are those of [J25]: a request that starts at t runs in rounds
t+1 .. t+o and holds s + (r - t) tokens in round r; the cache holds M.
"""

from __future__ import annotations

from . import prediction_families as _prediction_families  # registers generators
from . import random_families as _random_families  # registers the generators
from . import synthetic_traces as _synthetic_traces  # registers generators
from . import variable_length_families as _variable_length_families  # registers generators
from .arrival_processes import PiecewiseConstantArrivals, PoissonArrivals, SinusoidalArrivals
from .errors import FileFormatError, InvalidTypeError, InvalidValueError, MissingParameterError
from .instance import Instance
from .json_io import KnownBounds, known_bounds, load, save
from .registry import (
    UnknownNameError,
    generate,
    generator_documentation,
    generator_names,
    generator_parameters,
)
from .request import Request
from .schedule import Schedule, Violation
from .traces import (
    TraceFormat,
    TraceReader,
    TraceReport,
    TraceRow,
    open_trace,
    read_trace,
    read_workload,
    trace_windows,
)
from .workload import Workload

del _prediction_families, _random_families, _synthetic_traces, _variable_length_families

__all__ = [
    "FileFormatError",
    "Instance",
    "InvalidTypeError",
    "InvalidValueError",
    "KnownBounds",
    "MissingParameterError",
    "PiecewiseConstantArrivals",
    "PoissonArrivals",
    "Request",
    "Schedule",
    "SinusoidalArrivals",
    "TraceFormat",
    "TraceReader",
    "TraceReport",
    "TraceRow",
    "UnknownNameError",
    "Violation",
    "Workload",
    "generate",
    "generator_documentation",
    "generator_names",
    "generator_parameters",
    "known_bounds",
    "load",
    "open_trace",
    "read_trace",
    "read_workload",
    "save",
    "trace_windows",
]

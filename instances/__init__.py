"""The problem and where it comes from: requests, instances, schedules, their checker, generators.

Symbols and the time convention are those of [J25]: a request that starts at t runs in rounds
t+1 .. t+o and holds s + (r - t) tokens in round r; the cache holds M.
"""

from __future__ import annotations

from . import prediction_families as _prediction_families  # registers generators
from . import random_families as _random_families  # registers the generators
from .arrival_processes import PiecewiseConstantArrivals, PoissonArrivals, SinusoidalArrivals
from .azure_trace import TraceReport, read_azure_trace, read_azure_workload
from .errors import FileFormatError, InvalidTypeError, InvalidValueError
from .instance import Instance
from .json_io import KnownBounds, known_bounds, load, save
from .registry import UnknownNameError, generate, generator_names, generator_parameters
from .request import Request
from .schedule import Schedule, Violation
from .workload import Workload

del _prediction_families, _random_families

__all__ = [
    "FileFormatError",
    "Instance",
    "InvalidTypeError",
    "InvalidValueError",
    "KnownBounds",
    "PiecewiseConstantArrivals",
    "PoissonArrivals",
    "Request",
    "Schedule",
    "SinusoidalArrivals",
    "TraceReport",
    "UnknownNameError",
    "Violation",
    "Workload",
    "generate",
    "generator_names",
    "generator_parameters",
    "known_bounds",
    "load",
    "read_azure_trace",
    "read_azure_workload",
    "save",
]

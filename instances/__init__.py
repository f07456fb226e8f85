"""The problem and where it comes from: requests, instances, schedules, their checker, generators.

Symbols and the time convention are those of [J25]: a request that starts at t runs in rounds
t+1 .. t+o and holds s + (r - t) tokens in round r; the cache holds M.
"""

from __future__ import annotations

from . import cascade as _cascade  # registers its generator, as those below do
from . import prediction_families as _prediction_families
from . import random_families as _random_families
from . import sqrt_n_adversary as _sqrt_n_adversary
from . import synthetic_traces as _synthetic_traces
from . import traps as _traps
from . import variable_length_families as _variable_length_families
from .arrival_processes import PiecewiseConstantArrivals, PoissonArrivals, SinusoidalArrivals
from .errors import FileFormatError, InvalidTypeError, InvalidValueError, MissingParameterError
from .instance import Instance
from .json_io import KnownBounds, known_bounds, load, save
from .reductions import (
    partition_makespan_instance,
    read_partition,
    read_three_partition,
    three_partition_instance,
    three_partition_target,
)
from .registry import (
    UnknownNameError,
    generate,
    generator_documentation,
    generator_names,
    generator_parameters,
)
from .request import Request
from .rounding import rounding_note
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

del _cascade, _prediction_families, _random_families, _sqrt_n_adversary
del _synthetic_traces, _traps, _variable_length_families

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
    "partition_makespan_instance",
    "read_partition",
    "read_three_partition",
    "read_trace",
    "read_workload",
    "rounding_note",
    "save",
    "three_partition_instance",
    "three_partition_target",
    "trace_windows",
]

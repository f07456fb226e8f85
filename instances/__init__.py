"""The scheduling problem: requests, instances, schedules and their checks, generators, logs.

Symbols and the time convention are those of [J25]. A request with prompt length s and output length
o that starts at t runs in rounds t+1 .. t+o and holds s + (r - t) tokens in round r. All requests
together hold at most M tokens.
"""

from __future__ import annotations

from .adversaries.proof_schedules import class_batches, one_long_and_units
from .batch_time.seconds_schedule import SecondsSchedule
from .catalogue.library import Library, LibraryEntry, LibrarySet, library
from .catalogue.records import Record, RecordStore
from .errors import FileFormatError, InvalidTypeError, InvalidValueError, UnknownNameError
from .generators.registry import generate, generator_names
from .logs.reading import read_log
from .logs.request_log import RequestLog
from .logs.windows import TraceReport, read_trace, read_workload, trace_windows
from .problem.fleet_schedule import FleetSchedule
from .problem.instance import Instance
from .problem.json_io import KnownBounds, known_bounds, load, save
from .problem.memory_rule import MemoryRule
from .problem.preemptive_schedule import PreemptiveSchedule
from .problem.request import Request
from .problem.rounding import rounding_note
from .problem.schedule import Schedule, Violation
from .problem.workload import Workload
from .service_level import ServiceLevel
from .version import __version__  # noqa: F401

__all__ = [
    "FileFormatError",
    "FleetSchedule",
    "Instance",
    "InvalidTypeError",
    "InvalidValueError",
    "KnownBounds",
    "Library",
    "LibraryEntry",
    "LibrarySet",
    "MemoryRule",
    "PreemptiveSchedule",
    "Record",
    "RecordStore",
    "Request",
    "RequestLog",
    "Schedule",
    "SecondsSchedule",
    "ServiceLevel",
    "TraceReport",
    "UnknownNameError",
    "Violation",
    "Workload",
    "class_batches",
    "generate",
    "generator_names",
    "known_bounds",
    "library",
    "load",
    "one_long_and_units",
    "read_log",
    "read_trace",
    "read_workload",
    "rounding_note",
    "save",
    "trace_windows",
]

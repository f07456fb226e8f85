"""The best that could have been done without preemption: exact optima, certified bounds.

A schedule runs each request from start to end, and so does every optimum and bound here. Schedulers
that evict and lose the work, or pause and hold the memory, cannot be better; one that preempts a
request and keeps its tokens can.

Names are imported on first use, so that what needs no solver (the volume bounds, the exact price
bounds, the certificate checker) loads neither Pyomo nor HiGHS.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .certificate import make_certificate, write_certificate
    from .certificate_check import (
        CertificateError,
        Verdict,
        check_certificate,
        read_certificate,
    )
    from .exact import solve
    from .explicit_schedules import class_batches, one_long_and_units
    from .highs import SolverError
    from .horizon import HorizonProof, proved_horizon
    from .interval import ScheduleCheckError
    from .list_schedules import best_list_schedule, prefix_schedule
    from .models import build_model, export_model
    from .relaxation import relax
    from .results import Progress, Relaxation, RelaxationProgress, SolveResult
    from .second_opinion import DisagreementError, SecondOpinion, crosscheck, solve_with_cbc
    from .strengthened import StrengthenedRelaxation, relax_strengthened
    from .transportation import transportation_bound
    from .volume_bounds import mean_busy_time_bound

_HOMES = {
    "CertificateError": "certificate_check",
    "DisagreementError": "second_opinion",
    "HorizonProof": "horizon",
    "Progress": "results",
    "Relaxation": "results",
    "RelaxationProgress": "results",
    "ScheduleCheckError": "interval",
    "SecondOpinion": "second_opinion",
    "SolveResult": "results",
    "SolverError": "highs",
    "StrengthenedRelaxation": "strengthened",
    "Verdict": "certificate_check",
    "best_list_schedule": "list_schedules",
    "build_model": "models",
    "check_certificate": "certificate_check",
    "class_batches": "explicit_schedules",
    "crosscheck": "second_opinion",
    "export_model": "models",
    "make_certificate": "certificate",
    "mean_busy_time_bound": "volume_bounds",
    "one_long_and_units": "explicit_schedules",
    "prefix_schedule": "list_schedules",
    "proved_horizon": "horizon",
    "read_certificate": "certificate_check",
    "relax": "relaxation",
    "relax_strengthened": "strengthened",
    "solve": "exact",
    "solve_with_cbc": "second_opinion",
    "transportation_bound": "transportation",
    "write_certificate": "certificate",
}

__all__ = [
    "CertificateError",
    "DisagreementError",
    "HorizonProof",
    "Progress",
    "Relaxation",
    "RelaxationProgress",
    "ScheduleCheckError",
    "SecondOpinion",
    "SolveResult",
    "SolverError",
    "StrengthenedRelaxation",
    "Verdict",
    "best_list_schedule",
    "build_model",
    "check_certificate",
    "class_batches",
    "crosscheck",
    "export_model",
    "make_certificate",
    "mean_busy_time_bound",
    "one_long_and_units",
    "prefix_schedule",
    "proved_horizon",
    "read_certificate",
    "relax",
    "relax_strengthened",
    "solve",
    "solve_with_cbc",
    "transportation_bound",
    "write_certificate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

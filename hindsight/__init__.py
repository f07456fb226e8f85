"""The best that could have been done: exact optima, certified bounds.

A schedule runs each request from start to end, and so does every optimum and bound here but those
of ``solve(instance, preemptive=True)``. Schedulers that evict and lose the work, or pause and hold
the memory, cannot be better; one that preempts a request and keeps its tokens can, and has that
optimum of its own.

Names are imported on first use, so that what needs no solver (the volume bounds, the exact price
bounds, the certificate checker) loads neither Pyomo nor HiGHS.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from instances.version import package_version as _package_version

if TYPE_CHECKING:
    from .bounds.transportation import transportation_bound
    from .bounds.volume import mean_busy_time_bound
    from .certificates.checking import Verdict, check_certificate
    from .certificates.format import (
        CertificateError,
        CertificateTooLargeError,
        MalformedCertificateError,
        read_certificate,
    )
    from .certificates.writing import make_certificate, write_certificate
    from .configurations.strengthened import StrengthenedRelaxation, relax_strengthened
    from .crosschecking import crosscheck
    from .extensions.bounds import bound_names, register_bound
    from .extensions.cuts import cut_names, register_cut
    from .heuristics.list_scheduling import best_list_schedule, prefix_schedule
    from .heuristics.proof_schedules import class_batches, one_long_and_units
    from .integer_program.cbc import SecondOpinion, solve_with_cbc
    from .integer_program.horizon import HorizonProof, proved_horizon
    from .integer_program.models import build_model, export_model
    from .integer_program.own_models import ModelResult
    from .integer_program.solution_files import read_solution
    from .outcomes.errors import DisagreementError, ScheduleCheckError, SolverError
    from .outcomes.results import (
        PreemptiveResult,
        Progress,
        Relaxation,
        RelaxationProgress,
        SolveResult,
    )
    from .relaxation.methods import relax
    from .seconds.results import SecondsProgress, SecondsResult
    from .solver import solve
    from .strategies.registry import register_strategy, strategy_names
    from .testing.checking import check_bound, check_cut, check_strategy
    from .testing.verdicts import CheckError, CheckReport

_HOMES = {
    "CertificateError": "certificates.format",
    "CertificateTooLargeError": "certificates.format",
    "CheckError": "testing.verdicts",
    "CheckReport": "testing.verdicts",
    "DisagreementError": "outcomes.errors",
    "HorizonProof": "integer_program.horizon",
    "MalformedCertificateError": "certificates.format",
    "ModelResult": "integer_program.own_models",
    "PreemptiveResult": "outcomes.results",
    "Progress": "outcomes.results",
    "Relaxation": "outcomes.results",
    "RelaxationProgress": "outcomes.results",
    "ScheduleCheckError": "outcomes.errors",
    "SecondOpinion": "integer_program.cbc",
    "SecondsProgress": "seconds.results",
    "SecondsResult": "seconds.results",
    "SolveResult": "outcomes.results",
    "SolverError": "outcomes.errors",
    "StrengthenedRelaxation": "configurations.strengthened",
    "Verdict": "certificates.checking",
    "best_list_schedule": "heuristics.list_scheduling",
    "bound_names": "extensions.bounds",
    "build_model": "integer_program.models",
    "check_bound": "testing.checking",
    "check_certificate": "certificates.checking",
    "check_cut": "testing.checking",
    "check_strategy": "testing.checking",
    "class_batches": "heuristics.proof_schedules",
    "crosscheck": "crosschecking",
    "cut_names": "extensions.cuts",
    "export_model": "integer_program.models",
    "make_certificate": "certificates.writing",
    "mean_busy_time_bound": "bounds.volume",
    "one_long_and_units": "heuristics.proof_schedules",
    "prefix_schedule": "heuristics.list_scheduling",
    "proved_horizon": "integer_program.horizon",
    "read_certificate": "certificates.format",
    "read_solution": "integer_program.solution_files",
    "register_bound": "extensions.bounds",
    "register_cut": "extensions.cuts",
    "register_strategy": "strategies.registry",
    "relax": "relaxation.methods",
    "relax_strengthened": "configurations.strengthened",
    "solve": "solver",
    "solve_with_cbc": "integer_program.cbc",
    "strategy_names": "strategies.registry",
    "transportation_bound": "bounds.transportation",
    "write_certificate": "certificates.writing",
}

__all__ = [
    "CertificateError",
    "CertificateTooLargeError",
    "CheckError",
    "CheckReport",
    "DisagreementError",
    "HorizonProof",
    "MalformedCertificateError",
    "ModelResult",
    "PreemptiveResult",
    "Progress",
    "Relaxation",
    "RelaxationProgress",
    "ScheduleCheckError",
    "SecondOpinion",
    "SecondsProgress",
    "SecondsResult",
    "SolveResult",
    "SolverError",
    "StrengthenedRelaxation",
    "Verdict",
    "best_list_schedule",
    "bound_names",
    "build_model",
    "check_bound",
    "check_certificate",
    "check_cut",
    "check_strategy",
    "class_batches",
    "crosscheck",
    "cut_names",
    "export_model",
    "make_certificate",
    "mean_busy_time_bound",
    "one_long_and_units",
    "prefix_schedule",
    "proved_horizon",
    "read_certificate",
    "read_solution",
    "register_bound",
    "register_cut",
    "register_strategy",
    "relax",
    "relax_strengthened",
    "solve",
    "solve_with_cbc",
    "strategy_names",
    "transportation_bound",
    "write_certificate",
]


__version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _package_version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

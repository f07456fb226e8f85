"""Exact optima of the offline scheduling problem, and certified lower bounds on them.

For instances, whose time is in rounds, a request runs from start to end without a break, except
with ``solve(instance, preemption="keep")``. A scheduler that evicts a request and loses its work,
or pauses it and holds its memory, cannot beat these optima. A scheduler that preempts a request and
keeps its tokens can, and is compared with the preemptive optimum.

Names are imported on first use. So functions that need no solver (such as the certificate checker)
load neither Pyomo nor HiGHS.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from instances.version import __version__  # noqa: F401

if TYPE_CHECKING:
    from .certificates.checking import check_certificate as check_certificate
    from .certificates.format import CertificateError as CertificateError
    from .certificates.format import MalformedCertificateError as MalformedCertificateError
    from .certificates.format import read_certificate as read_certificate
    from .certificates.writing import make_certificate as make_certificate
    from .certificates.writing import write_certificate as write_certificate
    from .exact.own_models import solve_model as solve_model
    from .exact.pyomo_model import build_model as build_model
    from .exact.second_opinion import second_opinion as second_opinion
    from .exact.solution_files import read_solution as read_solution
    from .outcomes.errors import ScheduleCheckError as ScheduleCheckError
    from .outcomes.errors import SolverError as SolverError
    from .outcomes.goals import OnTime as OnTime
    from .outcomes.goals import Tail as Tail
    from .outcomes.result import Bound as Bound
    from .outcomes.result import Progress as Progress
    from .outcomes.result import Relaxation as Relaxation
    from .outcomes.result import Result as Result
    from .prices.volume import transportation_bound as transportation_bound
    from .relaxation import relax as relax
    from .schedules.lists import best_list_schedule as best_list_schedule
    from .sizing import fewest_replicas as fewest_replicas
    from .solver import solve as solve
    from .testing import check_bound as check_bound

_NAMES = {
    "prices.volume": ("transportation_bound",),
    "certificates.checking": ("check_certificate",),
    "certificates.format": ("CertificateError", "MalformedCertificateError", "read_certificate"),
    "certificates.writing": ("make_certificate", "write_certificate"),
    "exact.own_models": ("solve_model",),
    "exact.pyomo_model": ("build_model",),
    "exact.second_opinion": ("second_opinion",),
    "exact.solution_files": ("read_solution",),
    "outcomes.goals": ("OnTime", "Tail"),
    "schedules.lists": ("best_list_schedule",),
    "outcomes.errors": ("ScheduleCheckError", "SolverError"),
    "relaxation": ("relax",),
    "outcomes.result": ("Bound", "Progress", "Relaxation", "Result"),
    "sizing": ("fewest_replicas",),
    "solver": ("solve",),
    "testing": ("check_bound",),
}
"""Public names of this package, by the module that defines them and is imported on first use."""

_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

"""The best that could have been done: exact optima, relaxations and certified bounds.

Names are imported on first use, so that what needs no solver (the volume bounds, the exact price
bounds, the certificate checker) loads neither Pyomo nor HiGHS.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exact import solve
    from .highs import SolverError
    from .horizon import HorizonProof, proved_horizon
    from .interval import ScheduleCheckError
    from .list_schedules import best_list_schedule, prefix_schedule
    from .models import build_model, export_model
    from .relaxation import relax
    from .results import Progress, Relaxation, SolveResult
    from .second_opinion import DisagreementError, SecondOpinion, crosscheck, solve_with_cbc
    from .volume_bounds import mean_busy_time_bound

_HOMES = {
    "DisagreementError": "second_opinion",
    "HorizonProof": "horizon",
    "Progress": "results",
    "Relaxation": "results",
    "ScheduleCheckError": "interval",
    "SecondOpinion": "second_opinion",
    "SolveResult": "results",
    "SolverError": "highs",
    "best_list_schedule": "list_schedules",
    "build_model": "models",
    "crosscheck": "second_opinion",
    "export_model": "models",
    "mean_busy_time_bound": "volume_bounds",
    "prefix_schedule": "list_schedules",
    "proved_horizon": "horizon",
    "relax": "relaxation",
    "solve": "exact",
    "solve_with_cbc": "second_opinion",
}

__all__ = [
    "DisagreementError",
    "HorizonProof",
    "Progress",
    "Relaxation",
    "ScheduleCheckError",
    "SecondOpinion",
    "SolveResult",
    "SolverError",
    "best_list_schedule",
    "build_model",
    "crosscheck",
    "export_model",
    "mean_busy_time_bound",
    "prefix_schedule",
    "proved_horizon",
    "relax",
    "solve",
    "solve_with_cbc",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

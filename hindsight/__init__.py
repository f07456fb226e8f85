"""The best that could have been done: exact optima, relaxations and certified bounds."""

from __future__ import annotations

from .exact import ScheduleCheckError, solve
from .highs import SolverError
from .horizon import HorizonProof, proved_horizon
from .list_schedules import best_list_schedule, prefix_schedule
from .models import build_model, export_model
from .relaxation import relax
from .results import Progress, Relaxation, SolveResult
from .second_opinion import DisagreementError, SecondOpinion, crosscheck, solve_with_cbc
from .volume_bounds import mean_busy_time_bound

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

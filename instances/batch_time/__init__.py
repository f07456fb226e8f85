"""How long a round lasts, given the batch it runs: models, presets, schedules in seconds."""

from __future__ import annotations

from .iteration_time import IterationTime
from .models import AffineTime, BatchStretch, BatchTime, PiecewiseLinearTime, UnitTime
from .presets import LLAMA_2_70B_2XA100, Preset, preset, preset_names
from .seconds_schedule import SecondsSchedule, SecondsViolation, Stretch

__all__ = [
    "LLAMA_2_70B_2XA100",
    "AffineTime",
    "BatchStretch",
    "BatchTime",
    "IterationTime",
    "PiecewiseLinearTime",
    "Preset",
    "SecondsSchedule",
    "SecondsViolation",
    "Stretch",
    "UnitTime",
    "preset",
    "preset_names",
]

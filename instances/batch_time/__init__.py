"""How long a round lasts, given the batch it runs: models, presets, schedules in seconds."""

from __future__ import annotations

from .iteration_time import IterationTime
from .models import AffineTime, BatchStretch, BatchTime, PiecewiseLinearTime, UnitTime
from .presets import LLAMA_2_70B_2XA100, Preset, parse_batch_time, preset, preset_names
from .seconds_schedule import SecondsSchedule, Stretch
from .seconds_violation import SecondsViolation

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
    "parse_batch_time",
    "preset",
    "preset_names",
]

"""Batch times (models of the seconds that a round takes), presets, and schedules in seconds."""

from __future__ import annotations

from instances.problem.batches import BatchStretch, BatchTime

from .models import AffineTime, IterationTime
from .presets import Preset, parse_batch_time, preset, preset_names
from .seconds_schedule import SecondsSchedule, Stretch
from .tiled_time import TiledTime

__all__ = [
    "AffineTime",
    "BatchStretch",
    "BatchTime",
    "IterationTime",
    "Preset",
    "SecondsSchedule",
    "Stretch",
    "TiledTime",
    "parse_batch_time",
    "preset",
    "preset_names",
]

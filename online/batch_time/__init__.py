"""How long a round lasts, given the batch it runs: models, fits to measurements, presets."""

from __future__ import annotations

from instances.arrays import FloatArray

from .fitting import Fit, Measurements, fit_affine_time, fit_piecewise_linear_time
from .models import AffineTime, BatchStretch, BatchTime, PiecewiseLinearTime, UnitTime
from .presets import LLAMA_2_70B_2XA100, Preset, preset, preset_names

__all__ = [
    "LLAMA_2_70B_2XA100",
    "AffineTime",
    "BatchStretch",
    "BatchTime",
    "Fit",
    "FloatArray",
    "Measurements",
    "PiecewiseLinearTime",
    "Preset",
    "UnitTime",
    "fit_affine_time",
    "fit_piecewise_linear_time",
    "preset",
    "preset_names",
]

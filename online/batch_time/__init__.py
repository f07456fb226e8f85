"""How long a round lasts, given the batch it runs: models, fits to measurements, presets."""

from __future__ import annotations

from instances.arrays import FloatArray

from .fitting import Fit, Measurements, fit_affine_time, fit_piecewise_linear_time
from .iteration_time import IterationTime
from .models import AffineTime, BatchStretch, BatchTime, PiecewiseLinearTime, UnitTime
from .presets import LLAMA_2_70B_2XA100, Preset, preset, preset_names
from .service_model import PREFILL_ROUND, TOKEN_PER_ROUND, ServiceModel

__all__ = [
    "LLAMA_2_70B_2XA100",
    "PREFILL_ROUND",
    "TOKEN_PER_ROUND",
    "AffineTime",
    "BatchStretch",
    "BatchTime",
    "Fit",
    "FloatArray",
    "IterationTime",
    "Measurements",
    "PiecewiseLinearTime",
    "Preset",
    "ServiceModel",
    "UnitTime",
    "fit_affine_time",
    "fit_piecewise_linear_time",
    "preset",
    "preset_names",
]

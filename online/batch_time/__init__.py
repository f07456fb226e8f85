"""Batch times and service models: fits, rounds of a request, and the problem's models.

The batch-time models themselves belong to the problem and live in `instances.batch_time`.
"""

from __future__ import annotations

from instances.arrays import FloatArray
from instances.batch_time import (
    LLAMA_2_70B_2XA100,
    AffineTime,
    BatchStretch,
    BatchTime,
    IterationTime,
    Preset,
    TiledTime,
    UnitTime,
    preset,
    preset_names,
)

from .fitting import Fit, fit_affine_time, fit_tiled_time
from .measured_tables import read_batch_time
from .measurements import Measurements, RegimeError
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
    "Preset",
    "RegimeError",
    "ServiceModel",
    "TiledTime",
    "UnitTime",
    "fit_affine_time",
    "fit_tiled_time",
    "preset",
    "preset_names",
    "read_batch_time",
]

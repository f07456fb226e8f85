"""Fits of batch times to measurements, and service models: how many rounds a request takes.

The batch-time models themselves belong to the problem and are in `instances.batch_time`.
"""

from __future__ import annotations

from .fitting import Fit, fit_affine_time, fit_tiled_time
from .measured_tables import read_batch_time
from .measurements import Measurements, RegimeError
from .service_model import PREFILL_ROUND, TOKEN_PER_ROUND, ServiceModel

__all__ = [
    "PREFILL_ROUND",
    "TOKEN_PER_ROUND",
    "Fit",
    "Measurements",
    "RegimeError",
    "ServiceModel",
    "fit_affine_time",
    "fit_tiled_time",
    "read_batch_time",
]

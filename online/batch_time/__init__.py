"""Fits of batch times to measurements.

The batch-time models themselves belong to the problem and are in `instances.batch_time`.
"""

from __future__ import annotations

from .fitting import fit_tiled_time
from .measured_tables import read_batch_time
from .measurements import Measurements

__all__ = [
    "Measurements",
    "fit_tiled_time",
    "read_batch_time",
]

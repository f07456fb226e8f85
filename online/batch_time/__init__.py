"""Fits of batch times, models of the seconds that a round takes, to measurements.

The models themselves are in `instances.batch_time`.
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

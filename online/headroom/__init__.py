"""Headroom of a log: the most latency that could have been saved, and each policy's share."""

from __future__ import annotations

from .answer import Headroom, Measured
from .measuring import HeadroomProgress, measure_headroom
from .page import headroom_page

__all__ = ["Headroom", "HeadroomProgress", "Measured", "headroom_page", "measure_headroom"]

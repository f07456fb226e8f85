"""How much latency could have been saved at most on a log, and who gets how much of it."""

from __future__ import annotations

from .answer import Headroom, Measured
from .measuring import HeadroomProgress, measure_headroom
from .page import headroom_page

__all__ = ["Headroom", "HeadroomProgress", "Measured", "headroom_page", "measure_headroom"]

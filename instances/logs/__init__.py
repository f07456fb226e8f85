"""Read traces and logs of real requests as arrays or frames, and windows of them as instances."""

from __future__ import annotations

from .formats import FORMATS
from .prefixes import shared_prefixes

__all__ = ["FORMATS", "shared_prefixes"]

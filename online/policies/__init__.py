"""The policies; importing this package registers them all."""

from __future__ import annotations

from . import first_come_first_served, mc_sf

__all__ = ["first_come_first_served", "mc_sf"]

"""Checks of a policy: properties of every online policy, tried on drawn instances."""

from __future__ import annotations

from .checking import check_policy

__all__ = ["check_policy"]

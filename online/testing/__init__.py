"""Checks of a policy on random instances: properties that every online policy must have."""

from __future__ import annotations

from .checking import check_policy

__all__ = ["check_policy"]

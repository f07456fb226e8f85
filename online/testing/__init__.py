"""A test kit for policies: what every online policy must hold, tried on drawn instances."""

from __future__ import annotations

from .checking import check_policy
from .verdicts import PolicyCheckError, PolicyReport, Verdict

__all__ = ["PolicyCheckError", "PolicyReport", "Verdict", "check_policy"]

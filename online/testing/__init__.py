"""A test kit for policies: what every online policy must hold, tried on drawn instances."""

from __future__ import annotations

from hindsight.testing import Verdict

from .checking import PolicyCheckError, PolicyReport, check_policy

__all__ = ["PolicyCheckError", "PolicyReport", "Verdict", "check_policy"]

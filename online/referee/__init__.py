"""A referee for policies that nobody has read: run apart, and scored by certified ratios."""

from __future__ import annotations

from .judging import Case, Ruling, fresh_cases, judge, library_cases
from .sandbox import Limits

__all__ = ["Case", "Limits", "Ruling", "fresh_cases", "judge", "library_cases"]

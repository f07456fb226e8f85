"""A run's report as one self-contained page: ratios, and schedules beside their optima."""

from __future__ import annotations

from online.comparison.trial_records import TrialRecord, compare_in_full

from .page import build_report

__all__ = ["TrialRecord", "build_report", "compare_in_full"]

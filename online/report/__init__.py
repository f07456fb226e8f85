"""A run's report as one self-contained page: ratios, and schedules beside their optima.

plotly comes with the extra ``experiments`` and is imported when a page is built; its script is
written into the page, which then needs nothing but a browser.
"""

from __future__ import annotations

from online.comparison.trial_records import TrialRecord, compare_in_full

from .page import build_report

__all__ = ["TrialRecord", "build_report", "compare_in_full"]
